/* gradcheck.c - one graph: recording it, running it at shifted leaves, comparing derivatives. */
#include "study/gradcheck.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "graph/copy.h"
#include "graph/run.h"
#include "ops/ops.h"

enum { DIRECTIONS = 3, STEPS = 6 };

/* Larger steps suffer from curvature, smaller ones from rounding: the best one counts. */
#ifdef ATTNBENCH_DOUBLE
static const double steps[STEPS] = {2e-4, 1e-5, 1e-6, 1e-7, 1e-3, 5e-5};
#else
static const double steps[STEPS] = {2e-2, 5e-3, 2e-3, 1e-3, 1e-1, 3e-1};
#endif

double gradcheck_tolerance(void)
{
    return sizeof(real) == sizeof(double) ? 1e-7 : 1e-2;
}

/* What derivatives are taken by: an input or a parameter. */
struct leaf {
    const char *name;
    size_t count;
    real *value;      /* read by the graph */
    real *home;       /* the point around which it is shifted */
    real *direction;
    const real *grad;
};

struct check {
    struct gradcheck *result;
    struct params params;
    struct graph *g;
    struct runner *runner;
    struct arena memory;
    struct feed feed;
    real *projection, *y; /* (outputs) */
    size_t outputs;
    int first_axis;       /* of y */
    struct leaf *leaves;
    int leaf_count;
};

static void fail(struct check *c, const char *format, ...) PRINTF_LIKE(2, 3);
static void fail(struct check *c, const char *format, ...)
{
    if (!c->result->passed)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(c->result->note, sizeof c->result->note, format, args);
    va_end(args);
    c->result->passed = false;
}

static real *reals(struct check *c, size_t count)
{
    real *list = arena_alloc(&c->memory, (count + 1) * sizeof *list);
    if (!list)
        fail(c, "out of memory");
    return list;
}

/* --- recording
 * ---------------------------------------------------------------------------------- */

static struct tensor *contiguous(struct graph *g, struct tensor *t)
{
    return t->root == t && tensor_is_contiguous(t) ? t : graph_op_copy(g, t);
}

/* The op once more on the inputs of its last node, added to what that node gave. */
static struct tensor *record_again(struct check *c, const struct op *op)
{
    struct graph *g = c->g;
    for (int i = g->node_count - 1; i >= 0; i--) {
        struct node *n = g->nodes[i];
        if (n->op != op)
            continue;
        struct tensor *y = graph_record(g, op, n->options, n->in, n->inputs);
        return op_add(g, contiguous(g, n->out), contiguous(g, y));
    }
    fail(c, "its sample records no %s", op->name);
    return g->inert;
}

/* Records and plans the graph for a slice of `batch` samples; false where that fails. */
static bool record(struct check *c, gradcheck_build *build, const void *context,
                   const struct op *twice, int batch)
{
    const struct graph_options options = {
        .batch = batch, .gradients = true, .noise = true, .seed = 1,
    };
    struct error err;
    params_init(&c->params);
    if (!(c->g = graph_create(&c->params, &options))) {
        fail(c, "out of memory");
        return false;
    }
    struct tensor *y = build(c->g, context);
    if (twice)
        y = record_again(c, twice);
    if (!c->g->error.status)
        y = contiguous(c->g, y);
    graph_output(c->g, y);
    graph_set_loss(c->g, y);
    if (graph_plan(c->g, &err))
        fail(c, "%s", err.text);
    c->outputs = tensor_count(y);
    c->first_axis = y->shape.dim[0];
    return c->result->passed;
}

static void forget(struct check *c)
{
    runner_destroy(c->runner);
    graph_free(c->g);
    params_free(&c->params);
    c->runner = NULL;
    c->g = NULL;
}

/* All inputs are samples of one slice, so that their first axes are its size. Where there are only
 * parameters, the output takes their place. */
static int slice_size(struct check *c)
{
    const struct graph *g = c->g;
    for (int i = 1; i < g->input_count; i++)
        if (g->inputs[i]->shape.dim[0] != g->inputs[0]->shape.dim[0])
            fail(c, "first axes of the sample's inputs differ");
    return g->input_count ? g->inputs[0]->shape.dim[0] : c->first_axis;
}

/* --- leaves
 * ------------------------------------------------------------------------------------- */

