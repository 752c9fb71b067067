/* test_graph.c - recording: scopes, parameters, views, and the failure that is kept. */
#include "graph/rig.h"
#include "nn/nn.h"

TEST(graph_scope__pop_undoes_one_push_with_all_its_dots)
{
    struct rig r;
    rig_begin(&r, 1, false);
    struct graph *g = r.graph;
    graph_scope_push(g, "blocks.%d", 3);
    graph_scope_push(g, "mlp.fc1.inner");
    CHECK_STR(graph_param(g, "weight", SHAPE(2), INIT_ONES)->name, "blocks.3.mlp.fc1.inner.weight");
    graph_scope_pop(g);
    CHECK_STR(g->scope, "blocks.3");
    graph_scope_push(g, "attn");
    CHECK_STR(graph_param(g, "qkv.weight", SHAPE(2), INIT_ONES)->name, "blocks.3.attn.qkv.weight");
    graph_scope_pop(g);
    graph_scope_pop(g);
    CHECK_STR(g->scope, "");
    CHECK_STR(graph_param(g, "norm.weight", SHAPE(2), INIT_ONES)->name, "norm.weight");
    rig_end(&r);
}

TEST(graph_scope__too_long_or_too_deep_is_an_error)
{
    struct rig r;
    rig_begin(&r, 1, false);
    for (int i = 0; i < 8; i++)
        graph_scope_push(r.graph, "%060d", i);
    for (int i = 0; i < 8; i++)
        graph_scope_pop(r.graph);
    CHECK_INT(graph_plan(r.graph, &r.error), ERR_SHAPE);
    CHECK_STR(r.graph->scope, "");
    rig_end(&r);

    rig_begin(&r, 1, false);
    for (int i = 0; i < 40; i++)
        graph_scope_push(r.graph, "s");
    for (int i = 0; i < 40; i++)
        graph_scope_pop(r.graph);
    CHECK_INT(graph_plan(r.graph, &r.error), ERR_SHAPE);
    CHECK_STR(r.graph->scope, "");
    rig_end(&r);
}

TEST(graph__keeps_its_first_failure_and_goes_on_inert)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct graph *g = r.graph;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 3, 4), true);
    graph_scope_push(g, "blocks.5");
    struct tensor *y = op_add(g, x, graph_columns(g, x, 0, 2));
    CHECK(y == g->inert);
    graph_scope_pop(g);
    y = nn_linear(g, "later", y, 7);
    y = op_sdpa(g, graph_split_heads(g, y, 3), y, graph_columns(g, y, 90, 2), 1);
    y = op_add(g, graph_reshape(g, op_merge_heads(g, y), SHAPE(9)), x);
    CHECK(y == g->inert);
    graph_output(g, y);
    graph_set_loss(g, y);
    CHECK_INT(graph_plan(g, &r.error), ERR_SHAPE);
    CHECK_STR(r.error.text, "blocks.5: add: shapes (2, 3, 4) and (2, 3, 2) differ");
    CHECK_INT(r.params.count, 0);
    rig_end(&r);
}

TEST(graph__refuses_sizes_that_cannot_be)
{
    struct rig r;
    rig_begin(&r, 2, false);
    CHECK(graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 0, 3), true) == r.graph->inert);
    CHECK_INT(graph_plan(r.graph, &r.error), ERR_SHAPE);
    rig_end(&r);

    rig_begin(&r, 2, false);
    CHECK(graph_param(r.graph, "W", SHAPE(1 << 30, 1 << 30, 1 << 30), INIT_ONES) == r.graph->inert);
    CHECK_INT(graph_plan(r.graph, &r.error), ERR_SHAPE);
    rig_end(&r);

    rig_begin(&r, 2, false);
    for (int i = 0; i <= GRAPH_MAX_INPUTS; i++)
        graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 3), true);
    CHECK_INT(graph_plan(r.graph, &r.error), ERR_SHAPE);
    rig_end(&r);
}

