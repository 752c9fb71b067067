/* ceiling.c - listing the products of a graph, and timing them. */
#include "study/ceiling.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/timer.h"

enum { ROUNDS = 3 }; /* the fastest counts: what disturbs a product is no part of the ceiling */

/* --- the list --------------------------------------------------------------------------------- */

static bool same_product(const struct product *a, const struct product *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->ta == b->ta && a->tb == b->tb &&
           a->beta == b->beta && a->rows == b->rows;
}

static bool add(struct ceiling *c, struct product p, double count)
{
    c->flops += 2.0 * p.m * p.n * p.k * count;
    for (int i = 0; i < c->count; i++) {
        if (same_product(&c->products[i], &p)) {
            c->products[i].count += count;
            return true;
        }
    }
    if (c->count == c->capacity) {
        int capacity = c->capacity ? 2 * c->capacity : 32;
        struct product *grown = realloc(c->products, (size_t)capacity * sizeof *grown);
        if (!grown)
            return false;
        c->products = grown;
        c->capacity = capacity;
    }
    p.count = count;
    c->products[c->count++] = p;
    return true;
}

static bool wants_grad(const struct node *n, int i)
{
    return n->runs_backward && n->in[i] && n->in[i]->root->needs_grad;
}

/* y = x W^T, dx = dy W, dW += dy^T x. */
static bool list_linear(struct ceiling *c, const struct node *n, double count)
{
    int rows = (int)tensor_rows(n->in[0]), in = tensor_cols(n->in[0]), out = tensor_cols(n->out);
    struct product y = {.m = rows, .n = out, .k = in, .tb = TRANSPOSED, .rows = ROWS_ARE_M};
    struct product dx = {.m = rows, .n = in, .k = out, .rows = ROWS_ARE_M};
    struct product dW = {
        .m = out, .n = in, .k = rows, .ta = TRANSPOSED, .beta = 1, .rows = ROWS_ARE_K};
    return add(c, y, count) && (!wants_grad(n, 0) || add(c, dx, count)) &&
           (!wants_grad(n, 1) || add(c, dW, count));
}

/* Scores q k^T and S v; backward dy v^T, dZ k, dZ^T q, S^T dy. */
static bool list_sdpa(struct ceiling *c, const struct node *n, double count)
{
    const int *q = n->in[0]->shape.dim, *v = n->in[2]->shape.dim;
    int N = q[2], M = v[2], d = q[3], e = v[3];
    count *= (double)q[0] * q[1];
    struct product scores = {.m = N, .n = M, .k = d, .tb = TRANSPOSED};
    struct product y = {.m = N, .n = e, .k = M};
    struct product dS = {.m = N, .n = M, .k = e, .tb = TRANSPOSED};
    struct product dq = {.m = N, .n = d, .k = M};
    struct product dk = {.m = M, .n = d, .k = N, .ta = TRANSPOSED};
    struct product dv = {.m = M, .n = e, .k = N, .ta = TRANSPOSED};
    if (!add(c, scores, count) || !add(c, y, count))
        return false;
    return !n->runs_backward ||
           (add(c, dS, count) && add(c, dq, count) && add(c, dk, count) && add(c, dv, count));
}

/* Any other op: its output's last two axes are those of one product, whose depth follows from the
 * multiply-adds. */
static bool list_any(struct ceiling *c, const struct node *n, double count)
{
    const struct shape *s = &n->out->shape;
    if (s->rank < 2)
        return true;
    int rows = s->dim[s->rank - 2], cols = s->dim[s->rank - 1];
    int depth = (int)(n->op->macs(n) / (double)tensor_count(n->out));
    count *= (double)tensor_count(n->out) / rows / cols;
    struct product y = {.m = rows, .n = cols, .k = depth};
    struct product da = {.m = rows, .n = depth, .k = cols, .tb = TRANSPOSED};
    struct product db = {.m = depth, .n = cols, .k = rows, .ta = TRANSPOSED};
    return depth < 1 || (add(c, y, count) && (!wants_grad(n, 0) || add(c, da, count)) &&
                         (!wants_grad(n, 1) || add(c, db, count)));
}

static bool list_node(struct ceiling *c, const struct node *n, double count)
{
    static const struct {
        const char *op;
        bool (*list)(struct ceiling *c, const struct node *n, double count);
    } table[] = {{"linear", list_linear}, {"sdpa", list_sdpa}};
    if (!n->op->macs || n->op->macs(n) <= 0)
        return true;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(n->op->name, table[i].op) == 0)
            return table[i].list(c, n, count);
    return list_any(c, n, count);
}

enum status ceiling_list(struct ceiling *c, const struct experiment *x, enum network_mode mode,
                         int batch, struct error *err)
{
    struct network *n;
    *c = (struct ceiling){0};
    enum status status = network_create(&n, x, mode, batch, 1, err);
    if (status)
        return status;
    const struct graph *forward = n->infer, *g = mode == NETWORK_TRAIN ? n->train : n->infer;
    double slices = (double)batch / n->slice;
    bool listed = true;
    for (int i = 0; i < forward->node_count && listed; i++)
        listed = list_node(c, forward->nodes[i], slices);
    c->share = c->flops / (2 * n->macs * batch);
    c->flops = 0;
    c->count = 0;
    for (int i = 0; i < g->node_count && listed; i++)
        listed = list_node(c, g->nodes[i], slices);
    c->slice = n->slice;
    network_destroy(n);
    if (listed)
        return OK;
    ceiling_free(c);
    return error_memory(err, (size_t)c->capacity * 2 * sizeof *c->products);
}

