/* test_sdpa.c - fused attention against softmax(scale q k^T) v written as products. */
#include "pair.h"

static const double scale = 0.6;

static struct tensor *attention(struct graph *g, bool composed, struct tensor *q, struct tensor *k,
                                struct tensor *v)
{
    struct tensor *y;
    if (composed)
        y = op_matmul(g, op_softmax(g, op_scale(g, op_matmul_nt(g, q, k), scale)), v);
    else
        y = op_sdpa(g, q, k, v, scale);
    return op_merge_heads(g, y);
}

static struct tensor *apart(struct graph *g, bool composed)
{
    struct tensor *q = graph_input(g, "q", TYPE_REAL, SHAPE(2, 3, 7, 4), true);
    struct tensor *k = graph_input(g, "k", TYPE_REAL, SHAPE(2, 3, 9, 4), true);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 3, 9, 5), true);
    return attention(g, composed, q, k, v);
}

static struct tensor *columns_of_one_buffer(struct graph *g, bool composed)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 7, 36), true), *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = graph_split_heads(g, graph_columns(g, x, 12 * i, 12), 3);
    return attention(g, composed, t[0], t[1], t[2]);
}

static struct tensor *keys_and_values_shared(struct graph *g, bool composed)
{
    struct tensor *q = graph_input(g, "q", TYPE_REAL, SHAPE(2, 7, 12), true);
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 7, 12), true);
    struct tensor *kv = graph_split_heads(g, x, 3);
    return attention(g, composed, graph_split_heads(g, q, 3), kv, kv);
}

static struct tensor *all_shared(struct graph *g, bool composed)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 7, 12), true);
    struct tensor *h = graph_split_heads(g, op_scale(g, x, 2), 3);
    return attention(g, composed, h, h, h);
}

/* The gradients of keys and values are added to what another reader wrote before. */
static struct tensor *read_by_others_too(struct graph *g, bool composed)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 7, 12), true);
    struct tensor *h = op_scale(g, x, 2), *heads = graph_split_heads(g, h, 3);
    return op_add(g, op_multiply(g, h, h), attention(g, composed, heads, heads, heads));
}

static struct tensor *only_values_wanted(struct graph *g, bool composed)
{
    struct tensor *q = graph_input(g, "q", TYPE_REAL, SHAPE(2, 3, 7, 4), false);
    struct tensor *k = graph_input(g, "k", TYPE_REAL, SHAPE(2, 3, 9, 4), false);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 3, 9, 5), true);
    return attention(g, composed, q, k, v);
}

static struct tensor *only_queries_wanted(struct graph *g, bool composed)
{
    struct tensor *q = graph_input(g, "q", TYPE_REAL, SHAPE(2, 3, 7, 4), true);
    struct tensor *k = graph_input(g, "k", TYPE_REAL, SHAPE(2, 3, 9, 4), false);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 3, 9, 5), false);
    return attention(g, composed, q, k, v);
}

static struct tensor *one_token(struct graph *g, bool composed)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 1, 1, 6), true);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 1, 1, 6), true);
    return op_add(g, op_merge_heads(g, op_scale(g, x, 1)), attention(g, composed, x, x, v));
}

/* More rows than one tile of the kernel holds. */
static struct tensor *many_tokens(struct graph *g, bool composed)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 391, 24), true), *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = graph_split_heads(g, graph_columns(g, x, 8 * i, 8), 1);
    return attention(g, composed, t[0], t[1], t[2]);
}

TEST(sdpa__is_the_softmax_of_products)
{
    static const struct {
        const char *name;
        pair_record *record;
    } cases[] = {
        {"q, k, v apart", apart},
        {"columns of one buffer", columns_of_one_buffer},
        {"keys and values shared", keys_and_values_shared},
        {"q, k, v shared", all_shared},
        {"read by others too", read_by_others_too},
        {"only dv", only_values_wanted},
        {"only dq", only_queries_wanted},
        {"one token", one_token},
        {"many tokens", many_tokens},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_about("%s", cases[i].name);
        check_pair(cases[i].record);
    }
}

/* One head, q, k, v apart; the caller fills them. */
static void begin_plain(struct rig *r)
{
    rig_begin(r, 2, false);
    struct graph *g = r->graph;
    struct tensor *q = graph_input(g, "q", TYPE_REAL, SHAPE(2, 1, 5, 4), true);
    struct tensor *k = graph_input(g, "k", TYPE_REAL, SHAPE(2, 1, 6, 4), true);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 1, 6, 3), true);
    rig_ready(r, op_merge_heads(g, op_sdpa(g, q, k, v, scale)), 2);
}

TEST(sdpa__weights_sum_to_one)
{
    struct rig r;
    begin_plain(&r);
    for (size_t i = 0; i < r.count[2]; i++)
        r.x[2][i] = (real)(1 + i % 3);
    rig_run(&r);
    for (size_t i = 0; i < r.y_count; i++)
        CHECK_NEAR(r.y[i], 1 + i % 3, 3 * rig_rounding);
    rig_end(&r);
}

/* Identity I15: rows of dZ sum to 0, so a vector added to all keys has no gradient. */
TEST(sdpa__ignores_what_all_keys_have_in_common)
{
    struct rig r;
    begin_plain(&r);
    rig_run(&r);
    for (int b = 0; b < 2; b++)
        for (int c = 0; c < 4; c++) {
            double sum = 0, size = 0;
            for (int j = 0; j < 6; j++) {
                sum += (double)r.dx[1][(b * 6 + j) * 4 + c];
                size += fabs((double)r.dx[1][(b * 6 + j) * 4 + c]);
            }
            CHECK(size > 1e-3);
            CHECK_NEAR(sum, 0, size * rig_rounding);
        }
    rig_end(&r);
}

/* Identity I14: scores are bilinear in queries and keys. */
TEST(sdpa__gradients_of_queries_and_keys_have_one_product)
{
    struct rig r;
    begin_plain(&r);
    rig_run(&r);
    double q = rig_dot(r.dx[0], r.x[0], r.count[0]), k = rig_dot(r.dx[1], r.x[1], r.count[1]);
    CHECK(fabs(q) > 1e-3);
    CHECK_NEAR(q, k, 10 * rig_rounding * fabs(q));
    CHECK_NEAR(rig_dot(r.dx[2], r.x[2], r.count[2]), rig_dot(r.dy, r.y, r.y_count),
               10 * rig_rounding);
    rig_end(&r);
}

TEST(sdpa__survives_scores_that_overflow_exp)
{
    struct rig r;
    begin_plain(&r);
    for (size_t i = 0; i < r.count[0]; i++)
        r.x[0][i] *= 3000;
    rig_run(&r);
    for (size_t i = 0; i < r.y_count; i++)
        CHECK(fabs((double)r.y[i]) <= 1);
    for (size_t i = 0; i < r.count[1]; i++)
        CHECK(isfinite(r.dx[1][i]));
    rig_end(&r);
}

TEST(softmax__rows_sum_to_one_and_their_gradients_to_zero)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 3, 7), true);
    rig_ready(&r, op_softmax(r.graph, x), 2);
    rig_run(&r);
    for (int row = 0; row < 6; row++) {
        double y = 0, dx = 0;
        for (int c = 0; c < 7; c++) {
            y += (double)r.y[7 * row + c];
            dx += (double)r.dx[0][7 * row + c];
        }
        CHECK_NEAR(y, 1, rig_rounding);
        CHECK_NEAR(dx, 0, rig_rounding);
    }
    rig_end(&r);
}
