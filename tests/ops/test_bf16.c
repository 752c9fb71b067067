/* test_bf16.c - every op and every attention variant on bf16 storage agrees with itself on real
 * storage within 2 %: values, gradients of inputs and parameters, from the same (rounded) numbers.
 * Gradients of attentions whose features have kinks, which rounding can step over, within 5 %. */
#include <stdint.h>

#include "attention/attention.h"
#include "config/config.h"
#include "graph/rig.h"
#include "ops/ops.h"

typedef struct tensor *record_function(struct graph *g, const void *what);

static const double tolerance = 2e-2;
static const double of_numbers = 5e-2; /* that stand alone: sums over all tokens, which cancel */

/* A bf16 copy of n numbers; the numbers themselves are rounded too. */
static void *rounded(struct rig *r, real *x, size_t n)
{
    uint16_t *copy = rig_alloc(r, n * sizeof *copy);
    struct vec real_vec = {x, TYPE_REAL, (ptrdiff_t)n}, bf16_vec = {copy, TYPE_BF16, (ptrdiff_t)n};
    kernel_accumulate(bf16_vec, 0, real_vec, 1, 1, n);
    kernel_accumulate(real_vec, 0, bf16_vec, 1, 1, n);
    return copy;
}

static void run(struct rig *r, enum type type, record_function *record, const void *what)
{
    rig_begin(r, 2, true);
    r->graph->options.type = type;
    struct tensor *y = record(r->graph, what);
    CHECK_OK(r->graph->error.status, r->graph->error);
    int batch = y->shape.dim[0];
    r->graph->options.batch = batch;
    rig_ready(r, y, batch);
    rig_randomize(r, 1);
    for (int i = 0; i < r->graph->input_count; i++) {
        if (!r->x[i])
            continue;
        void *copy = rounded(r, r->x[i], r->count[i]);
        if (r->graph->inputs[i]->type == TYPE_BF16)
            r->feed.input[i] = copy;
    }
    rounded(r, r->dy, r->y_count);
    rig_run(r);
}

static void check(record_function *record, const void *what, double of_gradients)
{
    struct rig a, b;
    run(&a, TYPE_REAL, record, what);
    run(&b, TYPE_BF16, record, what);
    CHECK_NEAR(rig_distance(b.y, a.y, a.y_count), 0, tolerance);
    for (int i = 0; i < a.graph->input_count; i++)
        if (a.dx[i])
            CHECK_NEAR(rig_distance(b.dx[i], a.dx[i], a.count[i]), 0, of_gradients);
    for (int i = 0; i < a.params.count; i++) {
        const struct param *p = a.params.list[i];
        if (param_grad(&a.params, p))
            CHECK_NEAR(rig_distance(rig_grad(&b, p->name), rig_grad(&a, p->name), p->count), 0,
                       p->count == 1 ? of_numbers : of_gradients);
    }
    rig_end(&a);
    rig_end(&b);
}

static struct tensor *record_op(struct graph *g, const void *op)
{
    return ((const struct op *)op)->sample(g);
}

TEST(bf16__every_op_agrees_with_real_storage)
{
    for (int i = 0; op_at(i); i++) {
        test_about("%s", op_at(i)->name);
        check(record_op, op_at(i), tolerance);
    }
}

static struct tensor *record_attention(struct graph *g, const void *kind)
{
    const struct kind *k = kind;
    struct error err;
    void *options = arena_alloc(&g->memory, k->size + 1);
    if (k->fields)
        CHECK_OK(config_defaults(k->fields, options, &g->memory, &err), err);
    const struct attn_variant *variant = k->impl;
    if (variant->steps)
        variant->exact(options);
    struct choice choice = {.kind = k, .name = k->name, .options = options};
    struct attn_site site = {.B = 2, .N = 17, .D = 24, .H = 3, .grid = {4, 4}, .prefix = 1,
                             .blocks = 1, .qkv_bias = true, .proj_bias = true};
    struct tensor *x = graph_sample(g, SHAPE(site.B, site.N, site.D));
    return attn_build(g, "attn", &choice, &site, x);
}

static bool has_kinks(const struct kind *kind)
{
    const struct attn_variant *variant = kind->impl;
    return variant->kinks;
}

TEST(bf16__every_attention_agrees_with_real_storage)
{
    for (int i = 0; attn_kinds(i); i++) {
        test_about("%s", attn_kinds(i)->name);
        check(record_attention, attn_kinds(i), has_kinks(attn_kinds(i)) ? 5e-2 : tolerance);
    }
}

/* What graph_plan says of a graph on bf16 storage. */
static enum status plan_bf16(struct tensor *(*record)(struct graph *g), struct error *err)
{
    struct rig r;
    rig_begin(&r, 1, true);
    r.graph->options.type = TYPE_BF16;
    r.graph->options.batch = 2;
    struct tensor *y = record(r.graph);
    graph_output(r.graph, y);
    enum status status = graph_plan(r.graph, err);
    rig_end(&r);
    return status;
}

static void nothing(const struct node *n)
{
    (void)n;
}

/* An op that knows real numbers alone. */
static const struct op narrow_op = {
    .name = "narrow", .infer = infer_unary, .forward = nothing, .backward = nothing,
    .takes = TYPE_REAL,
};

static struct tensor *record_narrow(struct graph *g)
{
    return graph_record(g, &narrow_op, NULL, INPUTS(graph_sample(g, SHAPE(2, 3))));
}

TEST(bf16__an_op_without_it_is_named_when_the_graph_is_planned)
{
    struct error err;
    CHECK_INT(plan_bf16(record_narrow, &err), ERR_SHAPE);
    CHECK_CONTAINS(err.text, "narrow cannot take bf16");
    CHECK_CONTAINS(err.text, "fp32");
}

static struct tensor *record_computed_weight(struct graph *g)
{
    return op_linear(g, graph_sample(g, SHAPE(2, 3)), graph_sample(g, SHAPE(4, 3)), NULL);
}

TEST(bf16__a_weight_that_is_no_parameter_is_an_error)
{
    struct error err;
    CHECK_INT(plan_bf16(record_computed_weight, &err), ERR_SHAPE);
    CHECK_CONTAINS(err.text, "parameter");
}
