/* sdpa_tables.c - softmax attention over lists of keys.    q: (B, H, N, d)  k: (B, H, M, d)
 * v: (B, H, M, e)  row_k: (B, H, C, d)  row_v: (B, H, C, e)  table: (entries, H)
 *   for a query n of a group with the keys K, V (its tokens of k, v, then its rows of row_k,
 * row_v): Z = scale q_n K^T + table entries + shifts, minus infinity where a key is hidden, y_n =
 * softmax(Z) V    (y: (B, H, N, e), in memory (B, N, H e)) Gradients are those of sdpa.c, summed
 * over the groups in which a key occurs; dtable[i, h] is the sum of dZ over the scores to which
 * entry i was added. Only y and the row sums are kept. */
#include <string.h>

#include "ops/ops.h"

enum { Q, K, V, ROW_K, ROW_V, TABLE };

static const struct heads no_heads = {.data = NULL};

static int axis(const struct tensor *t, int i)
{
    return t ? t->shape.dim[i] : 0;
}

static struct sdpa_tables tables_of(const struct node *n)
{
    struct sdpa_tables s = *(const struct sdpa_tables *)n->options;
    const int *q = n->in[Q]->shape.dim, *v = n->in[V]->shape.dim;
    s.B = q[0];
    s.H = q[1];
    s.N = q[2];
    s.d = q[3];
    s.M = v[2];
    s.e = v[3];
    s.C = axis(n->in[ROW_K], 2);
    s.biased = n->in[TABLE] != NULL;
    s.bias = s.biased ? n->in[TABLE]->data : NULL;
    return s;
}

/* --- what is refused -------------------------------------------------------------------------- */

/* k (B, H, rows, d) and v (B, H, rows, e) beside q. */
static bool pair_fits(const struct tensor *q, const struct tensor *k, const struct tensor *v)
{
    const int *a = q->shape.dim, *b = k->shape.dim, *c = v->shape.dim;
    return k->shape.rank == 4 && v->shape.rank == 4 && a[0] == b[0] && a[0] == c[0] &&
           a[1] == b[1] && a[1] == c[1] && a[3] == b[3] && b[2] == c[2];
}

static bool shapes_fit(struct graph *g, const struct node *n)
{
    char a[64], b[64], c[64];
    const struct tensor *q = n->in[Q], *k = n->in[K], *v = n->in[V], *table = n->in[TABLE];
    const struct tensor *row_k = n->in[ROW_K], *row_v = n->in[ROW_V];
    if (q->shape.rank != 4 || !pair_fits(q, k, v)) {
        graph_fail(g, ERR_SHAPE, "sdpa_tables: q %s, k %s, v %s do not fit",
                   shape_text(a, &q->shape), shape_text(b, &k->shape), shape_text(c, &v->shape));
        return false;
    }
    if (row_k && (!pair_fits(q, row_k, row_v) || row_v->shape.dim[3] != v->shape.dim[3])) {
        graph_fail(g, ERR_SHAPE, "sdpa_tables: rows %s and %s for q %s",
                   shape_text(a, &row_k->shape), shape_text(b, &row_v->shape),
                   shape_text(c, &q->shape));
        return false;
    }
    if (table && (table->shape.rank != 2 || table->shape.dim[1] != q->shape.dim[1])) {
        graph_fail(g, ERR_SHAPE, "sdpa_tables: biases %s for q %s, wanted (entries, H)",
                   shape_text(a, &table->shape), shape_text(b, &q->shape));
        return false;
    }
    return true;
}

/* Whether all of the numbers lie in 0 .. limit - 1. */
static bool all_below(const int *list, int count, int limit)
{
    for (int i = 0; i < count; i++)
        if (list[i] < 0 || list[i] >= limit)
            return false;
    return true;
}

/* Whether each query of the group sees a key, and all entries are in the table. */
static bool pattern_fits(const struct key_group *g, int entries)
{
    const struct key_pattern *p = g->pattern;
    if (!p)
        return true;
    if (p->queries != g->queries || p->slots != g->keys + g->rows)
        return false;
    for (int i = 0; i < p->queries; i++) {
        const int *row = p->entry + (ptrdiff_t)i * p->slots;
        bool sees = false;
        for (int j = 0; j < p->slots; j++) {
            if (row[j] < KEY_MASKED || row[j] > entries)
                return false;
            sees = sees || row[j] >= KEY_PLAIN;
        }
        if (!sees)
            return false;
    }
    return true;
}

