/* bench.c - the loop over steps, and the sums over nodes. */
#include "study/bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/timer.h"
#include "study/info.h"
#include "study/statistics.h"
#include "train/checkpoint.h"
#include "train/step.h"

enum {
    WARM_STEPS = 2,
    LEAST_STEPS = 3,
    MOST_STEPS = 1 << 16, /* of a model so small that no more are needed */
};

struct session {
    const struct experiment *x;
    const struct bench_options *options;
    struct network *network;
    struct step step; /* in training */
    struct batch batch;
    struct feed feed; /* of inference */
    struct profile *profile;
    long long update;      /* of the next step, from 0 */
    double update_seconds; /* sum since the warm-up */
};

/* --- one step --------------------------------------------------------------------------------- */

static enum status run_step(struct session *s, struct error *err)
{
    if (s->options->mode == NETWORK_INFER) {
        runner_run(s->network->infer_run, &s->feed);
        s->feed.same_values = true;
        return OK;
    }
    enum status status = step_batch(&s->step, &s->batch, s->batch.count, s->update, err);
    double start = timer_seconds();
    if (!status)
        status = step_update(&s->step, &s->batch, optimizer_base_of(&s->x->train.optimizer)->lr,
                             s->update, err);
    s->update_seconds += timer_seconds() - start;
    s->update++;
    return status;
}

/* Runs until `seconds` have passed and `least` steps are done; *times gets the seconds of each. */
static enum status run_steps(struct session *s, double seconds, int least, double *times,
                             int *steps, struct error *err)
{
    double start = timer_seconds(), before = start;
    *steps = 0;
    while (*steps < least || (before - start < seconds && *steps < MOST_STEPS)) {
        enum status status = run_step(s, err);
        if (status)
            return status;
        double now = timer_seconds();
        times[(*steps)++] = now - before;
        before = now;
    }
    return OK;
}

/* --- what a step works on --------------------------------------------------------------------- */

/* Partners as they are fed under mixup; what the shares are takes no more or less time. */
static enum status mix_batch(struct batch *b, struct error *err)
{
    size_t images = (size_t)b->count;
    b->partners = calloc(images, sizeof *b->partners);
    b->share = calloc(images, sizeof *b->share);
    b->rest = calloc(images, sizeof *b->rest);
    if (!b->partners || !b->share || !b->rest)
        return error_memory(err, images * (sizeof *b->partners + 2 * sizeof *b->share));
    for (size_t i = 0; i < images; i++) {
        b->partners[i] = b->labels[images - 1 - i];
        b->share[i] = b->rest[i] = (real)0.5;
    }
    return OK;
}

static enum status make_batch(struct session *s, struct error *err)
{
    const struct model_shape *shape = &s->network->shape;
    size_t image = (size_t)shape->channels * (size_t)shape->height * (size_t)shape->width;
    size_t images = (size_t)s->options->batch;
    struct batch *b = &s->batch;
    b->count = b->capacity = s->options->batch;
    b->images = calloc(images, image * sizeof *b->images);
    b->labels = calloc(images, sizeof *b->labels);
    if (!b->images || !b->labels)
        return error_memory(err, images * (image * sizeof *b->images + sizeof *b->labels));
    uint64_t pixels = rng_stream(s->x->seed, "bench:images");
    uint64_t labels = rng_stream(s->x->seed, "bench:labels");
    for (size_t i = 0; i < images * image; i++)
        b->images[i] = (real)(2 * rng_uniform(pixels, 0, 0, i) - 1);
    for (size_t i = 0; i < images; i++)
        b->labels[i] = (int)rng_below(labels, 0, 0, i, (uint64_t)shape->classes);
    return augment_mixes(&s->x->data.augment) ? mix_batch(b, err) : OK;
}

static const struct graph *graph_of(const struct session *s)
{
    return s->options->mode == NETWORK_TRAIN ? s->network->train : s->network->infer;
}

/* Threads that run slices at a time. */
static int workers_of(const struct session *s)
{
    return s->options->mode == NETWORK_TRAIN ? s->network->train_workers
                                             : s->network->infer_workers;
}

static enum status session_create(struct session *s, struct error *err)
{
    const struct bench_options *o = s->options;
    char *note = NULL;
    enum status status = network_create(&s->network, s->x, o->mode, o->batch, o->threads, err);
    if (!status && o->weights)
        status = checkpoint_load(&s->network->params, &s->x->model, o->weights, &note, err);
    free(note);
    if (!status)
        status = make_batch(s, err);
    if (!status)
        status = step_create(&s->step, s->network, o->batch, err);
    if (status)
        return status;
    s->feed.rows = o->batch;
    s->feed.input[NETWORK_INPUT_IMAGES] = s->batch.images;
    s->feed.input[NETWORK_INPUT_LABELS] = s->batch.labels;
    s->feed.output[NETWORK_OUTPUT_LOGITS] = s->step.logits;
    if (o->profile) {
        s->profile = profile_create(graph_of(s), workers_of(s));
        if (!s->profile)
            return error_memory(err, sizeof *s->profile);
        runner_profile(o->mode == NETWORK_TRAIN ? s->network->train_run : s->network->infer_run,
                       s->profile);
    }
    return OK;
}

static void session_free(struct session *s)
{
    step_free(&s->step);
    network_destroy(s->network);
    profile_destroy(s->profile);
    free(s->batch.images);
    free(s->batch.labels);
    free(s->batch.partners);
    free(s->batch.share);
    free(s->batch.rest);
}

