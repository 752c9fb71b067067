/* test_sets.c - pooling over sets of tokens, and noise, against what they are made of. */
#include "base/rng.h"
#include "pair.h"

enum { N = 6, D = 4, E = 3 };

/* --- sets that are one token, or all ---------------------------------------------------------- */

static const int each[N + 1] = {0, 1, 2, 3, 4, 5, 6}, all[2] = {0, N};
static const struct token_sets one_each = {N, each, each}, one_of_all = {1, all, each};

static struct tensor *means_of_one(struct graph *g, bool sets)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, N, 8), true);
    struct tensor *heads = graph_split_heads(g, x, 2);
    return op_merge_heads(g, sets ? op_set_mean(g, heads, &one_each, 2) : op_scale(g, heads, 0.5));
}

static struct tensor *mean_of_all(struct graph *g, bool sets)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, N, D), true);
    if (sets)
        return op_merge_heads(g, op_set_mean(g, graph_split_heads(g, x, 1), &one_of_all, 0));
    return graph_reshape(g, op_pool(g, x, 0, N), SHAPE(2, 1, D));
}

TEST(set_mean__is_a_token_or_the_mean_of_all)
{
    check_pair(means_of_one);
    check_pair(mean_of_all);
}

/* One query that sees all tokens, without norms. */
static struct tensor *one_query(struct graph *g, bool sets)
{
    struct tensor *q = graph_input(g, "q", TYPE_REAL, SHAPE(2, 2, 1, D), true);
    struct tensor *k = graph_input(g, "k", TYPE_REAL, SHAPE(2, 2, N, D), true);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 2, N, E), true);
    return op_merge_heads(g, sets ? op_set_softmax(g, q, k, v, 0.7, 0, &one_of_all)
                                  : op_sdpa(g, q, k, v, 0.7));
}

/* Norms as a product with ones. */
static struct tensor *with_norms(struct graph *g, bool sets)
{
    struct tensor *q = graph_input(g, "q", TYPE_REAL, SHAPE(2, 2, 1, D), true);
    struct tensor *k = graph_input(g, "k", TYPE_REAL, SHAPE(2, 2, N, D), true);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 2, N, E), true);
    static const real one[D] = {1, 1, 1, 1};
    if (sets)
        return op_merge_heads(g, op_set_softmax(g, q, k, v, 0.7, 0.9, &one_of_all));
    struct tensor *ones = op_scale(g, graph_reshape(g, q, SHAPE(4, 1, D)), 0);
    ones = graph_reshape(g, op_add_table(g, ones, one), SHAPE(2, 2, 1, D));
    struct tensor *norm = op_scale(g, op_matmul_nt(g, ones, op_multiply(g, k, k)), -0.45);
    struct tensor *a = op_add(g, op_scale(g, op_matmul_nt(g, q, k), 0.7), norm);
    return op_merge_heads(g, op_matmul(g, op_softmax(g, a), v));
}

TEST(set_softmax__is_attention_of_one_query)
{
    check_pair(one_query);
    check_pair(with_norms);
}

/* Keys and values from one place, added to what others wrote. */
static struct tensor *sets_of_two(struct graph *g, bool sets)
{
    static const int first[] = {0, 2, 4, 6}, token[] = {4, 1, 0, 5, 2, 3};
    static const struct token_sets pairs = {3, first, token};
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, N, 8), true);
    struct tensor *q = graph_input(g, "q", TYPE_REAL, SHAPE(2, 2, 3, D), true);
    struct tensor *h = op_scale(g, x, 2), *heads = graph_split_heads(g, h, 2), *y;
    if (sets) {
        y = op_merge_heads(g, op_set_softmax(g, q, heads, heads, 1, 0, &pairs));
    } else {
        struct tensor *moved = graph_reshape(g, op_permute_tokens(g, h, token, N), SHAPE(6, 2, 8));
        struct tensor *rows = op_merge_heads(g, q); /* (2, 3, 8) */
        struct tensor *asked = graph_split_heads(g, graph_reshape(g, rows, SHAPE(6, 1, 8)), 2);
        moved = graph_split_heads(g, moved, 2);
        y = op_merge_heads(g, op_sdpa(g, asked, moved, moved, 1));
        y = graph_reshape(g, y, SHAPE(2, 3, 8));
    }
    return op_add(g, op_multiply(g, y, y), y);
}