/* Whether the groups name what there is, and each token is a query of just one of them. */
static bool groups_fit(struct graph *g, const struct node *n, const struct sdpa_tables *s)
{
    int entries = axis(n->in[TABLE], 0), N = s->N;
    bool *asked = arena_alloc(&g->memory, (size_t)N * sizeof *asked);
    if (!asked) {
        graph_fail(g, ERR_MEMORY, "out of memory for the keys of %d tokens", N);
        return false;
    }
    memset(asked, 0, (size_t)N * sizeof *asked);
    for (int i = 0; i < s->groups; i++) {
        const struct key_group *group = &s->group[i];
        if (group->queries < 1 || group->keys < 0 || group->rows < 0 ||
            group->keys + group->rows < 1 || !all_below(group->query, group->queries, N) ||
            !all_below(group->key, group->keys, s->M) ||
            !all_below(group->row, group->rows, s->C) || !pattern_fits(group, entries)) {
            graph_fail(g, ERR_SHAPE,
                       "sdpa_tables: group %d asks for what is not in %d tokens, %d rows and "
                       "%d biases, or sees nothing",
                       i, s->M, s->C, entries);
            return false;
        }
        for (int j = 0; j < group->queries; j++) {
            if (asked[group->query[j]]) {
                graph_fail(g, ERR_SHAPE, "sdpa_tables: token %d asks twice", group->query[j]);
                return false;
            }
            asked[group->query[j]] = true;
        }
    }
    for (int t = 0; t < N; t++)
        if (!asked[t]) {
            graph_fail(g, ERR_SHAPE, "sdpa_tables: token %d of %d is in no group", t, N);
            return false;
        }
    return true;
}

static void sdpa_tables_infer(struct graph *g, struct node *n)
{
    if (!shapes_fit(g, n))
        return;
    struct sdpa_tables s = tables_of(n);
    if (!groups_fit(g, n, &s))
        return;
    infer_param(g, n, TABLE);
    graph_out_heads(g, n, n->in[Q]->type, SHAPE(s.B, s.H, s.N, s.e));
    graph_saved(g, n, 0, TYPE_REAL, (size_t)s.B * (size_t)s.H * (size_t)s.N);
    graph_scratch(g, n, kernel_sdpa_tables_scratch(&s, false),
                  kernel_sdpa_tables_scratch(&s, true));
}

/* --- running ---------------------------------------------------------------------------------- */

static void sdpa_tables_products(const struct node *n, product_visit *visit, void *context)
{
    struct sdpa_tables s = tables_of(n);
    double count = (double)s.B * s.H;
    for (int i = 0; i < s.groups; i++) {
        const struct key_group *g = &s.group[i];
        const struct product scores = {
            .m = g->queries,
            .n = g->keys + g->rows,
            .k = s.d,
            .tb = TRANSPOSED,
            .a = Q,
            .b = K,
            .count = count,
        };
        const struct product y = {
            .m = g->queries,
            .n = s.e,
            .k = g->keys + g->rows,
            .a = PRODUCT_BETWEEN,
            .b = V,
            .count = count,
        };
        visit(&scores, context);
        visit(&y, context);
    }
}

/* Scores and weighted values of the pairs that see each other. */
static double sdpa_tables_macs(const struct node *n)
{
    struct sdpa_tables s = tables_of(n);
    double pairs = 0;
    for (int i = 0; i < s.groups; i++)
        pairs += key_group_pairs(&s.group[i]);
    return pairs * s.B * s.H * (s.d + s.e);
}

double key_group_pairs(const struct key_group *g)
{
    const struct key_pattern *p = g->pattern;
    double pairs = (double)g->queries * (g->keys + g->rows);
    for (ptrdiff_t i = 0; p && i < (ptrdiff_t)p->queries * p->slots; i++)
        pairs -= p->entry[i] == KEY_HIDDEN;
    return pairs;
}

static struct heads values(const struct tensor *t)
{
    return t ? tensor_heads(t) : no_heads;
}

static struct heads grads(const struct tensor *t)
{
    return t ? tensor_grad_heads(t) : no_heads;
}

static void sdpa_tables_forward(const struct node *n)
{
    struct sdpa_tables s = tables_of(n);
    kernel_sdpa_tables(tensor_heads(n->out), n->saved[0]->data, tensor_heads(n->in[Q]),
                       tensor_heads(n->in[K]), tensor_heads(n->in[V]), values(n->in[ROW_K]),
                       values(n->in[ROW_V]), &s, n->scratch->data);
}

static void sdpa_tables_backward(const struct node *n)
{
    struct sdpa_tables s = tables_of(n);
    const struct sdpa_tables_grad g = {
        .dq = grads(n->in[Q]),
        .dk = grads(n->in[K]),
        .dv = grads(n->in[V]),
        .drow_k = grads(n->in[ROW_K]),
        .drow_v = grads(n->in[ROW_V]),
        .beta_q = n->beta[Q],
        .beta_k = n->beta[K],
        .beta_v = n->beta[V],
        .beta_row_k = n->beta[ROW_K],
        .beta_row_v = n->beta[ROW_V],
        .dbias = n->in[TABLE] ? n->in[TABLE]->grad : NULL,
        .q = tensor_heads(n->in[Q]),
        .k = tensor_heads(n->in[K]),
        .v = tensor_heads(n->in[V]),
        .row_k = values(n->in[ROW_K]),
        .row_v = values(n->in[ROW_V]),
        .y = tensor_heads(n->out),
        .dy = tensor_grad_heads(n->out),
        .lse = n->saved[0]->data,
    };
    kernel_sdpa_tables_grad(&g, &s, n->scratch_backward->data);
}

