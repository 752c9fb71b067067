/* rig.h - a recorded graph with all that it takes to run it: parameters, inputs, gradients, a
 * runner.
 *
 *     struct rig r;
 *     rig_begin(&r, 2, false);
 *     struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 3, 4), true);
 *     rig_ready(&r, op_softmax(r.graph, x), 2);
 *     rig_run(&r);           ... r.y, r.dx[0], rig_grad(&r, "weight") ...
 *     rig_end(&r);
 *
 * Used by the tests of several rooms, which link no files in common: hence all inline. */
#ifndef TESTS_GRAPH_RIG_H
#define TESTS_GRAPH_RIG_H

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "graph/copy.h"
#include "graph/run.h"
#include "kernels/kernels.h"
#include "test.h"

struct rig {
    struct params params;
    struct graph *graph;
    struct runner *runner;
    struct feed feed;
    struct arena memory;
    struct error error;
    int lanes, threads;         /* 1 unless changed before rig_ready */
    real *x[GRAPH_MAX_INPUTS];  /* whole batch; NULL where the input holds labels */
    real *dx[GRAPH_MAX_INPUTS]; /* NULL where the input has no gradient */
    int *labels[GRAPH_MAX_INPUTS];
    size_t count[GRAPH_MAX_INPUTS]; /* elements of the whole batch */
    real *y, *dy;                   /* the loss tensor and its gradient */
    size_t y_count;
};

static const double rig_rounding = sizeof(real) == 8 ? 1e-12 : 1e-5;

static inline void *rig_alloc(struct rig *r, size_t bytes)
{
    void *p = arena_alloc(&r->memory, bytes ? bytes : 1);
    CHECK(p != NULL);
    return p;
}

/* Numbers in (-scale, scale), a function of name and position. */
static inline void rig_random(real *to, size_t n, const char *name, double scale)
{
    uint64_t stream = rng_stream(1, name);
    for (size_t i = 0; i < n; i++)
        to[i] = (real)(scale * (2 * rng_uniform(stream, 0, 0, i) - 1));
}

/* A training graph for slices of `batch` samples. */
static inline void rig_begin(struct rig *r, int batch, bool noise)
{
    static bool chosen; /* kernels for this CPU, as in the program */
    if (!chosen)
        CHECK_OK(kernels_init(&r->error), r->error);
    chosen = true;
    memset(r, 0, sizeof *r);
    params_init(&r->params);
    arena_init(&r->memory);
    r->lanes = r->threads = 1;
    struct graph_options options = {.batch = batch, .gradients = true, .noise = noise, .seed = 5};
    r->graph = graph_create(&r->params, &options);
    CHECK(r->graph != NULL);
}

/* Plans, allocates, fills inputs and dy with random numbers and labels with 0, 1, 2, 0, ... `loss`,
 * or a copy of it where it is a view, is the last graph output. */
static inline void rig_ready(struct rig *r, struct tensor *loss, int rows)
{
    struct graph *g = r->graph;
    size_t batch = (size_t)g->options.batch, samples = (size_t)rows;
    if (loss->root != loss)
        loss = graph_op_copy(g, loss); /* dy lies as the root does */
    graph_output(g, loss);
    graph_set_loss(g, loss);
    CHECK_OK(graph_plan(g, &r->error), r->error);
    CHECK_OK(params_allocate(&r->params, 7, r->lanes, 0, false, &r->error), r->error);
    CHECK_OK(runner_create(&r->runner, g, r->lanes, r->threads, &r->error), r->error);
    r->feed.rows = rows;
    for (int i = 0; i < g->input_count; i++) {
        size_t n = r->count[i] = tensor_count(g->inputs[i]) / batch * samples;
        if (g->inputs[i]->type == TYPE_INT) {
            r->feed.input[i] = r->labels[i] = rig_alloc(r, n * sizeof(int));
            for (size_t k = 0; k < n; k++)
                r->labels[i][k] = (int)(k % 3);
            continue;
        }
        r->feed.input[i] = r->x[i] = rig_alloc(r, n * sizeof(real));
        rig_random(r->x[i], n, test_text("input %d", i), 1);
        if (g->inputs[i]->needs_grad)
            r->feed.input_grad[i] = r->dx[i] = rig_alloc(r, n * sizeof(real));
    }
    r->y_count = tensor_count(loss) / batch * samples;
    r->y = rig_alloc(r, r->y_count * sizeof(real));
    r->dy = rig_alloc(r, r->y_count * sizeof(real));
    rig_random(r->dy, r->y_count, "dy", 1);
    r->feed.output[g->output_count - 1] = r->y;
    r->feed.seed = r->dy;
}