/* --- parameters ---------------------------------------------------------------------------------
 */

TEST(graph_param__is_one_for_all_graphs_that_name_it)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct graph_options options = {.batch = 5};
    struct graph *infer = graph_create(&r.params, &options);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 4), false);
    struct tensor *z = graph_input(infer, "x", TYPE_REAL, SHAPE(5, 4), false);
    struct tensor *y = nn_linear(r.graph, "head", x, 3);
    graph_output(infer, nn_linear(infer, "head", z, 3));
    CHECK_INT(r.params.count, 2);
    rig_ready(&r, y, 4);
    rig_randomize(&r, 1);
    rig_run(&r);

    struct runner *runner;
    CHECK_OK(graph_plan(infer, &r.error), r.error);
    CHECK_OK(runner_create(&runner, infer, 1, 1, &r.error), r.error);
    real *again = rig_alloc(&r, r.y_count * sizeof *again);
    runner_run(runner, &(struct feed){.rows = 4, .input = {r.x[0]}, .output = {again}});
    CHECK_NEAR(rig_distance(again, r.y, r.y_count), 0, rig_rounding);

    /* The other values that a feed may bring along are used instead. */
    real *other = rig_alloc(&r, r.params.total * sizeof *other);
    runner_run(runner,
               &(struct feed){.rows = 4, .input = {r.x[0]}, .output = {again}, .values = other});
    CHECK(rig_norm(again, r.y_count) == 0);
    runner_destroy(runner);
    graph_free(infer);
    rig_end(&r);
}

TEST(graph_param__of_another_shape_under_the_same_name_is_an_error)
{
    struct rig r;
    rig_begin(&r, 1, false);
    graph_scope_push(r.graph, "blocks.0.attn");
    graph_param(r.graph, "align.weight", SHAPE(5, 5), INIT_ONES);
    graph_param(r.graph, "align.weight", SHAPE(6, 6), INIT_ONES);
    graph_scope_pop(r.graph);
    CHECK_INT(graph_plan(r.graph, &r.error), ERR_SHAPE);
    CHECK_CONTAINS(r.error.text, "blocks.0.attn.align.weight");
    CHECK_CONTAINS(r.error.text, "(5, 5)");
    CHECK_CONTAINS(r.error.text, "(6, 6)");
    rig_end(&r);
}

TEST(graph_param__decays_with_two_axes_or_more_unless_flags_say)
{
    struct rig r;
    rig_begin(&r, 1, false);
    struct graph *g = r.graph;
    CHECK_INT(graph_param(g, "weight", SHAPE(2, 2), INIT_ONES)->param->flags, PARAM_DECAY);
    CHECK_INT(graph_param(g, "bias", SHAPE(2), INIT_ONES)->param->flags, 0);
    CHECK_INT(graph_param_flags(g, "pos", SHAPE(1, 2, 2), INIT_ONES, 0)->param->flags, 0);
    rig_end(&r);
}

TEST(params__put_trained_ones_first_and_count_no_buffers)
{
    struct rig r;
    rig_begin(&r, 1, false);
    struct graph *g = r.graph;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(1, 2), false);
    graph_param_flags(g, "buffer", SHAPE(3), INIT_CONSTANT(3), PARAM_BUFFER);
    graph_param_flags(g, "frozen", SHAPE(5), INIT_CONSTANT(5), PARAM_FROZEN);
    struct tensor *gamma = graph_param(g, "gamma", SHAPE(2), INIT_CONSTANT(2));
    rig_ready(&r, op_scale_cols(g, x, gamma), 1);
    CHECK_INT(r.params.total, 10);
    CHECK_INT(r.params.trained, 2);
    CHECK_INT(params_counted(&r.params), 7);
    CHECK_INT(rig_param(&r, "gamma")->at, 0);
    CHECK(rig_grad(&r, "gamma") == r.params.grads);
    CHECK(rig_grad(&r, "buffer") == NULL && rig_grad(&r, "frozen") == NULL);
    for (int i = 0; i < 3; i++) {
        struct param *p = r.params.list[i];
        CHECK(p->value == r.params.values + p->at);
        for (size_t k = 0; k < p->count; k++)
            CHECK_INT(p->value[k], p->count);
    }
    rig_end(&r);
}