/* Other tokens than queries, which see them all; then tokens 1 .. 4 in two groups that share a
 * pattern, and see token 0 or rows of a second table too, and token 0, which sees all tokens. */
static struct tensor *sdpa_tables_sample(struct graph *g)
{
    static const int entry[] = {1, 2, KEY_PLAIN, KEY_PLAIN, KEY_HIDDEN, 3, KEY_PLAIN, KEY_PLAIN};
    static const int token[] = {0, 1, 2, 3, 4, 0}, row[] = {1, 0};
    static const real shift[] = {0, 0, 0, (real)0.5};
    static const struct key_pattern pattern = {2, 4, entry, shift};
    static const struct key_group all[] = {{5, 2, 0, token, token, NULL, NULL}};
    static const struct key_group some[] = {
        {2, 2, 2, token + 1, token + 1, row, &pattern},
        {1, 5, 0, token, token, NULL, NULL},
        {2, 3, 1, token + 3, token + 3, row, &pattern},
    };
    const struct key_groups first = {1, all}, second = {3, some};
    struct tensor *table = graph_param(g, "table", SHAPE(3, 2), INIT_NORMAL(1));
    struct tensor *q = graph_sample(g, SHAPE(2, 2, 5, 4)), *k = graph_sample(g, SHAPE(2, 2, 5, 4));
    struct tensor *row_k = graph_sample(g, SHAPE(2, 2, 2, 4));
    struct tensor *row_v = graph_sample(g, SHAPE(2, 2, 2, 3));
    struct tensor *v = op_sdpa_tables(g, q, row_k, row_v, NULL, NULL, NULL, 0.7, &first);
    return op_sdpa_tables(g, q, k, v, row_k, row_v, table, 0.7, &second);
}

const struct op sdpa_tables_op = {
    .name = "sdpa_tables",
    .infer = sdpa_tables_infer,
    .products = sdpa_tables_products,
    .macs = sdpa_tables_macs,
    .forward = sdpa_tables_forward,
    .backward = sdpa_tables_backward,
    .backward_reads = READS_IN(Q) | READS_IN(K) | READS_IN(V) | READS_IN(ROW_K) | READS_IN(ROW_V) |
                      READS_IN(TABLE) | READS_OUT,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = sdpa_tables_sample,
};

/* Numbers the patterns, in the order in which groups first name them. False without memory. */
static bool number_patterns(struct graph *g, struct sdpa_tables *s)
{
    size_t groups = (size_t)s->groups;
    int *first = arena_alloc(&g->memory, (groups + 1) * sizeof *first);
    int *of = arena_alloc(&g->memory, groups * sizeof *of);
    const struct key_pattern **pattern = arena_alloc(&g->memory, groups * sizeof *pattern);
    size_t *at = arena_alloc(&g->memory, (groups + 1) * sizeof *at);
    if (!first || !of || !pattern || !at)
        return false;
    first[0] = 0;
    at[0] = 0;
    for (int i = 0; i < s->groups; i++) {
        const struct key_pattern *p = s->group[i].pattern;
        int number = p ? 0 : -1;
        while (p && number < s->patterns && pattern[number] != p)
            number++;
        if (number == s->patterns) {
            pattern[number] = p;
            at[number + 1] = at[number] + (size_t)p->queries * (size_t)p->slots;
            s->patterns++;
        }
        of[i] = number;
        first[i + 1] = first[i] + s->group[i].queries;
    }
    s->first = first;
    s->pattern_of = of;
    s->pattern = pattern;
    s->pattern_at = at;
    return true;
}

struct tensor *op_sdpa_tables(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                              struct tensor *row_k, struct tensor *row_v, struct tensor *table,
                              double scale, const struct key_groups *groups)
{
    if (g->error.status)
        return g->inert;
    if (groups->count < 1)
        return graph_fail(g, ERR_SHAPE, "sdpa_tables: no groups");
    struct sdpa_tables s = {.scale = scale, .groups = groups->count, .team = g->options.team};
    s.group = graph_copy(g, groups->at, (size_t)groups->count * sizeof *groups->at);
    if (!s.group || !number_patterns(g, &s))
        return graph_fail(g, ERR_MEMORY, "out of memory for %d groups of keys", groups->count);
    return graph_record(g, &sdpa_tables_op, graph_copy(g, &s, sizeof s),
                        INPUTS(q, k, v, row_k, row_v, table));
}
