/* network.c - recording a model for training and for evaluation over the same parameters. */
#include "train/network.h"

#include <fnmatch.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "ops/ops.h"
#include "train/layer_decay.h"
#include "train/teacher.h"

/* Threads that may be more than cores, so that results can be compared on any machine. */
enum { THREADS_ALWAYS = 8 };

/* A result of the graph, fetched by its place, or where the graph traces by its name. */
static void add_output(struct graph *g, const char *name, struct tensor *t)
{
    if (!g->options.trace) {
        graph_output(g, t);
        return;
    }
    graph_scope_push(g, "%s", name);
    graph_trace(g, t);
    graph_scope_pop(g);
}

/* The loss of each image. Cross entropy is linear in the target, so that of a mixture of two labels
 * is the mixture of two losses. */
static struct tensor *record_loss(struct graph *g, struct tensor *logits, struct tensor *label,
                                  const struct recording *how)
{
    struct tensor *loss = op_cross_entropy(g, logits, label, how->smoothing);
    if (!how->mixed)
        return loss;
    struct shape batch = SHAPE(how->batch);
    struct tensor *partner = graph_input(g, "partner", TYPE_INT, batch, false);
    struct tensor *share = graph_input(g, "share", TYPE_REAL, batch, false);
    struct tensor *rest = graph_input(g, "rest", TYPE_REAL, batch, false);
    struct tensor *other = op_cross_entropy(g, logits, partner, how->smoothing);
    return op_add(g, op_multiply(g, loss, share), op_multiply(g, other, rest));
}

/* The loss with its part of a teacher, whose logits are the next input.  loss: (B). Returns (B). */
static struct tensor *add_distance(struct graph *g, const struct recording *how, struct tensor *loss,
                                   struct tensor *logits)
{
    const struct distill_config *d = how->distill;
    struct tensor *teacher = graph_input(g, "teacher", TYPE_REAL, logits->shape, false);
    struct tensor *distance =
        op_distill(g, logits, teacher, (enum distill_kind)d->kind, d->temperature);
    return op_add(g, op_scale(g, loss, 1 - d->weight), op_scale(g, distance, d->weight));
}

static void record_nodes(struct graph *g, const struct experiment *x, const struct recording *how)
{
    const struct model *model = model_of(&x->model);
    const void *options = how->model ? how->model : x->model.options;
    struct model_shape s = model->shape(options);
    struct shape images = SHAPE(how->batch, s.channels, s.height, s.width);
    struct tensor *image = graph_input(g, "x", TYPE_REAL, images, how->trace);
    struct tensor *label = NULL, *end;
    if (!how->unlabelled)
        label = graph_input(g, "y", TYPE_INT, SHAPE(how->batch), false);
    struct tensor *taught = NULL;
    struct tensor *logits = end = model->record(g, options, image, how->distill ? &taught : NULL);
    add_output(g, "logits", logits);
    if (label) {
        end = record_loss(g, logits, label, how);
        if (how->distill)
            end = add_distance(g, how, end, taught ? taught : logits);
        add_output(g, "loss", end);
    }
    if (how->gradients)
        graph_set_loss(g, end);
}

