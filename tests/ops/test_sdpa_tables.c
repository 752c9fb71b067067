/* test_sdpa_tables.c - attention to lists of keys against op_sdpa, and against softmax(scale q K^T
 * + bias) V over the whole table with what is not seen at minus infinity. */
#include "pair.h"

static const double scale = 0.6;

enum { N = 7, ROWS = 3, SLOTS = N + ROWS, D = 4, E = 5 };

static const int numbers[N] = {0, 1, 2, 3, 4, 5, 6};

/* --- every query sees everything ----------------------------------------------------------------
 */

/* Tokens and rows as one table, from one input: columns first .. of each head. */
static struct tensor *part(struct graph *g, struct tensor *x, int first, int rows, int d)
{
    const int *dim = x->shape.dim;
    if (rows * d == dim[2])
        return graph_reshape(g, x, SHAPE(dim[0], dim[1], rows, d));
    struct tensor *y = graph_op_copy(g, graph_columns(g, x, first * d, rows * d));
    return graph_reshape(g, y, SHAPE(dim[0], dim[1], rows, d));
}

static struct tensor *flat(struct graph *g, const char *name, int H, int rows, int d)
{
    return graph_input(g, name, TYPE_REAL, SHAPE(2, H, rows * d), true);
}

static struct tensor *all_seen(struct graph *g, bool tables, const struct key_group *group,
                               int groups, int rows)
{
    struct tensor *q = part(g, flat(g, "q", 3, N, D), 0, N, D);
    struct tensor *k = flat(g, "k", 3, N + rows, D), *v = flat(g, "v", 3, N + rows, E);
    struct tensor *row_k = NULL, *row_v = NULL;
    if (!tables)
        return op_merge_heads(
            g, op_sdpa(g, q, part(g, k, 0, N + rows, D), part(g, v, 0, N + rows, E), scale));
    if (rows) {
        row_k = part(g, k, N, rows, D);
        row_v = part(g, v, N, rows, E);
    }
    const struct key_groups list = {groups, group};
    return op_merge_heads(g, op_sdpa_tables(g, q, part(g, k, 0, N, D), part(g, v, 0, N, E), row_k,
                                            row_v, NULL, scale, &list));
}

static struct tensor *one_group(struct graph *g, bool tables)
{
    static const struct key_group group = {N, N, 0, numbers, numbers, NULL, NULL};
    return all_seen(g, tables, &group, 1, 0);
}

static struct tensor *some_groups(struct graph *g, bool tables)
{
    static const int query[] = {6, 0, 3}, other[] = {4, 2, 1, 5}, key[] = {3, 1, 0, 6, 5, 4, 2};
    static const struct key_group groups[] = {{3, N, 0, query, key, NULL, NULL},
                                              {4, N, 0, other, numbers, NULL, NULL}};
    return all_seen(g, tables, groups, 2, 0);
}

static struct tensor *with_rows(struct graph *g, bool tables)
{
    static const int query[] = {6, 0, 3}, other[] = {4, 2, 1, 5}, row[] = {2, 0, 1};
    static const struct key_group groups[] = {{3, N, ROWS, query, numbers, row, NULL},
                                              {4, N, ROWS, other, numbers, numbers, NULL}};
    return all_seen(g, tables, groups, 2, ROWS);
}

/* More queries and keys than one tile of the kernel holds. */
static struct tensor *many_tokens(struct graph *g, bool tables)
{
    enum { MANY = 391 };
    static int all[MANY];
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, MANY, 24), true), *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = graph_split_heads(g, graph_columns(g, x, 8 * i, 8), 1);
    for (int i = 0; i < MANY; i++)
        all[i] = i;
    const struct key_group group = {MANY, MANY, 0, all, all, NULL, NULL};
    const struct key_groups list = {1, graph_copy(g, &group, sizeof group)};
    return op_merge_heads(
        g, tables ? op_sdpa_tables(g, t[0], t[1], t[2], NULL, NULL, NULL, scale, &list)
                  : op_sdpa(g, t[0], t[1], t[2], scale));
}

/* The gradients of all three are added to what another reader wrote before. */
static struct tensor *shared(struct graph *g, bool tables)
{
    static const struct key_group group = {N, N, 0, numbers, numbers, NULL, NULL};
    const struct key_groups list = {1, &group};
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, N, 12), true);
    struct tensor *h = op_scale(g, x, 2), *heads = graph_split_heads(g, h, 3);
    struct tensor *y =
        tables ? op_sdpa_tables(g, heads, heads, heads, heads, heads, NULL, scale, &list)
               : op_sdpa(g, heads, heads, heads, scale);
    return op_add(g, op_multiply(g, h, h), op_merge_heads(g, y));
}