TEST(set_softmax__sees_its_own_set_alone)
{
    check_pair(sets_of_two);
}

/* A query for all sets is the same query for each. */
static struct tensor *shared_query(struct graph *g, bool sets)
{
    struct tensor *k = graph_input(g, "k", TYPE_REAL, SHAPE(2, N, 2), true);
    struct tensor *q = graph_param(g, "q", SHAPE(1, 2), INIT_NORMAL(1));
    struct tensor *keys = graph_split_heads(g, k, 1);
    static const int first[] = {0, 3, 6};
    static const struct token_sets halves = {2, first, each};
    if (sets)
        return op_merge_heads(g, op_set_softmax(g, q, keys, keys, 1, 0, &halves));
    struct tensor *zero = op_scale(
        g, graph_reshape(g, graph_op_copy(g, graph_columns(g, k, 0, 2)), SHAPE(4, 3, 2)), 0);
    struct tensor *copies =
        op_matmul(g, op_softmax(g, graph_columns(g, zero, 0, 1)), graph_reshape(g, q, SHAPE(1, 2)));
    return op_merge_heads(
        g, op_set_softmax(g, graph_reshape(g, op_pool(g, copies, 0, 3), SHAPE(2, 1, 2, 2)), keys,
                          keys, 1, 0, &halves));
}

TEST(set_softmax__takes_one_query_for_all_sets)
{
    check_pair(shared_query);
}

TEST(set_softmax__survives_scores_that_overflow_exp)
{
    struct rig r;
    rig_begin(&r, 2, false);
    rig_ready(&r, with_norms(r.graph, true), 2);
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < r.count[i]; k++)
            r.x[i][k] *= 10000;
    rig_run(&r);
    for (size_t i = 0; i < r.y_count; i++)
        CHECK(fabs((double)r.y[i]) <= 1);
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < r.count[i]; k++)
            CHECK(isfinite(r.dx[i][k]));
    rig_end(&r);
}

static void run_threads(struct rig *r, pair_record *record, int threads)
{
    rig_begin(r, 2, false);
    r->graph->options.team = threads;
    r->threads = threads;
    rig_ready(r, record(r->graph, true), 2);
    rig_randomize(r, 1);
    rig_run(r);
}

TEST(sets__give_the_same_bits_whatever_the_threads)
{
    pair_record *const cases[] = {means_of_one, with_norms, sets_of_two, shared_query};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig one, r;
        run_threads(&one, cases[i], 1);
        for (int threads = 2; threads <= 4; threads++) {
            test_about("case %zu, %d threads", i, threads);
            run_threads(&r, cases[i], threads);
            CHECK(memcmp(r.y, one.y, one.y_count * sizeof *one.y) == 0);
            CHECK(memcmp(r.dx[0], one.dx[0], one.count[0] * sizeof *one.y) == 0);
            CHECK(memcmp(r.params.grads, one.params.grads, one.params.trained * sizeof *one.y) ==
                  0);
            rig_end(&r);
        }
        rig_end(&one);
    }
}

/* --- noise ------------------------------------------------------------------------------------ */

static void run_noise(struct rig *r, bool noise, int first_sample)
{
    static const int draw[] = {2, 0, 2};
    rig_begin(r, 2, noise);
    graph_scope_push(r->graph, "blocks.3.attn");
    struct tensor *x = graph_input(r->graph, "x", TYPE_REAL, SHAPE(2, 2, 3, 5), true);
    struct tensor *y = op_add_noise(r->graph, x, "some_noise", draw);
    CHECK((y == x) == !noise);
    rig_ready(r, op_merge_heads(r->graph, y), 4);
    r->feed.sample = (uint64_t)first_sample;
    r->feed.step = 9;
    rig_run(r);
}