enum status network_record(struct graph **out, struct params *params, const struct experiment *x,
                           const struct recording *how, struct error *err)
{
    const struct graph_options options = {
        .batch = how->batch,
        .team = how->team,
        .gradients = how->gradients,
        .noise = how->noise,
        .trace = how->trace,
        .type = experiment_type(x),
        .seed = x->seed,
    };
    struct graph *g = *out = graph_create(params, &options);
    if (!g)
        return error_memory(err, sizeof *g);
    record_nodes(g, x, how);
    if (how->fused)
        graph_fuse(g);
    if (x->train.recompute)
        graph_recompute(g);
    struct error failure;
    enum status status = graph_plan(g, &failure);
    if (!status)
        return OK;
    graph_free(g);
    *out = NULL;
    if (status == ERR_MEMORY)
        return error_set(err, status, "%s", failure.text);
    return config_error(x->config, err, "model", "%s", failure.text);
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

static enum status choose_rates(struct network *n, struct error *err)
{
    const struct experiment *x = n->experiment;
    if (x->train.layer_decay == 1)
        return OK;
    n->rates = malloc((size_t)n->params.count * sizeof *n->rates);
    if (!n->rates)
        return error_memory(err, (size_t)n->params.count * sizeof *n->rates);
    layer_decay_rates(n->rates, &n->params, &x->model, x->train.layer_decay);
    return OK;
}

static int at_most(int a, int b)
{
    return a < b ? a : b;
}

/* Of an evaluation. */
static int slices_of(const struct network *n)
{
    return (n->batch + n->slice - 1) / n->slice;
}

/* Threads that work on a slice at a time. */
static int team_of(const struct network *n, bool train)
{
    int workers = train ? n->train_workers : n->infer_workers;
    return workers > 1 ? 1 : n->threads;
}

static void choose_lanes(struct network *n, int lanes)
{
    n->lanes = lanes;
    n->train_workers = runner_workers(lanes, n->threads);
    n->train_threads = n->train_workers > 1 ? n->train_workers : n->threads;
}

/* One of the two graphs; fused but in the double build, which is the plain reference. */
static enum status record(struct graph **out, struct network *n, bool train, int slice,
                          struct error *err)
{
    const struct experiment *x = n->experiment;
    const struct recording how = {
        .batch = slice,
        .team = team_of(n, train),
        .gradients = train,
        .noise = train,
        .fused = sizeof(real) == sizeof(float),
        .mixed = train && augment_mixes(&x->data.augment),
        .smoothing = train ? x->train.label_smoothing : 0,
        .distill = train && n->teacher ? x->train.distill : NULL,
    };
    return network_record(out, &n->params, x, &how, err);
}

/* The graph for training: for slices, or where an op needs the whole batch, for that. */
static enum status record_training(struct network *n, struct error *err)
{
    enum status status = record(&n->train, n, true, n->slice, err);
    if (status || !n->train->whole_batch)
        return status;
    graph_free(n->train);
    choose_lanes(n, 1);
    return record(&n->train, n, true, n->batch, err);
}

static enum status plan(struct network *n, bool train, struct error *err)
{
    const struct experiment *x = n->experiment;
    n->infer_workers = runner_workers(slices_of(n), n->threads);
    enum status status = record(&n->infer, n, false, n->slice, err);
    if (status)
        return status;
    n->macs = graph_macs(n->infer) / n->slice;
    if (!train)
        return OK;
    choose_lanes(n, experiment_lanes(x, n->batch, params_counted(&n->params)));
    n->moments = optimizer_of(&x->train.optimizer)->moments;
    if (x->train.distill && x->train.distill->teacher)
        status = teacher_plan(&n->teacher, x, n->batch, n->threads, err);
    if (!status)
        status = freeze(n, err);
    if (!status)
        status = choose_rates(n, err);
    return status ? status : record_training(n, err);
}

enum status network_plan(struct network **out, const struct experiment *x, enum network_mode mode,
                         int batch, int threads, struct error *err)
{
    struct network *n = *out = calloc(1, sizeof *n);
    if (!n)
        return error_memory(err, sizeof *n);
    int cores = cpu_cores(), most = cores > THREADS_ALWAYS ? cores : THREADS_ALWAYS;
    n->experiment = x;
    n->shape = model_of(&x->model)->shape(x->model.options);
    n->threads = threads < 1 ? 1 : at_most(threads, most);
    n->batch = batch;
    n->slice = experiment_slice(x, batch);
    params_init(&n->params);
    enum status status = plan(n, mode == NETWORK_TRAIN, err);
    if (status) {
        network_destroy(n);
        *out = NULL;
    }
    return status;
}

enum status network_allocate(struct network *n, struct error *err)
{
    const struct experiment *x = n->experiment;
    bool average = n->train && x->train.ema;
    enum status status = params_allocate(&n->params, x->seed, n->lanes, n->moments, average, err);
    if (!status)
        status = runner_create(&n->infer_run, n->infer, slices_of(n), n->threads, err);
    if (!status && n->train)
        status = runner_create(&n->train_run, n->train, n->lanes, n->threads, err);
    if (!status && n->teacher)
        status = teacher_allocate(n->teacher, err);
    if (status == ERR_MEMORY)
        error_append(err,
                     " for this model with batches of %d (set a smaller train.batch_size, use a "
                     "smaller model or fewer threads)",
                     n->batch);
    return status;
}

enum status network_create(struct network **out, const struct experiment *x, enum network_mode mode,
                           int batch, int threads, struct error *err)
{
    enum status status = network_plan(out, x, mode, batch, threads, err);
    if (!status)
        status = network_check_memory(*out, err);
    if (!status)
        status = network_allocate(*out, err);
    if (status) {
        network_destroy(*out);
        *out = NULL;
    }
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
    free(n->rates);
    teacher_destroy(n->teacher);
    free(n);
}
