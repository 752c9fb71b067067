/* test_fuse.c - what graph_fuse makes of a graph computes the same. */
#include "nn/nn.h"
#include "ops/pair.h"

static int nodes[2];

static struct tensor *finish(struct graph *g, struct tensor *y, bool second)
{
    if (second)
        graph_fuse(g);
    nodes[second] = g->node_count;
    return y;
}

static struct tensor *mlp(struct graph *g, bool second)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 3, 8), true);
    struct tensor *h = op_gelu(g, nn_linear(g, "fc1", x, 16));
    return finish(g, op_add(g, x, nn_linear(g, "fc2", h, 8)), second);
}

TEST(fuse__linear_absorbs_gelu_and_a_residual_on_either_side)
{
    check_pair(mlp);
    CHECK_INT(nodes[0], 4);
    CHECK_INT(nodes[1], 2);
}

static struct tensor *branch(struct graph *g, bool second)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 3, 8), true);
    struct tensor *h = op_drop_path(g, nn_linear(g, "a", x, 8), 0.5);
    struct tensor *y = op_add(g, h, x);
    return finish(g, op_drop_path(g, nn_linear(g, "b", y, 8), 0.3), second);
}

TEST(fuse__linear_absorbs_drop_path)
{
    check_noisy_pair(branch);
    CHECK_INT(nodes[0], 5);
    CHECK_INT(nodes[1], 2);
}

static struct tensor *two_readers(struct graph *g, bool second)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 3, 8), true);
    struct tensor *h = nn_linear(g, "fc1", x, 8);
    return finish(g, op_add(g, op_gelu(g, h), h), second);
}

static struct tensor *views(struct graph *g, bool second)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 3, 8), true);
    struct tensor *h = nn_linear(g, "fc1", x, 16);
    return finish(g, op_add(g, op_gelu(g, graph_columns(g, h, 8, 8)), x), second);
}

static struct tensor *late_residual(struct graph *g, bool second)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 3, 8), true);
    struct tensor *h = nn_linear(g, "fc1", x, 8);
    return finish(g, op_add(g, h, op_softmax(g, x)), second);
}

TEST(fuse__leaves_what_others_read_what_is_a_view_and_what_would_come_too_early)
{
    pair_record *const records[] = {two_readers, views, late_residual};
    for (int i = 0; i < 3; i++) {
        check_pair(records[i]);
        CHECK_INT(nodes[1], nodes[0]);
    }
}

TEST(fuse__drops_traced_outputs_that_are_never_stored_and_keeps_outputs)
{
    struct params params;
    params_init(&params);
    for (int required = 0; required < 2; required++) {
        const struct graph_options options = {.batch = 2, .trace = true};
        struct graph *g = graph_create(&params, &options);
        struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 3, 8), false);
        struct tensor *h = nn_linear(g, "fc1", x, 8);
        if (required)
            graph_output(g, h);
        else
            graph_trace(g, h);
        graph_output(g, op_gelu(g, h));
        graph_fuse(g);
        CHECK_INT(g->node_count, required ? 2 : 1);
        CHECK_INT(g->output_count, required ? 2 : 1);
        graph_free(g);
    }
    params_free(&params);
}