/* Shifts every value by up to `width`: initial zeros and ones would hide terms. */
static void scatter(const char *name, real *value, size_t count, double width)
{
    uint64_t stream = rng_stream(1, name);
    for (size_t i = 0; i < count; i++)
        value[i] += (real)(width * (2 * rng_uniform(stream, 0, 0, i) - 1));
}

static void add_leaf(struct check *c, const char *name, size_t count, real *value, const real *grad)
{
    struct leaf *leaf = &c->leaves[c->leaf_count];
    *leaf = (struct leaf){.name = name, .count = count, .value = value, .grad = grad,
                          .home = reals(c, count), .direction = reals(c, count)};
    if (!c->result->passed)
        return;
    memcpy(leaf->home, value, count * sizeof *value);
    c->leaf_count++;
}

static void add_input(struct check *c, int i)
{
    const struct tensor *t = c->g->inputs[i];
    size_t count = tensor_count(t);
    if (t->type == TYPE_INT) {
        int *labels = arena_alloc(&c->memory, count * sizeof *labels);
        if (!labels)
            fail(c, "out of memory");
        for (size_t k = 0; labels && k < count; k++)
            labels[k] = (int)(k % 3);
        c->feed.input[i] = labels;
        return;
    }
    char *name = arena_printf(&c->memory, "input %d", i);
    real *value = reals(c, count);
    if (t->keep_grad)
        c->feed.input_grad[i] = reals(c, count);
    if (!name || !c->result->passed)
        return;
    scatter(name, value, count, 1);
    c->feed.input[i] = value;
    if (t->keep_grad) /* others are given, as labels are */
        add_leaf(c, name, count, value, c->feed.input_grad[i]);
}

static bool prepare(struct check *c)
{
    struct error err;
    int inputs = c->g->input_count;
    if (params_allocate(&c->params, 1, 1, 0, false, &err) ||
        runner_create(&c->runner, c->g, 1, 1, &err)) {
        fail(c, "%s", err.text);
        return false;
    }
    c->leaves = arena_alloc(&c->memory, (size_t)(inputs + c->params.count) * sizeof *c->leaves);
    c->projection = reals(c, c->outputs);
    c->y = reals(c, c->outputs);
    if (!c->leaves || !c->result->passed)
        return false;
    scatter("projection", c->projection, c->outputs, 1);
    c->feed.rows = c->g->options.batch;
    c->feed.output[0] = c->y;
    c->feed.step = 3;
    c->feed.sample = 5;
    for (int i = 0; i < inputs && c->result->passed; i++)
        add_input(c, i);
    for (int i = 0; i < c->params.count && c->result->passed; i++) {
        struct param *param = c->params.list[i];
        if (!param_grad(&c->params, param))
            continue;
        scatter(param->name, param->value, param->count, 0.5);
        add_leaf(c, param->name, param->count, param->value, param_grad(&c->params, param));
    }
    return c->result->passed;
}

/* --- derivatives
 * -------------------------------------------------------------------------------- */

/* sum(r * y) with every leaf moved `step` along its direction. */
static double value_at(struct check *c, double step)
{
    for (int i = 0; i < c->leaf_count; i++) {
        struct leaf *leaf = &c->leaves[i];
        for (size_t k = 0; k < leaf->count; k++)
            leaf->value[k] = (real)((double)leaf->home[k] + step * (double)leaf->direction[k]);
    }
    c->feed.seed = NULL;
    runner_run(c->runner, &c->feed);
    double sum = 0;
    for (size_t i = 0; i < c->outputs; i++)
        sum += (double)c->projection[i] * (double)c->y[i];
    return sum;
}

static double numeric_slope(struct check *c, double h)
{
    double near = value_at(c, h) - value_at(c, -h);
    double far = value_at(c, 2 * h) - value_at(c, -2 * h);
    return (8 * near - far) / (12 * h);
}

/* Runs backward at the point itself. */
static void run_backward(struct check *c)
{
    for (int i = 0; i < c->leaf_count; i++)
        memcpy(c->leaves[i].value, c->leaves[i].home, c->leaves[i].count * sizeof(real));
    c->feed.seed = c->projection;
    runner_run(c->runner, &c->feed);
}