static struct tensor *one_token(struct graph *g, bool tables)
{
    static const struct key_group group = {1, 1, 0, numbers, numbers, NULL, NULL};
    const struct key_groups list = {1, &group};
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 1, 1, 6), true);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 1, 1, 6), true);
    struct tensor *y = tables ? op_sdpa_tables(g, x, x, v, NULL, NULL, NULL, scale, &list) : v;
    return op_add(g, op_merge_heads(g, op_scale(g, x, 1)), op_merge_heads(g, y));
}

TEST(sdpa_tables__where_all_is_seen_is_plain_attention)
{
    static const struct {
        const char *name;
        pair_record *record;
    } cases[] = {
        {"one group", one_group},     {"some groups", some_groups}, {"rows too", with_rows},
        {"many tokens", many_tokens}, {"all shared", shared},       {"one token", one_token},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_about("%s", cases[i].name);
        check_pair(cases[i].record);
    }
}

/* --- not everything --------------------------------------------------------------------------- */

/* Four groups over tokens and rows: {0}, {1, 2}, {3, 4}, {5, 6}. sees[n][j]: 0 hidden. */
static const int sees[N][SLOTS] = {
    {1, 1, 1, 1, 1, 1, 1, 0, 0, 0}, {0, 1, 1, 0, 1, 0, 0, 1, 0, 1}, {0, 1, 1, 0, 0, 0, 0, 1, 0, 1},
    {1, 0, 0, 1, 1, 0, 0, 0, 1, 0}, {0, 0, 0, 1, 1, 0, 0, 0, 1, 0}, {1, 0, 0, 0, 0, 1, 1, 0, 1, 0},
    {0, 0, 0, 0, 0, 1, 1, 0, 1, 0},
};

/* The lists of a group: what any of its queries sees. */
static struct key_group lists_of(struct graph *g, int first, int queries)
{
    int key[N], row[ROWS];
    struct key_group to = {.queries = queries, .query = numbers + first};
    for (int j = 0; j < SLOTS; j++) {
        bool any = false;
        for (int n = first; n < first + queries; n++)
            any = any || sees[n][j];
        if (any && j < N)
            key[to.keys++] = j;
        else if (any)
            row[to.rows++] = j - N;
    }
    to.key = graph_copy(g, key, sizeof key);
    to.row = graph_copy(g, row, sizeof row);
    return to;
}

/* The group with its pattern: entry of query n and slot j of the whole table 1 + n SLOTS + j. */
static struct key_group make_group(struct graph *g, int first, int queries, bool biased,
                                   const real *shift)
{
    struct key_group to = lists_of(g, first, queries);
    int slots = to.keys + to.rows, entry[2 * SLOTS];
    real shifts[SLOTS] = {0};
    for (int n = 0; n < queries; n++)
        for (int j = 0; j < slots; j++) {
            int slot = j < to.keys ? to.key[j] : N + to.row[j - to.keys];
            int unseen = first == 3 ? KEY_MASKED : KEY_HIDDEN;
            int seen = biased ? 1 + (first + n) * SLOTS + slot : KEY_PLAIN;
            entry[n * slots + j] = sees[first + n][slot] ? seen : unseen;
            if (shift && j >= to.keys)
                shifts[j] = shift[to.row[j - to.keys]];
        }
    const struct key_pattern pattern = {
        queries,
        slots,
        graph_copy(g, entry, sizeof entry),
        shift ? graph_copy(g, shifts, sizeof shifts) : NULL,
    };
    to.pattern = graph_copy(g, &pattern, sizeof pattern);
    return to;
}

/* Minus infinity where a token does not see a slot, and the shifts of rows. */
static const real *masks(const real *shift)
{
    static real table[N * SLOTS];
    for (int n = 0; n < N; n++)
        for (int j = 0; j < SLOTS; j++)
            table[n * SLOTS + j] = !sees[n][j]       ? (real)-INFINITY
                                   : shift && j >= N ? shift[j - N]
                                                     : 0;
    return table;
}

