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

/* --- orders of tokens ---------------------------------------------------------------------------
 */

enum { TOKENS = 12 };
static const int cut[TOKENS] = {5, 6, 9, 10, 7, 4, 11, 8, 1, 2, 3, 0};
static const int join[TOKENS] = {11, 8, 9, 10, 5, 0, 1, 4, 7, 2, 3, 6}; /* the inverse */

/* A block of Swin: windows of four tokens, then joined again. */
static struct tensor *windows(struct graph *g, bool second)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, TOKENS, 8), true);
    struct tensor *h = op_permute_tokens(g, nn_layer_norm(g, "norm1", x, 1e-5), cut, TOKENS);
    h = nn_linear(g, "qkv", graph_reshape(g, h, SHAPE(6, 4, 8)), 8);
    struct tensor *W = graph_param(g, "mix", SHAPE(4, 4), INIT_NORMAL(1));
    h = nn_linear(g, "proj", op_token_mix(g, h, W, NULL), 8);
    h = op_permute_tokens(g, graph_reshape(g, h, SHAPE(2, TOKENS, 8)), join, TOKENS);
    return finish(g, op_add(g, x, op_drop_path(g, h, 0.5)), second);
}

TEST(fuse__windows_are_cut_by_the_norm_and_joined_by_the_linear_map)
{
    check_pair(windows);
    CHECK_INT(nodes[0], 7);
    CHECK_INT(nodes[1], 4);
    check_noisy_pair(windows);
    CHECK_INT(nodes[0], 8);
    CHECK_INT(nodes[1], 4);
}

/* Patch merging, with another reader of x: the norm's gradient is added to its. */
static struct tensor *merging(struct graph *g, bool second)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, TOKENS, 8), true);
    x = nn_linear(g, "fc", x, 8);
    struct tensor *h = graph_reshape(g, op_permute_tokens(g, x, cut, TOKENS), SHAPE(2, 3, 32));
    h = nn_linear(g, "reduction", nn_layer_norm(g, "norm", h, 1e-5), 16);
    struct tensor *pooled = nn_linear(g, "skip", op_pool(g, x, 0, TOKENS), 48);
    return finish(g, op_add(g, h, graph_reshape(g, pooled, SHAPE(2, 3, 16))), second);
}

/* The same order for a norm of single tokens, of columns. */
static struct tensor *norm_behind(struct graph *g, bool second)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, TOKENS, 11), true);
    struct tensor *h = op_permute_tokens(g, graph_columns(g, x, 2, 8), cut, TOKENS);
    return finish(g, nn_layer_norm(g, "norm", h, 1e-5), second);
}

TEST(fuse__a_norm_gathers_the_tokens_that_are_merged)
{
    check_pair(merging);
    CHECK_INT(nodes[0], 7);
    CHECK_INT(nodes[1], 6); /* the sum's rows are not those of a linear map */
    check_pair(norm_behind);
    CHECK_INT(nodes[1], 1);
}

/* What comes between a linear map and an order stays as it is. */
static struct tensor *noise_before(struct graph *g, bool second)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, TOKENS, 8), true);
    struct tensor *h = op_drop_path(g, nn_linear(g, "fc", x, 8), 0.5);
    return finish(g, op_add(g, op_permute_tokens(g, h, cut, TOKENS), x), second);
}

static struct tensor *gelu_behind(struct graph *g, bool second)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, TOKENS, 8), true);
    struct tensor *h = op_permute_tokens(g, nn_linear(g, "fc", x, 8), cut, TOKENS);
    return finish(g, op_gelu(g, op_permute_tokens(g, h, cut, TOKENS)), second);
}

TEST(fuse__an_order_is_absorbed_once_and_neither_behind_noise_nor_before_gelu)
{
    check_noisy_pair(noise_before);
    CHECK_INT(nodes[1], 3);
    check_pair(gelu_behind);
    CHECK_INT(nodes[1], 3);
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