/* --- views --------------------------------------------------------------------------------------
 */

/* Runs scale(view of x (2, 3, 8), 1) and compares with x at the place that `at` gives. */
static void check_view(struct tensor *(*view)(struct graph *, struct tensor *),
                       size_t (*at)(size_t element))
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 3, 8), true);
    rig_ready(&r, op_scale(r.graph, view(r.graph, x), 1), 2);
    rig_run(&r);
    real *want = rig_alloc(&r, 48 * sizeof *want);
    for (size_t i = 0; i < r.y_count; i++) {
        CHECK(r.y[i] == r.x[0][at(i)]);
        want[at(i)] = r.dy[i];
    }
    for (size_t i = 0; i < 48; i++)
        CHECK(r.dx[0][i] == want[i]);
    rig_end(&r);
}

static struct tensor *columns_of_columns(struct graph *g, struct tensor *x)
{
    return graph_columns(g, graph_columns(g, x, 2, 5), 1, 3);
}

static size_t at_columns_of_columns(size_t i)
{
    return i / 3 * 8 + 3 + i % 3;
}

static struct tensor *heads(struct graph *g, struct tensor *x)
{
    return graph_split_heads(g, x, 4);
}

static size_t at_heads(size_t i) /* (2, 4, 3, 2) */
{
    size_t c = i % 2, t = i / 2 % 3, h = i / 6 % 4, b = i / 24;
    return (b * 3 + t) * 8 + h * 2 + c;
}

static struct tensor *heads_of_columns(struct graph *g, struct tensor *x)
{
    return graph_split_heads(g, graph_columns(g, x, 4, 4), 2);
}

static size_t at_heads_of_columns(size_t i) /* (2, 2, 3, 2) */
{
    size_t c = i % 2, t = i / 2 % 3, h = i / 6 % 2, b = i / 12;
    return (b * 3 + t) * 8 + 4 + h * 2 + c;
}

static struct tensor *split_and_merged(struct graph *g, struct tensor *x)
{
    return graph_merge_heads(g, graph_split_heads(g, graph_columns(g, x, 4, 4), 2));
}

static size_t at_split_and_merged(size_t i)
{
    return i / 4 * 8 + 4 + i % 4;
}

static struct tensor *reshaped(struct graph *g, struct tensor *x)
{
    return graph_reshape(g, x, SHAPE(2, 2, 12));
}

static size_t at_same(size_t i)
{
    return i;
}

TEST(graph_views__show_the_right_elements_and_their_gradients)
{
    check_view(columns_of_columns, at_columns_of_columns);
    check_view(heads, at_heads);
    check_view(heads_of_columns, at_heads_of_columns);
    check_view(split_and_merged, at_split_and_merged);
    check_view(reshaped, at_same);
}

TEST(graph_views__need_no_node)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 3, 8), true);
    columns_of_columns(r.graph, x);
    split_and_merged(r.graph, x);
    reshaped(r.graph, x);
    CHECK_INT(r.graph->node_count, 0);
    rig_end(&r);
}

TEST(graph_merge_heads__is_null_where_memory_lies_otherwise)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 4, 3, 2), true);
    CHECK(graph_merge_heads(r.graph, x) == NULL);
    CHECK_INT(r.graph->error.status, OK);
    rig_end(&r);
}

static void expect_failure(struct tensor *(*view)(struct graph *, struct tensor *),
                           const char *text)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 3, 8), true);
    CHECK(view(r.graph, x) == r.graph->inert);
    CHECK_INT(graph_plan(r.graph, &r.error), ERR_SHAPE);
    CHECK_CONTAINS(r.error.text, text);
    rig_end(&r);
}