/* --- the profile ------------------------------------------------------------------------------ */

static struct bench_op *op_entry(struct bench *b, const char *name)
{
    for (int i = 0; i < b->op_count; i++)
        if (strcmp(b->ops[i].name, name) == 0)
            return &b->ops[i];
    b->ops[b->op_count].name = name;
    return &b->ops[b->op_count++];
}

static void add_node(struct bench_op *op, const struct bench_op *node)
{
    op->nodes += node->nodes;
    for (enum pass pass = PASS_FORWARD; pass < PASSES; pass++) {
        op->seconds[pass] += node->seconds[pass];
        op->flops[pass] += node->flops[pass];
        op->bytes[pass] += node->bytes[pass];
    }
}

static int slower_first(const void *a, const void *b)
{
    const struct bench_op *x = a, *y = b;
    double dx = x->seconds[PASS_FORWARD] + x->seconds[PASS_BACKWARD];
    double dy = y->seconds[PASS_FORWARD] + y->seconds[PASS_BACKWARD];
    return (dx < dy) - (dx > dy);
}

/* What the optimizer's update must touch: the lanes are added up, squared for the norm, and read
 * once more with values and moments, which are written. */
static double update_bytes(const struct network *n)
{
    int lanes = n->params.lanes;
    int moments = optimizer_of(&n->experiment->train.optimizer)->moments;
    double reals = 3.0 * (lanes - 1) + 1 + 1 + 2 + 2.0 * moments;
    return reals * (double)n->params.trained * sizeof(real);
}

static enum status add_up(struct bench *b, const struct session *s, struct error *err)
{
    const struct graph *g = graph_of(s);
    double slices = (double)((b->batch + b->slice - 1) / b->slice), steps = b->steps, sum = 0;
    b->ops = calloc((size_t)g->node_count + 1, sizeof *b->ops);
    if (!b->ops)
        return error_memory(err, ((size_t)g->node_count + 1) * sizeof *b->ops);
    for (int i = 0; i < g->node_count; i++) {
        const struct node *n = g->nodes[i];
        struct bench_op node = {.nodes = 1};
        double macs = node_macs(n);
        for (enum pass pass = PASS_FORWARD; pass < PASSES; pass++) {
            bool runs = pass == PASS_FORWARD || n->runs_backward;
            node.seconds[pass] = profile_seconds(s->profile, i, pass) / (steps * workers_of(s));
            node.bytes[pass] = slices * node_bytes(n, pass);
            node.flops[pass] = runs ? slices * macs * (pass == PASS_FORWARD ? 2 : 4) : 0;
            sum += node.seconds[pass];
        }
        add_node(op_entry(b, n->op->name), &node);
        if (info_is_mixing(n))
            add_node(&b->mixing, &node);
    }
    qsort(b->ops, (size_t)b->op_count, sizeof *b->ops, slower_first);
    if (s->options->mode == NETWORK_TRAIN) {
        b->update_seconds = s->update_seconds / steps;
        b->update_bytes = update_bytes(s->network);
    }
    b->rest_seconds = b->step.mean - sum - b->update_seconds;
    return OK;
}

/* --- all of it -------------------------------------------------------------------------------- */

static void summarize(struct bench *b, double *times)
{
    size_t n = (size_t)b->steps;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += times[i];
    statistics_sort(times, n);
    b->step.mean = sum / b->steps;
    b->step.best = times[0];
    b->step.median = statistics_quantile(times, n, 0.5);
    b->step.p10 = statistics_quantile(times, n, 0.1);
    b->step.p90 = statistics_quantile(times, n, 0.9);
}

static enum status measure(struct bench *b, struct session *s, double *times, struct error *err)
{
    const struct bench_options *o = s->options;
    enum status status = session_create(s, err);
    if (!status)
        status = run_steps(s, o->seconds / 4, WARM_STEPS, times, &b->steps, err);
    if (status)
        return status;
    s->update_seconds = 0;
    if (s->profile)
        profile_clear(s->profile);
    status = run_steps(s, o->seconds, LEAST_STEPS, times, &b->steps, err);
    if (status)
        return status;
    const struct network *n = s->network;
    b->batch = o->batch;
    b->slice = graph_of(s)->options.batch;
    b->lanes = n->params.lanes;
    b->params = params_counted(&n->params);
    b->macs = n->macs;
    b->flops = (o->mode == NETWORK_TRAIN ? 6 : 2) * n->macs * o->batch;
    b->block_bytes = (double)graph_of(s)->block_bytes * workers_of(s);
    b->peak_rss_bytes = timer_peak_rss_bytes();
    summarize(b, times);
    return s->profile ? add_up(b, s, err) : OK;
}

enum status bench_run(struct bench *b, const struct experiment *x,
                      const struct bench_options *options, struct error *err)
{
    *b = (struct bench){0};
    struct session s = {.x = x, .options = options};
    double *times = calloc(MOST_STEPS, sizeof *times);
    if (!times)
        return error_memory(err, MOST_STEPS * sizeof *times);
    enum status status = measure(b, &s, times, err);
    session_free(&s);
    free(times);
    if (status)
        bench_free(b);
    return status;
}

void bench_free(struct bench *b)
{
    free(b->ops);
    b->ops = NULL;
}