/* Every parameter random in (-scale, scale): zeros and ones hide mistakes. Learned numbers that stand
 * alone stay near their start: what is divided by a sum with them may vanish elsewhere. Buffers keep their
 * initial values, for not every number is a variance. */
static inline void rig_randomize(struct rig *r, double scale)
{
    for (int i = 0; i < r->params.count; i++) {
        struct param *p = r->params.list[i];
        if (p->flags & PARAM_BUFFER)
            continue;
        rig_random(p->value, p->count, p->name, scale);
        if (p->count != 1)
            continue;
        real moved = p->value[0] / 4;
        CHECK_OK(param_initialize(p, 1, &r->error), r->error);
        p->value[0] += moved;
    }
}

/* Forward and backward; the gradients of all lanes are summed. */
static inline void rig_run(struct rig *r)
{
    runner_run(r->runner, &r->feed);
    if (r->feed.seed)
        graph_reduce(&r->params, r->threads);
}

static inline void rig_end(struct rig *r)
{
    runner_destroy(r->runner);
    graph_free(r->graph);
    params_free(&r->params);
    arena_free(&r->memory);
}

static inline struct param *rig_param(const struct rig *r, const char *name)
{
    struct param *p = params_find(&r->params, name);
    if (!p)
        test_about("parameter %s", name);
    CHECK(p != NULL);
    return p;
}

static inline real *rig_value(const struct rig *r, const char *name)
{
    return rig_param(r, name)->value;
}

static inline real *rig_grad(const struct rig *r, const char *name)
{
    return param_grad(&r->params, rig_param(r, name));
}

static inline double rig_dot(const real *a, const real *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static inline double rig_norm(const real *a, size_t n)
{
    return sqrt(rig_dot(a, a, n));
}

/* |a - b| / |b|, absolute where b is 0. */
static inline double rig_distance(const real *a, const real *b, size_t n)
{
    double sum = 0, norm = rig_norm(b, n);
    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum) / (norm > 0 ? norm : 1);
}

static inline real *rig_copy(struct rig *r, const real *a, size_t n)
{
    real *copy = rig_alloc(r, n * sizeof *copy);
    memcpy(copy, a, n * sizeof *copy);
    return copy;
}

static inline double rig_loss_beside(struct rig *r, real *leaf, const real *base,
                                     const real *direction, size_t n, double step)
{
    for (size_t i = 0; i < n; i++)
        leaf[i] = base[i] + (real)step * direction[i];
    rig_run(r);
    return rig_dot(r->dy, r->y, r->y_count);
}

/* The gradient along a random direction against the central difference, relative to 1 + |gradient|.
 * Larger steps suffer from curvature, smaller ones from rounding: the better of two counts. */
static inline double rig_leaf_error(struct rig *r, real *leaf, const real *grad, size_t n)
{
    static const double steps[] = {1e-5, 1e-6};
    double error = HUGE_VAL;
    rig_run(r);
    real *base = rig_copy(r, leaf, n), *direction = rig_alloc(r, n * sizeof *direction);
    rig_random(direction, n, "direction", 1);
    double analytic = rig_dot(grad, direction, n);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        double up = rig_loss_beside(r, leaf, base, direction, n, steps[i]);
        double down = rig_loss_beside(r, leaf, base, direction, n, -steps[i]);
        error = fmin(error, fabs((up - down) / (2 * steps[i]) - analytic));
    }
    memcpy(leaf, base, n * sizeof *leaf);
    return error / (1 + fabs(analytic));
}

/* Checks the gradients of all inputs and trained parameters by central differences; double only. */
static inline void rig_check_gradients(struct rig *r, double tolerance)
{
    for (int i = 0; i < r->graph->input_count; i++) {
        if (!r->dx[i])
            continue;
        CHECK_NEAR(rig_leaf_error(r, r->x[i], r->dx[i], r->count[i]), 0, tolerance);
    }
    for (int i = 0; i < r->params.count; i++) {
        struct param *p = r->params.list[i];
        real *grad = param_grad(&r->params, p);
        if (grad)
            CHECK_NEAR(rig_leaf_error(r, p->value, grad, p->count), 0, tolerance);
    }
}

#endif