static struct tensor *too_many_columns(struct graph *g, struct tensor *x)
{
    return graph_columns(g, x, 4, 5);
}

static struct tensor *columns_of_heads(struct graph *g, struct tensor *x)
{
    return graph_columns(g, graph_split_heads(g, x, 2), 0, 2);
}

static struct tensor *five_heads(struct graph *g, struct tensor *x)
{
    return graph_split_heads(g, x, 5);
}

static struct tensor *reshaped_columns(struct graph *g, struct tensor *x)
{
    return graph_reshape(g, graph_columns(g, x, 0, 4), SHAPE(24));
}

static struct tensor *reshaped_larger(struct graph *g, struct tensor *x)
{
    return graph_reshape(g, x, SHAPE(2, 3, 9));
}

TEST(graph_views__that_cannot_be_are_errors)
{
    expect_failure(too_many_columns, "columns 4..8 of 8");
    expect_failure(columns_of_heads, "columns");
    expect_failure(five_heads, "8 cannot be split into 5 heads");
    expect_failure(reshaped_columns, "(2, 3, 4) cannot be seen as (24)");
    expect_failure(reshaped_larger, "(2, 3, 8) cannot be seen as (2, 3, 9)");
}

TEST(graph_record__copies_inputs_that_an_op_cannot_take)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 3, 8), true);
    op_softmax(r.graph, graph_columns(r.graph, x, 2, 4)); /* rows may be strided */
    CHECK_INT(r.graph->node_count, 1);
    op_softmax(r.graph, graph_split_heads(r.graph, x, 2)); /* so may heads */
    CHECK_INT(r.graph->node_count, 2);
    struct tensor *ones = graph_param(r.graph, "ones", SHAPE(4), INIT_ONES);
    op_layer_norm(r.graph, graph_split_heads(r.graph, x, 2), ones, ones, 1); /* not everywhere */
    CHECK_INT(r.graph->node_count, 4);
    CHECK_STR(r.graph->nodes[2]->op->name, "copy");
    rig_end(&r);
}

/* --- outputs ------------------------------------------------------------------------------------
 */

static struct tensor *traced(struct graph *g, bool trace)
{
    g->options.trace = trace;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 3, 8), true);
    struct tensor *h = op_scale(g, x, 2);
    graph_scope_push(g, "blocks.0");
    graph_trace(g, h);
    graph_scope_push(g, "view");
    graph_trace(g, graph_columns(g, h, 2, 3));
    graph_scope_pop(g);
    graph_scope_pop(g);
    return op_softmax(g, h);
}

TEST(graph_trace__names_outputs_by_scope_and_does_nothing_otherwise)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *y = traced(r.graph, true);
    CHECK_INT(r.graph->output_count, 2);
    CHECK_STR(r.graph->outputs[0]->name, "blocks.0");
    CHECK_STR(r.graph->outputs[1]->name, "blocks.0.view");
    rig_ready(&r, y, 3);
    real *whole = rig_alloc(&r, 72 * sizeof *whole), *part = rig_alloc(&r, 27 * sizeof *part);
    r.feed.output[0] = whole;
    r.feed.output[1] = part;
    rig_run(&r);
    for (int i = 0; i < 72; i++)
        CHECK(whole[i] == 2 * r.x[0][i]);
    for (int i = 0; i < 27; i++)
        CHECK(part[i] == 2 * r.x[0][i / 3 * 8 + 2 + i % 3]);
    rig_end(&r);

    rig_begin(&r, 2, false);
    traced(r.graph, false);
    CHECK_INT(r.graph->output_count, 0);
    rig_end(&r);
}

TEST(graph_macs__sum_over_the_slice)
{
    struct rig r;
    rig_begin(&r, 5, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(5, 3, 8), true);
    op_gelu(r.graph, nn_linear(r.graph, "fc", x, 7));
    CHECK_NEAR(graph_macs(r.graph), 5 * 3 * 8 * 7, 0);
    rig_end(&r);
}