static struct tensor *partly_seen(struct graph *g, bool tables, bool biased, const real *shift)
{
    struct tensor *q = part(g, flat(g, "q", 1, N, D), 0, N, D), *table = NULL;
    struct tensor *k = flat(g, "k", 1, SLOTS, D), *v = flat(g, "v", 1, SLOTS, E);
    if (biased)
        table = graph_param(g, "table", SHAPE(N * SLOTS, 1), INIT_NORMAL(1));
    if (tables) {
        struct key_group groups[4];
        for (int i = 0; i < 4; i++)
            groups[i] = make_group(g, i ? 2 * i - 1 : 0, i ? 2 : 1, biased, shift);
        const struct key_groups list = {4, groups};
        return op_merge_heads(g, op_sdpa_tables(g, q, part(g, k, 0, N, D), part(g, v, 0, N, E),
                                                part(g, k, N, ROWS, D), part(g, v, N, ROWS, E),
                                                table, scale, &list));
    }
    k = part(g, k, 0, SLOTS, D);
    v = part(g, v, 0, SLOTS, E);
    if (biased) {
        struct tensor *bias = graph_reshape(g, table, SHAPE(1, N, SLOTS));
        struct sdpa_terms terms = {.bias = op_add_table(g, bias, masks(shift))};
        return op_merge_heads(g, op_sdpa_terms(g, q, k, v, scale, &terms));
    }
    struct tensor *s = op_scale(g, op_matmul_nt(g, q, k), scale);
    s = op_add_table(g, graph_reshape(g, s, SHAPE(2, N, SLOTS)), masks(shift));
    s = graph_reshape(g, s, SHAPE(2, 1, N, SLOTS));
    return op_merge_heads(g, op_matmul(g, op_softmax(g, s), v));
}

static const real row_shift[ROWS] = {(real)0.7, (real)-0.4, (real)1.1};

static struct tensor *hidden(struct graph *g, bool tables)
{
    return partly_seen(g, tables, false, NULL);
}

static struct tensor *shifted(struct graph *g, bool tables)
{
    return partly_seen(g, tables, false, row_shift);
}

static struct tensor *biased(struct graph *g, bool tables)
{
    return partly_seen(g, tables, true, NULL);
}

static struct tensor *with_everything(struct graph *g, bool tables)
{
    return partly_seen(g, tables, true, row_shift);
}

TEST(sdpa_tables__is_the_softmax_over_the_whole_table_with_the_rest_at_minus_infinity)
{
    pair_record *const cases[] = {hidden, shifted, biased, with_everything};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_about("case %zu", i);
        check_pair(cases[i]);
    }
}

/* Two windows of 2 x 2 with one table, against windows that were cut before. */
static struct tensor *windows(struct graph *g, bool tables)
{
    static const int side[] = {2, 2}, entry[] = {5, 4, 2, 1, 6, 5, 3, 2, 8, 7, 5, 4, 9, 8, 6, 5};
    static const int token[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const struct key_pattern pattern = {4, 4, entry, NULL};
    static const struct key_group groups[] = {{4, 4, 0, token, token, NULL, &pattern},
                                              {4, 4, 0, token + 4, token + 4, NULL, &pattern}};
    const struct key_groups list = {2, groups};
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 8, 24), true), *t[3];
    struct tensor *table = graph_param(g, "table", SHAPE(9, 2), INIT_NORMAL(1));
    if (!tables)
        x = graph_reshape(g, x, SHAPE(4, 4, 24));
    for (int i = 0; i < 3; i++)
        t[i] = graph_split_heads(g, graph_columns(g, x, 8 * i, 8), 2);
    if (tables)
        return op_merge_heads(g,
                              op_sdpa_tables(g, t[0], t[1], t[2], NULL, NULL, table, scale, &list));
    struct sdpa_terms terms = {.bias = op_relative_bias(g, table, side)};
    struct tensor *y = op_merge_heads(g, op_sdpa_terms(g, t[0], t[1], t[2], scale, &terms));
    return graph_reshape(g, y, SHAPE(2, 8, 8));
}

TEST(sdpa_tables__adds_one_table_in_all_groups)
{
    check_pair(windows);
}

/* --- what it costs, and how far numbers go ---------------------------------------------------- */

