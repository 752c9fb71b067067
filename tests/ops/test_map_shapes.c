/* test_map_shapes.c - what ops along maps and sequences say to shapes that do not fit. */
#include "graph/rig.h"
#include "ops/ops.h"
#include "wrong.h"

static struct tensor *input(struct graph *g, struct shape shape)
{
    return graph_input(g, "x", TYPE_REAL, shape, true);
}

static struct tensor *param(struct graph *g, const char *name, struct shape shape)
{
    return graph_param(g, name, shape, INIT_NORMAL(1));
}

static const struct token_sequence as_they_lie = {.order = NULL};

static void wrong_map(struct graph *g)
{
    struct tensor *weight = param(g, "w", SHAPE(4, 1, 3, 3));
    const struct token_map map = {.grid = {2, 4}, .prefix = 1};
    op_depthwise(g, input(g, SHAPE(2, 8, 4)), weight, NULL, &map);
}

static void wrong_kernel(struct graph *g)
{
    const struct token_map map = {.grid = {2, 4}};
    op_depthwise(g, input(g, SHAPE(2, 8, 4)), param(g, "w", SHAPE(4, 1, 3, 2)), NULL, &map);
}

static void wrong_channels(struct graph *g)
{
    const struct token_map map = {.grid = {2, 4}};
    op_depthwise(g, input(g, SHAPE(2, 8, 4)), param(g, "w", SHAPE(8, 1, 3, 3)), NULL, &map);
}

static void wrong_pool_size(struct graph *g)
{
    op_map_pool(g, input(g, SHAPE(2, 8, 4)), 2, &(struct token_map){.grid = {2, 4}});
}

static void wrong_shift_map(struct graph *g)
{
    op_map_shift(g, input(g, SHAPE(2, 8, 4)), 1, &(struct token_map){.grid = {3, 3}});
}

static void wrong_conv(struct graph *g)
{
    op_causal_conv(g, input(g, SHAPE(2, 8, 4)), param(g, "w", SHAPE(5, 1, 3)), NULL, &as_they_lie);
}

static void wrong_sequence(struct graph *g)
{
    op_causal_conv(g, input(g, SHAPE(2, 3, 4)), param(g, "w", SHAPE(4, 1, 3)), NULL,
                   &(struct token_sequence){.order = (const int[]){0, 1, 1}});
}

static void wrong_values(struct graph *g)
{
    struct tensor *decay = param(g, "decay", SHAPE(4));
    op_bi_wkv(g, input(g, SHAPE(2, 8, 4)), input(g, SHAPE(2, 8, 5)), decay, decay, &as_they_lie);
}

static void wrong_states(struct graph *g)
{
    struct tensor *x = input(g, SHAPE(2, 8, 4)), *B = input(g, SHAPE(2, 8, 3));
    op_selective_scan(g, x, x, param(g, "A", SHAPE(4, 2)), B, B, param(g, "D", SHAPE(4)),
                      &as_they_lie);
}

static void wrong_blend(struct graph *g)
{
    struct tensor *x = input(g, SHAPE(2, 8, 4));
    op_blend_cols(g, x, x, param(g, "mu", SHAPE(3)));
}

static const struct wrong wrongs[] = {
    {"depthwise", "2 x 4 behind 1 tokens for 8 tokens", wrong_map},
    {"depthwise", "(4, 1, 3, 2)", wrong_kernel},
    {"depthwise", "(8, 1, 3, 3)", wrong_channels},
    {"map_pool", "2 x 2", wrong_pool_size},
    {"map_shift", "3 x 3 behind 0 tokens for 8 tokens", wrong_shift_map},
    {"causal_conv", "(5, 1, 3)", wrong_conv},
    {"causal_conv", "3 tokens", wrong_sequence},
    {"bi_wkv", "(2, 8, 5)", wrong_values},
    {"selective_scan", "(4, 2)", wrong_states},
    {"blend_cols", "(3)", wrong_blend},
};

TEST(maps_and_sequences__report_shapes_that_do_not_fit)
{
    check_wrong(wrongs, sizeof wrongs / sizeof wrongs[0]);
}