TEST(add_noise__is_a_function_of_its_stream_sample_and_draw)
{
    struct rig r;
    run_noise(&r, true, 6);
    uint64_t stream = rng_stream(5, "some_noise:blocks.3.attn");
    for (int b = 0; b < 4; b++)
        for (int row = 0; row < 3; row++)
            for (int h = 0; h < 2; h++)
                for (int i = 0; i < 5; i++) {
                    uint64_t index = (uint64_t)((h * 3 + (row == 1 ? 0 : 2)) * 5 + i);
                    double x = (double)r.x[0][((b * 2 + h) * 3 + row) * 5 + i];
                    double n = rng_normal(stream, 9, (uint64_t)(6 + b), index);
                    CHECK_NEAR(r.y[(b * 3 + row) * 10 + h * 5 + i], x + n, 10 * rig_rounding);
                }
    rig_end(&r);
}

TEST(add_noise__is_in_training_alone)
{
    struct rig r;
    run_noise(&r, false, 0);
    for (int i = 0; i < 5; i++)
        CHECK_NEAR(r.y[i], r.x[0][i], 0);
    rig_end(&r);
}

/* --- what is refused -------------------------------------------------------------------------- */

static struct tensor *heads(struct graph *g, int tokens)
{
    return graph_input(g, "x", TYPE_REAL, SHAPE(2, 2, tokens, D), true);
}

static const int gap[] = {0, 2, 2, 3};
static const struct token_sets empty = {3, gap, each}, beyond = {2, each + 5, each + 4};

static void wrong_empty(struct graph *g)
{
    op_set_mean(g, heads(g, N), &empty, 0);
}

static void wrong_member(struct graph *g)
{
    static const int first[] = {0, 1}, token[] = {N};
    static const struct token_sets sets = {1, first, token};
    op_set_mean(g, heads(g, N), &sets, 0);
}

static void wrong_first(struct graph *g)
{
    op_set_softmax(g, heads(g, 2), heads(g, N), heads(g, N), 1, 0, &beyond);
}

static void wrong_queries(struct graph *g)
{
    op_set_softmax(g, heads(g, 2), heads(g, N), heads(g, N), 1, 0, &one_each);
}

static void wrong_rows(struct graph *g)
{
    op_add_noise(g, graph_input(g, "x", TYPE_REAL, SHAPE(2, 3, 4), true), "noise", each);
}

static void wrong_projection(struct graph *g)
{
    op_project_tokens(g, heads(g, N), graph_param(g, "w", SHAPE(5, 2), INIT_NORMAL(1)), NULL);
}

static void wrong_regions(struct graph *g)
{
    static const unsigned char region[4] = {0, 1, 1, 0};
    const struct token_regions regions = {1, 4, region};
    op_project_tokens(g, heads(g, N), graph_param(g, "w", SHAPE(N, 2), INIT_NORMAL(1)), &regions);
}

static void wrong_replacement(struct graph *g)
{
    op_replace_tokens(g, heads(g, N), heads(g, 5), 1);
}

static void wrong_number(struct graph *g)
{
    op_replace_tokens(g, heads(g, N), heads(g, N), N + 1);
}

TEST(ops__report_sets_and_shapes_that_do_not_fit)
{
    static const struct {
        const char *op, *text;
        void (*record)(struct graph *g);
    } wrong[] = {
        {"set_mean", "3 sets do not fit (2, 2, 6, 4)", wrong_empty},
        {"set_mean", "1 sets do not fit (2, 2, 6, 4)", wrong_member},
        {"set_softmax", "do not fit 2 sets", wrong_first},
        {"set_softmax", "do not fit 6 sets", wrong_queries},
        {"add_noise", "(2, 3, 4)", wrong_rows},
        {"project_tokens", "(5, 2)", wrong_projection},
        {"project_tokens", "regions of 4 tokens", wrong_regions},
        {"replace_tokens", "(2, 2, 5, 4)", wrong_replacement},
        {"replace_tokens", "7 tokens", wrong_number},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct rig r;
        test_about("%s %s", wrong[i].op, wrong[i].text);
        rig_begin(&r, 2, true);
        wrong[i].record(r.graph);
        CHECK_INT(graph_plan(r.graph, &r.error), ERR_SHAPE);
        CHECK_CONTAINS(r.error.text, wrong[i].op);
        CHECK_CONTAINS(r.error.text, wrong[i].text);
        rig_end(&r);
    }
}
