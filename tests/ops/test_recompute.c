/* test_recompute.c - segments that are run again give the same numbers in less memory. */
#include "nn/nn.h"
#include "ops/pair.h"

static struct tensor *blocks(struct graph *g, bool second)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 40, 8), true);
    x = nn_linear(g, "embed", x, 8);
    for (int i = 0; i < 6; i++) {
        graph_segment(g);
        graph_scope_push(g, "blocks.%d", i);
        struct qkv t = nn_qkv(g, "qkv", nn_layer_norm(g, "norm1", x, 1e-6), 2, true);
        struct tensor *y = op_merge_heads(g, op_sdpa(g, t.q, t.k, t.v, 0.5));
        y = op_drop_path(g, nn_linear(g, "proj", y, 8), 0.1);
        x = op_add(g, x, op_dropout(g, y, 0.1));
        y = op_gelu(g, nn_linear(g, "fc1", nn_layer_norm(g, "norm2", x, 1e-6), 64));
        x = op_add(g, x, nn_linear(g, "fc2", y, 8));
        graph_scope_pop(g);
    }
    graph_segment(g);
    x = nn_layer_norm(g, "norm", x, 1e-6);
    if (second)
        graph_recompute(g);
    return x;
}

/* Blocks with windows of four tokens, a position bias and patch merging. */
static struct tensor *windows(struct graph *g, bool second)
{
    enum { TOKENS = 16 };
    static const int cut[TOKENS] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, TOKENS, 8), true);
    x = nn_linear(g, "embed", x, 8);
    for (int i = 0; i < 3; i++) {
        graph_segment(g);
        graph_scope_push(g, "blocks.%d", i);
        struct tensor *h = op_permute_tokens(g, nn_layer_norm(g, "norm1", x, 1e-6), cut, TOKENS);
        struct qkv t = nn_qkv(g, "qkv", graph_reshape(g, h, SHAPE(8, 4, 8)), 2, true);
        struct tensor *table = graph_param(g, "table", SHAPE(9, 2), INIT_NORMAL(1));
        const struct sdpa_terms terms = {.bias = op_relative_bias(g, table, (const int[]){2, 2})};
        h = op_merge_heads(g, op_sdpa_terms(g, t.q, t.k, t.v, 0.5, &terms));
        h = graph_reshape(g, nn_linear(g, "proj", h, 8), SHAPE(2, TOKENS, 8));
        x = op_add(g, x, op_drop_path(g, op_permute_tokens(g, h, cut, TOKENS), 0.3));
        graph_scope_pop(g);
    }
    graph_segment(g);
    x = graph_reshape(g, op_permute_tokens(g, x, cut, TOKENS), SHAPE(2, 4, 32));
    x = nn_linear(g, "reduction", nn_layer_norm(g, "norm", x, 1e-6), 16);
    graph_segment(g);
    x = nn_linear(g, "head", x, 3);
    if (second) {
        graph_fuse(g);
        graph_recompute(g);
    }
    return x;
}

static struct tensor *fused_blocks(struct graph *g, bool second)
{
    struct tensor *y = blocks(g, false);
    graph_fuse(g);
    if (second)
        graph_recompute(g);
    return y;
}

TEST(recompute__gives_the_same_values_and_gradients)
{
    check_pair(blocks);
    check_noisy_pair(blocks);
    check_pair(fused_blocks);
    check_noisy_pair(fused_blocks);
    check_pair(windows);
    check_noisy_pair(windows);
}

TEST(recompute__needs_about_half_of_the_memory)
{
    struct params params;
    size_t bytes[2];
    double macs[2];
    params_init(&params);
    for (int second = 0; second < 2; second++) {
        const struct graph_options options = {.batch = 2, .gradients = true};
        struct error err;
        struct graph *g = graph_create(&params, &options);
        graph_set_loss(g, blocks(g, second));
        CHECK_OK(graph_plan(g, &err), err);
        bytes[second] = g->block_bytes;
        macs[second] = graph_macs(g);
        graph_free(g);
    }
    params_free(&params);
    CHECK_NEAR(macs[1], macs[0], 0);
    CHECK((double)bytes[1] < 0.6 * (double)bytes[0]);
}