void ceiling_free(struct ceiling *c)
{
    free(c->products);
    c->products = NULL;
    c->count = c->capacity = 0;
}

/* --- the times -------------------------------------------------------------------------------- */

/* The product over the rows of `batch` images in place of a slice's. */
static struct product whole_batch(struct product p, int slice, int batch)
{
    double factor = (double)batch / slice;
    if (p.rows == ROWS_ARE_M)
        p.m = (int)(p.m * factor + 0.5);
    else if (p.rows == ROWS_ARE_K)
        p.k = (int)(p.k * factor + 0.5);
    return p;
}

/* Each thread's own a, b and c, one behind the other. */
static size_t operand_count(const struct product *p)
{
    return (size_t)p->m * (size_t)p->k + (size_t)p->k * (size_t)p->n + (size_t)p->m * (size_t)p->n;
}

static void multiply(real *at, const struct product *p)
{
    struct vec a = {at, TYPE_REAL, p->ta == PLAIN ? p->k : p->m};
    struct vec b = {at + (size_t)p->m * (size_t)p->k, TYPE_REAL, p->tb == PLAIN ? p->n : p->k};
    struct vec c = {(real *)b.data + (size_t)p->k * (size_t)p->n, TYPE_REAL, p->n};
    kernel_gemm(c, p->beta, 1, p->ta, a, p->tb, b, p->m, p->n, p->k, NULL);
}

/* Seconds of `calls` calls for each thread, handed out in a few portions as the engine does. */
static double time_calls(real *operands, size_t each, const struct product *p, int threads,
                         int calls)
{
    int portion = calls > 8 ? calls / 8 : 1;
    double start = timer_seconds();
#pragma omp parallel num_threads(threads)
    {
        kernels_thread_init();
#pragma omp for schedule(dynamic, portion)
        for (int i = 0; i < threads * calls; i++)
            multiply(operands + (size_t)omp_get_thread_num() * each, p);
    }
    return timer_seconds() - start;
}

/* FLOPs a second on all the threads together; one measurement takes `seconds` or one call. How many
 * calls that are is found on one thread: a busy machine makes the meeting of several take long. */
static double rate_of(real *operands, size_t each, const struct product *p, int threads,
                      double seconds)
{
    double flops = 2.0 * p->m * p->n * p->k, best = 0;
    int calls = 1;
    while (time_calls(operands, each, p, 1, calls) < seconds && calls < 1 << 20)
        calls *= 2;
    for (int round = 0; round < ROUNDS; round++) {
        double rate = flops * threads * calls / time_calls(operands, each, p, threads, calls);
        best = rate > best ? rate : best;
    }
    return best;
}

static double better_rate(real *operands, size_t each, const struct product *p,
                          const struct product *whole, int threads, double seconds)
{
    double rate = rate_of(operands, each, p, threads, seconds);
    if (p->rows == ROWS_FIXED || same_product(p, whole))
        return rate;
    double other = rate_of(operands, each, whole, threads, seconds);
    return rate > other ? rate : other;
}

enum status ceiling_measure(struct ceiling *c, int batch, int threads, double seconds,
                            struct error *err)
{
    size_t each = 1;
    int sizes = 0;
    for (int i = 0; i < c->count; i++) {
        struct product whole = whole_batch(c->products[i], c->slice, batch);
        size_t count = operand_count(&whole), slice = operand_count(&c->products[i]);
        each = count > each ? count : each;
        each = slice > each ? slice : each;
        sizes += c->products[i].rows == ROWS_FIXED ? 1 : 2;
    }
    each = (each + 15) / 16 * 16;
    real *operands = malloc((size_t)threads * each * sizeof *operands);
    if (!operands)
        return error_memory(err, (size_t)threads * each * sizeof *operands);
    uint64_t stream = rng_stream(1, "ceiling");
    for (size_t i = 0; i < (size_t)threads * each; i++)
        operands[i] = (real)(rng_uniform(stream, 0, 0, i % 4096) - 0.5);

    /* Finding the number of calls takes as long as two measurements; all of it with all threads and
     * with one. */
    double share = seconds / (2.0 * sizes * (ROUNDS + 2));
    double all = 0, alone = 0;
    for (int i = 0; i < c->count; i++) {
        struct product *p = &c->products[i], whole = whole_batch(*p, c->slice, batch);
        double flops = 2.0 * p->m * p->n * p->k * p->count;
        p->flops_per_second = better_rate(operands, each, p, &whole, threads, share);
        p->flops_per_second_alone =
            threads == 1 ? p->flops_per_second : better_rate(operands, each, p, &whole, 1, share);
        all += flops / p->flops_per_second;
        alone += flops / p->flops_per_second_alone;
    }
    c->flops_per_second = all > 0 ? c->flops / all : 0;
    c->flops_per_second_alone = alone > 0 ? c->flops / alone : 0;
    free(operands);
    return OK;
}
