/* network.c - recording a model for training and for evaluation over the same parameters. */
#include "train/network.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops/ops.h"

enum { BATCHES = 3 }; /* that are in memory at one time: used, ready, being made */

static enum status record(struct graph **out, struct network *n, bool train, struct error *err)
{
    const struct experiment *x = n->experiment;
    const struct model_shape *s = &n->shape;
    const struct graph_options options = {
        .batch = n->slice,
        .gradients = train,
        .noise = train,
        .seed = x->seed,
    };
    struct graph *g = graph_create(&n->params, &options);
    if (!g)
        return error_memory(err, sizeof *g);
    *out = g;
    struct shape images = SHAPE(n->slice, s->channels, s->height, s->width);
    struct tensor *image = graph_input(g, "x", TYPE_REAL, images, false);
    struct tensor *label = graph_input(g, "y", TYPE_INT, SHAPE(n->slice), false);
    struct tensor *logits = model_of(&x->model)->record(g, x->model.options, image);
    struct tensor *loss = op_cross_entropy(g, logits, label, train ? x->train.label_smoothing : 0);
    graph_output(g, logits);
    graph_output(g, loss);
    if (train)
        graph_set_loss(g, loss);
    enum status status = graph_plan(g, err);
    if (status)
        error_prefix(err, "model: ");
    return status;
}

/* Marks what train.freeze names. Runs between the recordings: a graph takes the flags as they are.
 */
static enum status freeze(struct network *n, struct error *err)
{
    const struct experiment *x = n->experiment;
    const struct strings *patterns = &x->train.freeze;
    for (int k = 0; k < patterns->count; k++) {
        int matches = 0;
        for (int i = 0; i < n->params.count; i++) {
            struct param *param = n->params.list[i];
            if (fnmatch(patterns->at[k], param->name, 0) == 0) {
                param->flags |= PARAM_FROZEN;
                matches++;
            }
        }
        if (!matches)
            return config_error(x->config, err, "train.freeze",
                                "\"%s\" matches no parameter (see attnbench info for their names)",
                                patterns->at[k]);
    }
    for (int i = 0; i < n->params.count; i++)
        if (!(n->params.list[i]->flags & (PARAM_FROZEN | PARAM_BUFFER)))
            return OK;
    return config_error(x->config, err, "train.freeze", "leaves no parameter to train");
}

/* Elements of all parameters and buffers, and of the trained ones. */
static void count_params(const struct network *n, double *total, double *trained)
{
    *total = *trained = 0;
    for (int i = 0; i < n->params.count; i++) {
        const struct param *param = n->params.list[i];
        *total += (double)param->count;
        if (!(param->flags & (PARAM_FROZEN | PARAM_BUFFER)))
            *trained += (double)param->count;
    }
}

static int at_most(int a, int b)
{
    return a < b ? a : b;
}

/* Memory is touched only as a run goes on, and a system that promised too much ends the process
 * then. */
static enum status check_memory(const struct network *n, int batch, int lanes, int moments,
                                int infer_workers, int train_workers, struct error *err)
{
    double total, trained;
    count_params(n, &total, &trained);
    double images = BATCHES * (double)batch * n->shape.channels * n->shape.height * n->shape.width;
    double reals = total * (n->experiment->train.ema && n->train ? 2 : 1) +
                   trained * (lanes + moments) + images;
    double bytes = reals * sizeof(real) + (double)infer_workers * (double)n->infer->block_bytes;
    if (n->train)
        bytes += (double)train_workers * (double)n->train->block_bytes;
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (machine <= 0 || bytes <= machine)
        return OK;
    return config_error(n->experiment->config, err, "model",
                        "needs %.1f GB of memory, this machine has %.1f GB (use a smaller model, "
                        "smaller images, smaller batches or fewer threads)",
                        bytes / 1e9, machine / 1e9);
}

static enum status network_build(struct network *n, enum network_mode mode, int batch,
                                 struct error *err)
{
    const struct experiment *x = n->experiment;
    bool train = mode == NETWORK_TRAIN;
    enum status status = record(&n->infer, n, false, err);
    if (!status && train)
        status = freeze(n, err);
    if (!status && train)
        status = record(&n->train, n, true, err);
    if (status)
        return status;
    n->macs = graph_macs(n->infer) / n->slice;

    int slices = (batch + n->slice - 1) / n->slice;
    int lanes = train ? experiment_lanes(x, batch, params_counted(&n->params)) : 0;
    int moments = train ? optimizer_of(&x->train.optimizer)->moments : 0;
    int infer_workers = at_most(n->threads, slices), train_workers = at_most(n->threads, lanes);
    n->train_threads = train_workers;
    status = check_memory(n, batch, lanes, moments, infer_workers, train_workers, err);
    if (!status)
        status = params_allocate(&n->params, x->seed, lanes, moments, train && x->train.ema, err);
    if (!status)
        status = runner_create(&n->infer_run, n->infer, infer_workers, err);
    if (!status && train)
        status = runner_create(&n->train_run, n->train, train_workers, err);
    return status;
}

enum status network_create(struct network **out, const struct experiment *x, enum network_mode mode,
                           int batch, int threads, struct error *err)
{
    struct network *n = calloc(1, sizeof *n);
    if (!n)
        return error_memory(err, sizeof *n);
    n->experiment = x;
    n->shape = model_of(&x->model)->shape(x->model.options);
    n->threads = threads > 0 ? threads : 1;
    n->slice = experiment_slice(x, batch);
    params_init(&n->params);
    enum status status = network_build(n, mode, batch, err);
    if (status)
        network_destroy(n);
    else
        *out = n;
    return status;
}

void network_destroy(struct network *n)
{
    if (!n)
        return;
    runner_destroy(n->train_run);
    runner_destroy(n->infer_run);
    graph_free(n->train);
    graph_free(n->infer);
    params_free(&n->params);
    free(n);
}
