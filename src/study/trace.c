/* trace.c - reads a batch, records the model for it as one slice, runs it, writes what was
 * named. */
#include "study/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"
#include "train/checkpoint.h"

enum { MAX_BATCH = 65536 };

struct trace {
    const struct experiment *x;
    const struct trace_options *options;
    struct model_shape shape;
    int batch;
    real *images, *seed; /* seed: gradient of the loss, or of the logits */
    int *labels;         /* NULL without y */
    struct params params;
    struct graph *graph;
    struct runner *runner;
    struct arena memory; /* what is written */
    real *loss;          /* of each image, among it; NULL without y */
    struct st_tensor *out;
    int out_count;
};

/* --- input
 * -------------------------------------------------------------------------------------- */

static enum status read_reals(real **out, const struct st_tensor *t, struct error *err)
{
    if (!(*out = calloc(t->count + 1, sizeof **out)))
        return error_memory(err, t->count * sizeof **out);
#ifdef ATTNBENCH_DOUBLE
    return st_to_double(*out, t, err);
#else
    return st_to_float(*out, t, err);
#endif
}

/* ERR_INPUT where the tensor's shape is not the one wanted. */
static enum status check_shape(const struct st_tensor *t, const struct shape *want,
                               struct error *err)
{
    bool fits = t->rank == want->rank;
    struct shape got = {.rank = t->rank < MAX_RANK ? t->rank : MAX_RANK};
    for (int i = 0; i < got.rank; i++) {
        got.dim[i] = t->shape[i] < 1 << 30 ? (int)t->shape[i] : 1 << 30;
        fits = fits && i < want->rank && t->shape[i] == want->dim[i];
    }
    if (fits)
        return OK;
    char is[64], wanted[64];
    return error_set(err, ERR_INPUT, "%s: its shape is %s, this model takes %s", t->name,
                     shape_text(is, &got), shape_text(wanted, want));
}

static enum status read_labels(struct trace *t, const struct st_tensor *y, struct error *err)
{
    struct shape want = SHAPE(t->batch);
    enum status status = check_shape(y, &want, err);
    if (status)
        return status;
    int64_t *wide = calloc((size_t)t->batch, sizeof *wide);
    t->labels = calloc((size_t)t->batch, sizeof *t->labels);
    if (!wide || !t->labels) {
        free(wide);
        return error_memory(err, (size_t)t->batch * sizeof *wide);
    }
    status = st_to_int64(wide, y, err);
    for (int i = 0; i < t->batch && !status; i++) {
        if (wide[i] < 0 || wide[i] >= t->shape.classes)
            status = error_set(err, ERR_INPUT, "y: label %lld of image %d is not in 0..%d",
                               (long long)wide[i], i, t->shape.classes - 1);
        else
            t->labels[i] = (int)wide[i];
    }
    free(wide);
    return status;
}

/* The gradient that backward starts from. */
static enum status read_seed(struct trace *t, const struct st_tensor *dlogits, struct error *err)
{
    if (dlogits && t->labels)
        return error_set(err, ERR_INPUT, "has both y and dlogits (gradients start from one)");
    if (dlogits) {
        struct shape want = SHAPE(t->batch, t->shape.classes);
        enum status status = check_shape(dlogits, &want, err);
        return status ? status : read_reals(&t->seed, dlogits, err);
    }
    if (!t->labels)
        return error_set(err, ERR_INPUT,
                         "has neither y nor dlogits (gradients need labels y, I64, or dlogits)");
    if (!(t->seed = calloc((size_t)t->batch, sizeof *t->seed)))
        return error_memory(err, (size_t)t->batch * sizeof *t->seed);
    for (int i = 0; i < t->batch; i++)
        t->seed[i] = (real)(1.0 / t->batch);
    return OK;
}

static enum status read_tensors(struct trace *t, const struct st_file *file, struct error *err)
{
    const struct st_tensor *x = st_find(file, "x"), *y = st_find(file, "y");
    if (!x)
        return error_set(err, ERR_INPUT, "has no tensor x");
    if (x->rank < 1 || x->shape[0] < 1 || x->shape[0] > MAX_BATCH)
        return error_set(err, ERR_INPUT, "x: its first axis, the batch, is not in 1..%d",
                         MAX_BATCH);
    t->batch = (int)x->shape[0];
    struct shape want = SHAPE(t->batch, t->shape.channels, t->shape.height, t->shape.width);
    enum status status = check_shape(x, &want, err);
    if (!status)
        status = read_reals(&t->images, x, err);
    if (!status && y)
        status = read_labels(t, y, err);
    if (!status && t->options->gradients)
        status = read_seed(t, st_find(file, "dlogits"), err);
    return status;
}

static enum status read_input(struct trace *t, struct error *err)
{
    struct st_file *file;
    enum status status = st_open(&file, t->options->input, err);
    if (status)
        return status;
    status = read_tensors(t, file, err);
    if (status)
        error_prefix(err, "%s: ", t->options->input);
    st_close(file);
    return status;
}

/* --- the graph
 * ---------------------------------------------------------------------------------- */