/* Compares the slopes along a random direction in which `only` moves (NULL: all leaves). */
static void compare(struct check *c, const struct leaf *only, int number)
{
    double analytic = 0, square = 0;
    for (int i = 0; i < c->leaf_count; i++) {
        struct leaf *leaf = &c->leaves[i];
        uint64_t stream = rng_stream(2, leaf->name);
        for (size_t k = 0; k < leaf->count; k++) {
            bool moves = !only || only == leaf;
            leaf->direction[k] =
                moves ? (real)rng_normal(stream, (uint64_t)number, only != NULL, k) : 0;
            analytic += (double)leaf->grad[k] * (double)leaf->direction[k];
            square += moves ? (double)leaf->grad[k] * (double)leaf->grad[k] : 0;
        }
    }
    double error = 0;
    for (int i = 0; i < STEPS && !isnan(error) && (i < 2 || error > gradcheck_tolerance()); i++) {
        double numeric = numeric_slope(c, steps[i]);
        double scale = fmax(fmax(fabs(analytic), fabs(numeric)), 0.1 * sqrt(square));
        double relative = fabs(analytic - numeric) / scale;
        if (i == 0 || !(relative >= error))
            error = relative;
    }
    if (!isnan(c->result->worst) && !(error <= c->result->worst))
        c->result->worst = error;
    if (!(error <= gradcheck_tolerance()))
        fail(c, "%s: relative error %.2g", only ? only->name : "all together", error);
}

static bool is_reached(const struct leaf *leaf)
{
    for (size_t k = 0; k < leaf->count; k++)
        if (leaf->grad[k] != 0)
            return true;
    return false;
}

/* --- the block's former contents
 * ----------------------------------------------------------------- */

/* Output and gradients behind one another. */
static real *snapshot(struct check *c, size_t *count)
{
    *count = c->outputs;
    for (int i = 0; i < c->leaf_count; i++)
        *count += c->leaves[i].count;
    real *all = reals(c, *count);
    if (!all)
        return NULL;
    size_t at = c->outputs;
    memcpy(all, c->y, c->outputs * sizeof *all);
    for (int i = 0; i < c->leaf_count; i++) {
        memcpy(all + at, c->leaves[i].grad, c->leaves[i].count * sizeof *all);
        at += c->leaves[i].count;
    }
    return all;
}

/* Runs the graph on NaN, which fills the block with it, and then once more as it should be. */
static void check_leftovers(struct check *c)
{
    size_t count;
    run_backward(c);
    real *before = snapshot(c, &count), *seed = reals(c, c->outputs);
    real *values = reals(c, c->params.total);
    if (!c->result->passed)
        return;
    for (int i = 0; i < c->leaf_count; i++)
        for (size_t k = 0; k < c->leaves[i].count; k++)
            c->leaves[i].value[k] = (real)NAN;
    for (size_t k = 0; k < c->params.total; k++)
        values[k] = (real)NAN;
    for (size_t k = 0; k < c->outputs; k++)
        seed[k] = (real)NAN;
    c->feed.values = values;
    c->feed.seed = seed;
    runner_run(c->runner, &c->feed);
    c->feed.values = NULL;
    run_backward(c);
    const real *after = snapshot(c, &count);
    if (after && memcmp(before, after, count * sizeof *after) != 0)
        fail(c, "results depend on what was in memory before (beta 0 must not read)");
}

void gradcheck_graph(struct gradcheck *result, gradcheck_build *build, const void *context,
                     const struct op *twice)
{
    struct check c = {.result = result};
    arena_init(&c.memory);
    result->passed = true;
    result->note[0] = 0;
    result->worst = 0;
    bool fine = record(&c, build, context, twice, 2);
    int batch = fine ? slice_size(&c) : 0;
    if (fine && batch != 2) {
        forget(&c);
        fine = record(&c, build, context, twice, batch);
    }
    if (fine && c.result->passed && prepare(&c)) {
        check_leftovers(&c);
        for (int i = 0; i < c.leaf_count; i++)
            if (!is_reached(&c.leaves[i]))
                fail(&c, "%s: its gradient is zero", c.leaves[i].name);
        for (int i = 0; i < c.leaf_count && c.leaf_count > 1; i++)
            for (int k = 0; k < DIRECTIONS; k++)
                compare(&c, &c.leaves[i], k);
        for (int k = 0; k < DIRECTIONS; k++)
            compare(&c, NULL, k);
    }
    forget(&c);
    arena_free(&c.memory);
}
