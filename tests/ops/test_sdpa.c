/* test_sdpa.c - fused attention against softmax(scale q k^T + bias) v written as products. */
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

/* --- with more terms ----------------------------------------------------------------------------
 */

enum { IMAGES = 2, WINDOWS = 2, HEADS = 3, TOKENS = 6 };

static const unsigned char region[WINDOWS * TOKENS] = {5, 5, 5, 5, 5, 5, 0, 1, 0, 2, 1, 0};
static const struct token_regions regions = {WINDOWS, TOKENS, region};

/* What regions add to the scores of an image. */
static const real *region_table(void)
{
    static real table[WINDOWS * HEADS * TOKENS * TOKENS];
    real *to = table;
    for (int w = 0; w < WINDOWS; w++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < TOKENS; i++)
                for (int j = 0; j < TOKENS; j++) {
                    const unsigned char *own = region + w * TOKENS;
                    *to++ = own[i] == own[j] ? 0 : (real)-INFINITY;
                }
    return table;
}

/* Heads of the windows of all images. */
static struct tensor *window_heads(struct graph *g, const char *name, int d)
{
    int count = WINDOWS * HEADS * TOKENS * d;
    struct tensor *x = graph_input(g, name, TYPE_REAL, SHAPE(IMAGES, count), true);
    return graph_reshape(g, x, SHAPE(IMAGES * WINDOWS, HEADS, TOKENS, d));
}

static struct tensor *merge_windows(struct graph *g, struct tensor *y)
{
    y = op_merge_heads(g, y);
    return graph_reshape(g, y, SHAPE(IMAGES, WINDOWS * TOKENS, tensor_cols(y)));
}

static struct tensor *with_terms(struct graph *g, bool composed, struct tensor *bias, bool apart,
                                 double dropout)
{
    struct tensor *q = window_heads(g, "q", 4), *k = window_heads(g, "k", 4);
    struct tensor *v = window_heads(g, "v", 5);
    if (!composed) {
        struct sdpa_terms terms = {.bias = bias, .regions = apart ? &regions : NULL, .dropout = dropout};
        return merge_windows(g, op_sdpa_terms(g, q, k, v, scale, &terms));
    }
    struct tensor *s = op_scale(g, op_matmul_nt(g, q, k), scale);
    if (bias)
        s = op_add_rows(g, graph_reshape(g, s, SHAPE(IMAGES * WINDOWS, HEADS * TOKENS, TOKENS)),
                        graph_reshape(g, bias, SHAPE(1, HEADS * TOKENS, TOKENS)));
    if (apart)
        s = op_add_table(g, graph_reshape(g, s, SHAPE(IMAGES, WINDOWS * HEADS * TOKENS, TOKENS)),
                         region_table());
    s = graph_reshape(g, s, SHAPE(IMAGES * WINDOWS, HEADS, TOKENS, TOKENS));
    return merge_windows(g, op_matmul(g, op_dropout(g, op_softmax(g, s), dropout), v));
}

static struct tensor *bias_param(struct graph *g)
{
    return graph_param(g, "bias", SHAPE(HEADS, TOKENS, TOKENS), INIT_NORMAL(1));
}

static struct tensor *biased(struct graph *g, bool composed)
{
    return with_terms(g, composed, bias_param(g), false, 0);
}

static struct tensor *in_regions(struct graph *g, bool composed)
{
    return with_terms(g, composed, NULL, true, 0);
}

static struct tensor *with_dropout(struct graph *g, bool composed)
{
    return with_terms(g, composed, NULL, false, 0.3);
}

static struct tensor *with_everything(struct graph *g, bool composed)
{
    return with_terms(g, composed, bias_param(g), true, 0.3);
}

TEST(sdpa_terms__are_added_multiplied_and_dropped)
{
    pair_record *const cases[] = {biased, in_regions, with_dropout, with_everything};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_about("case %zu", i);
        check_pair(cases[i]);
        check_noisy_pair(cases[i]);
    }
}

/* A bias that is no parameter: the first and the second writer of its gradient. */
static struct tensor *computed_bias(struct graph *g, bool twice)
{
    struct tensor *bias = bias_param(g);
    bias = op_multiply(g, bias, bias);
    struct tensor *other = twice ? bias : op_scale(g, bias, 1);
    struct tensor *q = window_heads(g, "q", 4), *k = window_heads(g, "k", 4);
    struct sdpa_terms one = {.bias = bias}, two = {.bias = other};
    struct tensor *y = op_sdpa_terms(g, q, k, k, scale, &one);
    return merge_windows(g, op_sdpa_terms(g, y, q, k, scale, &two));
}

TEST(sdpa_terms__adds_to_the_gradient_of_a_bias)
{
    check_pair(computed_bias);
}

/* Dropout is active in training alone, and weights need no bias to be there. */
TEST(sdpa_terms__of_nothing_are_the_plain_op)
{
    struct rig a, b;
    real *y[2];
    for (int i = 0; i < 2; i++) {
        struct rig *r = i ? &b : &a;
        struct sdpa_terms terms = {.dropout = 0.5};
        rig_begin(r, IMAGES, false);
        struct tensor *q = window_heads(r->graph, "q", 4), *y_heads;
        y_heads =
            i ? op_sdpa_terms(r->graph, q, q, q, scale, &terms) : op_sdpa(r->graph, q, q, q, scale);
        rig_ready(r, merge_windows(r->graph, y_heads), 4);
        rig_run(r);
        y[i] = r->y;
    }
    CHECK(memcmp(y[0], y[1], a.y_count * sizeof **y) == 0);
    CHECK(memcmp(a.dx[0], b.dx[0], a.count[0] * sizeof **y) == 0);
    rig_end(&a);
    rig_end(&b);
}

/* --- what attention is --------------------------------------------------------------------------
 */

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