TEST(sdpa_tables__counts_the_keys_that_are_a_querys_own)
{
    struct rig r;
    rig_begin(&r, 2, false);
    double pairs = 0;
    for (int i = 0; i < 4; i++) {
        struct key_group group = make_group(r.graph, i ? 2 * i - 1 : 0, i ? 2 : 1, false, NULL);
        pairs += key_group_pairs(&group);
    }
    /* one more than it sees: that pair is masked, and costs what the others do */
    CHECK_INT((int)pairs, 7 + 5 + 4 + 4 + 4 + 4 + 3);
    rig_ready(&r, partly_seen(r.graph, true, false, NULL), 2);
    CHECK_NEAR(graph_macs(r.graph), 2 * pairs * (D + E), 0);
    rig_end(&r);
}

TEST(sdpa_tables__survives_scores_that_overflow_exp)
{
    struct rig r;
    rig_begin(&r, 2, false);
    rig_ready(&r, partly_seen(r.graph, true, true, row_shift), 2);
    for (size_t i = 0; i < r.count[0]; i++)
        r.x[0][i] *= 30000;
    rig_run(&r);
    for (size_t i = 0; i < r.y_count; i++)
        CHECK(fabs((double)r.y[i]) <= 1);
    for (size_t i = 0; i < r.count[1]; i++)
        CHECK(isfinite(r.dx[1][i]));
    rig_end(&r);
}

static void run_threads(struct rig *r, int threads)
{
    rig_begin(r, 2, false);
    r->graph->options.team = threads;
    r->threads = threads;
    rig_ready(r, windows(r->graph, true), 2);
    rig_randomize(r, 1);
    rig_run(r);
}

TEST(sdpa_tables__gives_the_same_bits_whatever_the_threads)
{
    struct rig one, r;
    run_threads(&one, 1);
    for (int threads = 2; threads <= 4; threads++) {
        run_threads(&r, threads);
        CHECK(memcmp(r.y, one.y, one.y_count * sizeof *one.y) == 0);
        CHECK(memcmp(r.dx[0], one.dx[0], one.count[0] * sizeof *one.y) == 0);
        CHECK(memcmp(rig_grad(&r, "table"), rig_grad(&one, "table"), 18 * sizeof *one.y) == 0);
        rig_end(&r);
    }
    rig_end(&one);
}

/* --- what is refused -------------------------------------------------------------------------- */

TEST(sdpa_tables__refuses_groups_that_do_not_fit)
{
    static const int none[] = {0, 2, KEY_HIDDEN, KEY_MASKED}, four[] = {1, 2, 3, 4};
    static const struct key_pattern blind = {2, 2, none, NULL}, unknown = {2, 2, four, NULL};
    static const struct {
        struct key_group groups[2];
        int count;
        const char *text;
    } wrong[] = {
        {{{2, 3, 0, numbers, numbers, NULL, NULL}, {2, 3, 0, numbers + 1, numbers, NULL, NULL}},
         2,
         "token 1 asks twice"},
        {{{2, 3, 0, numbers, numbers, NULL, NULL}}, 1, "token 2 of 3 is in no group"},
        {{{3, 4, 0, numbers, numbers, NULL, NULL}}, 1, "group 0 asks for what is not in 3 tokens"},
        {{{3, 1, 2, numbers, numbers, numbers, NULL}}, 1, "1 rows"},
        {{{1, 1, 0, numbers, numbers, NULL, NULL}, {2, 2, 0, numbers + 1, numbers, NULL, &blind}},
         2,
         "group 1"},
        {{{1, 1, 0, numbers, numbers, NULL, NULL}, {2, 2, 0, numbers + 1, numbers, NULL, &unknown}},
         2,
         "3 biases"},
        {{{1, 1, 0, numbers, numbers, NULL, NULL}, {2, 1, 0, numbers + 1, numbers, NULL, &blind}},
         2,
         "group 1"},
        {{{0, 0, 0, NULL, NULL, NULL, NULL}}, 0, "no groups"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct rig r;
        test_about("%s", wrong[i].text);
        rig_begin(&r, 2, false);
        struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 2, 3, 4), true);
        struct tensor *row = graph_input(r.graph, "row", TYPE_REAL, SHAPE(2, 2, 1, 4), true);
        struct tensor *table = graph_param(r.graph, "table", SHAPE(3, 2), INIT_NORMAL(1));
        const struct key_groups list = {wrong[i].count, wrong[i].groups};
        op_sdpa_tables(r.graph, x, x, x, row, row, table, 1, &list);
        CHECK_INT(graph_plan(r.graph, &r.error), ERR_SHAPE);
        CHECK_CONTAINS(r.error.text, "sdpa_tables: ");
        CHECK_CONTAINS(r.error.text, wrong[i].text);
        rig_end(&r);
    }
}
