/* step.c - one update. Nothing here allocates once step_create is done. */
#include "train/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/finite.h"
#include "train/metrics.h"
#include "train/teacher.h"

enum status step_create(struct step *s, struct network *n, int batch, struct error *err)
{
    size_t rows = (size_t)batch, classes = (size_t)n->shape.classes;
    *s = (struct step){.network = n, .batch = batch};
    s->logits = calloc(rows * classes, sizeof *s->logits);
    s->loss = calloc(rows, sizeof *s->loss);
    s->seed = calloc(rows, sizeof *s->seed);
    if (n->teacher)
        s->teacher = calloc(rows * classes, sizeof *s->teacher);
    if (s->logits && s->loss && s->seed && (s->teacher || !n->teacher))
        return OK;
    step_free(s);
    return error_memory(err, rows * (classes + 2) * sizeof(real));
}

void step_free(struct step *s)
{
    free(s->logits);
    free(s->loss);
    free(s->seed);
    free(s->teacher);
    *s = (struct step){0};
}

/* The batch as the training graph is fed; its first sample is number `sample` of the window. */
static struct feed step_feed(const struct step *s, const struct batch *b, int sample,
                             long long update)
{
    struct feed feed = {
        .rows = b->count,
        .seed = s->seed,
        .step = (uint64_t)update,
        .progress = s->progress,
        .sample = (uint64_t)sample,
        .updates = true,
        .keep_grads = sample > 0,
        .same_values = sample > 0, /* of the window: the update comes behind it */
    };
    feed.input[NETWORK_INPUT_IMAGES] = b->images;
    feed.input[NETWORK_INPUT_LABELS] = b->labels;
    if (b->partners) {
        feed.input[NETWORK_INPUT_PARTNERS] = b->partners;
        feed.input[NETWORK_INPUT_SHARE] = b->share;
        feed.input[NETWORK_INPUT_REST] = b->rest;
    }
    if (s->teacher)
        feed.input[s->network->train->input_count - 1] = s->teacher;
    feed.output[NETWORK_OUTPUT_LOGITS] = s->logits;
    feed.output[NETWORK_OUTPUT_LOSS] = s->loss;
    return feed;
}

/* Runs the batch again to see where the trouble starts; gradients are lost. */
static void find_bad(struct step *s, const struct batch *b, long long update)
{
    struct feed feed = step_feed(s, b, s->filled - b->count, update);
    feed.keep_grads = feed.updates = false;
    runner_find_bad(s->network->train_run, &feed, s->bad);
}

enum status step_batch(struct step *s, const struct batch *b, int window, long long update,
                       struct error *err)
{
    struct network *n = s->network;
    if (s->filled == 0) {
        enum status status = params_renew(&n->params, n->experiment->seed, update, err);
        if (status)
            return status;
    }
    for (int i = 0; i < b->count; i++)
        s->seed[i] = (real)(1.0 / window);
    if (n->teacher)
        teacher_logits(n->teacher, b, s->teacher);
    struct feed feed = step_feed(s, b, s->filled, update);
    runner_run(n->train_run, &feed);
    if (s->filled == 0) {
        s->loss_sum = 0;
        s->correct = 0;
        s->bad[0] = 0;
    }
    s->filled += b->count;
    int classes = n->shape.classes;
    double sum = 0;
    for (int i = 0; i < b->count; i++) {
        sum += (double)s->loss[i];
        s->correct +=
            metrics_rank(s->logits + (size_t)i * (size_t)classes, classes, b->labels[i]) == 0;
    }
    s->loss_sum += sum;
    if (isfinite(sum))
        return OK;
    find_bad(s, b, update);
    return error_set(err, ERR_NUMERIC, "the loss is not finite");
}

enum status step_update(struct step *s, const struct batch *last, double lr, long long update,
                        struct error *err)
{
    struct network *n = s->network;
    const struct train_config *t = &n->experiment->train;
    graph_reduce(&n->params, n->train_threads);
    s->grad_norm = optimizer_grad_norm(&n->params, n->train_threads);
    if (!isfinite(s->grad_norm)) {
        find_bad(s, last, update);
        s->filled = 0;
        return error_set(err, ERR_NUMERIC, "the gradient is not finite");
    }
    s->filled = 0;
    double scale = 1;
    if (t->clip_norm.name == -1)
        scale = fmin(1, t->clip_norm.number / (s->grad_norm + 1e-6));
    optimizer_step(&t->optimizer, &n->params, n->rates, lr, scale, update + 1, n->train_threads);
    if (n->params.average) {
        double rise = t->ema->warmup > 0 ? 1 - exp(-(double)update / t->ema->warmup) : 1;
        optimizer_average(&n->params, t->ema->decay * rise, n->train_threads);
    }
    return OK;
}

bool step_values_finite(const struct network *n)
{
    const struct params *p = &n->params;
    struct vec values = {p->values, TYPE_REAL, (ptrdiff_t)p->total};
    return kernel_all_finite(values, 1, p->total);
}