static enum status record(struct trace *t, struct error *err)
{
    const struct recording how = {
        .batch = t->batch,
        .gradients = t->options->gradients,
        .noise = t->options->noise,
        .trace = true,
        .fused = t->options->fused,
        .unlabelled = !t->labels,
    };
    return network_record(&t->graph, &t->params, t->x, &how, err);
}

/* --- output
 * ------------------------------------------------------------------------------------- */

/* Adds a tensor to what is written; returns its memory, or NULL. */
static real *add_output(struct trace *t, const char *prefix, const char *name,
                        const struct shape *shape)
{
    struct st_tensor *out = &t->out[t->out_count];
    size_t count = shape_count(shape);
    real *data = arena_alloc(&t->memory, count * sizeof *data);
    char *full = arena_printf(&t->memory, "%s%s", prefix, name);
    if (!data || !full)
        return NULL;
    *out = (struct st_tensor){
        .name = full, .dtype = sizeof(real) == sizeof(double) ? DTYPE_F64 : DTYPE_F32,
        .rank = shape->rank, .count = count, .data = data,
    };
    for (int i = 0; i < shape->rank; i++)
        out->shape[i] = shape->dim[i];
    t->out_count++;
    return data;
}

/* Says which outputs fusion took away, by the first names. */
static enum status tell_left_out(const struct trace *t, struct error *err)
{
    const struct graph *g = t->graph;
    char text[512];
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "%d outputs are never stored where the graph is fused, and left out: ",
                                 g->fused_outputs);
    for (int i = 0; i < g->fused_outputs && i < 4; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.80s", i ? ", " : "",
                               i < 3 ? g->outputs[g->output_count + i]->name : "...");
    *t->options->left_out = g->fused_outputs ? strdup(text) : NULL;
    return g->fused_outputs && !*t->options->left_out ? error_memory(err, sizeof text) : OK;
}

/* Places for all outputs, and a run into them. */
static enum status run(struct trace *t, struct error *err)
{
    struct graph *g = t->graph;
    struct feed feed = {.rows = t->batch, .input = {t->images, t->labels}, .seed = t->seed};
    t->out = arena_alloc(&t->memory,
                         ((size_t)g->output_count + (size_t)t->params.count + 2) * sizeof *t->out);
    if (!t->out)
        return error_memory(err, 0);
    for (int i = 0; i < g->output_count; i++)
        if (!(feed.output[i] = add_output(t, "", g->outputs[i]->name, &g->outputs[i]->shape)))
            return error_memory(err, tensor_count(g->outputs[i]) * sizeof(real));
    if (t->labels)
        t->loss = feed.output[g->output_count - 1]; /* recorded last */
    if (t->seed && !(feed.input_grad[0] = add_output(t, "grad.", "x", &g->inputs[0]->shape)))
        return error_memory(err, tensor_count(g->inputs[0]) * sizeof(real));
    runner_run(t->runner, &feed);
    return OK;
}

/* The loss of the batch is the mean over its images: one number, in the place of the first. */
static void average_loss(struct trace *t)
{
    double sum = 0;
    for (int b = 0; b < t->batch; b++)
        sum += (double)t->loss[b];
    t->loss[0] = (real)(sum / t->batch);
    for (int i = 0; i < t->out_count; i++) {
        if (t->out[i].data == t->loss) {
            t->out[i].rank = 0;
            t->out[i].count = 1;
        }
    }
}

static enum status write_output(struct trace *t, struct error *err)
{
    if (t->labels)
        average_loss(t);
    for (int i = 0; t->seed && i < t->params.count; i++) {
        const struct param *param = t->params.list[i];
        const real *grad = param_grad(&t->params, param);
        real *to = grad ? add_output(t, "grad.", param->name, &param->shape) : NULL;
        if (grad && !to)
            return error_memory(err, param->count * sizeof(real));
        if (grad)
            memcpy(to, grad, param->count * sizeof(real));
    }
    return st_write(t->options->output, t->out, t->out_count, NULL, 0, err);
}

enum status trace_run(const struct experiment *x, const struct trace_options *options,
                      struct error *err)
{
    struct trace t = {.x = x, .options = options,
                      .shape = model_of(&x->model)->shape(x->model.options)};
    params_init(&t.params);
    arena_init(&t.memory);
    enum status status = read_input(&t, err);
    if (!status)
        status = record(&t, err);
    if (!status)
        status = params_allocate(&t.params, x->seed, options->gradients ? 1 : 0, 0, false, err);
    if (!status && options->checkpoint)
        status = checkpoint_load(&t.params, &x->model, options->checkpoint, options->note, err);
    if (!status)
        status = runner_create(&t.runner, t.graph, 1, 1, err);
    if (!status)
        status = tell_left_out(&t, err);
    if (!status)
        status = run(&t, err);
    if (!status)
        status = write_output(&t, err);
    runner_destroy(t.runner);
    graph_free(t.graph);
    params_free(&t.params);
    arena_free(&t.memory);
    free(t.images);
    free(t.seed);
    free(t.labels);
    return status;
}
