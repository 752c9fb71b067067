/* ceiling.c - listing the products of a graph, and timing them. */
#include "study/ceiling.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/timer.h"

enum { ROUNDS = 3 }; /* the fastest counts: what disturbs a product is no part of the ceiling */

/* --- the list --------------------------------------------------------------------------------- */

/* What a visit to a node's products needs to know. */
struct listing {
    struct ceiling *ceiling;
    const struct node *node;
    double slices; /* in a step */
    bool failed;   /* for want of memory */
};

static bool same_product(const struct ceiling_product *a, const struct ceiling_product *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->ta == b->ta && a->tb == b->tb &&
           a->type == b->type && a->out == b->out && a->packed == b->packed && a->beta == b->beta &&
           a->rows == b->rows;
}

static double flops_of(const struct ceiling_product *p)
{
    return 2.0 * p->m * p->n * p->k;
}

static void add(struct listing *l, struct ceiling_product p, double count)
{
    struct ceiling *c = l->ceiling;
    count *= l->slices;
    c->flops += flops_of(&p) * count;
    for (int i = 0; i < c->count; i++) {
        if (same_product(&c->products[i], &p)) {
            c->products[i].count += count;
            return;
        }
    }
    if (c->count == c->capacity) {
        int capacity = c->capacity ? 2 * c->capacity : 32;
        struct ceiling_product *grown = realloc(c->products, (size_t)capacity * sizeof *grown);
        l->failed = l->failed || !grown;
        if (!grown)
            return;
        c->products = grown;
        c->capacity = capacity;
    }
    p.count = count;
    c->products[c->count++] = p;
}

static const struct tensor *operand(const struct node *n, int i)
{
    return i == PRODUCT_BETWEEN ? NULL : n->in[i];
}

/* Values in between are stored as the output is. */
static enum type type_of(const struct node *n, int i)
{
    return operand(n, i) ? operand(n, i)->type : n->out->type;
}

static bool is_packed(const struct node *n, int i, enum type type)
{
    const struct tensor *t = operand(n, i);
    return type == TYPE_BF16 && t && t->root->param && t->root->param->packed;
}

static bool wants_grad(const struct node *n, int i)
{
    return n->runs_backward && (!operand(n, i) || operand(n, i)->root->needs_grad);
}

static int beta_of(const struct node *n, int i)
{
    return operand(n, i) ? n->beta[i] : 0;
}

static enum trans other(enum trans t)
{
    return t == PLAIN ? TRANSPOSED : PLAIN;
}

/* Parameters that are not packed are rounded where the other operand is bf16. */
static enum type product_type(const struct node *n, const struct product *p)
{
    bool bf16 = type_of(n, p->a) == TYPE_BF16 || type_of(n, p->b) == TYPE_BF16;
    return bf16 && !p->real ? TYPE_BF16 : TYPE_REAL;
}

static void list_forward(const struct product *p, void *context)
{
    struct listing *l = context;
    enum type type = product_type(l->node, p);
    const struct ceiling_product y = {
        .m = p->m, .n = p->n, .k = p->k, .ta = p->ta, .tb = p->tb, .type = type,
        .out = l->node->out->type, .packed = is_packed(l->node, p->b, type),
        .rows = p->all_rows ? ROWS_ARE_M : ROWS_FIXED,
    };
    add(l, y, p->count);
}

/* With y = op(a) op(b): d op(a) = dy op(b)^T, d op(b) = op(a)^T dy; transposed where a or b is. */
static void list_backward(const struct product *p, void *context)
{
    struct listing *l = context;
    const struct node *n = l->node;
    enum type type = product_type(n, p);
    struct ceiling_product da = {
        .m = p->m, .n = p->k, .k = p->n, .tb = other(p->tb), .type = type, .out = type_of(n, p->a),
        .packed = is_packed(n, p->b, type), .beta = beta_of(n, p->a),
        .rows = p->all_rows ? ROWS_ARE_M : ROWS_FIXED,
    };
    struct ceiling_product db = {
        .m = p->k, .n = p->n, .k = p->m, .ta = other(p->ta), .type = type, .out = type_of(n, p->b),
        .beta = beta_of(n, p->b), .rows = p->all_rows ? ROWS_ARE_K : ROWS_FIXED,
    };
    if (p->ta == TRANSPOSED) { /* dy is the right operand */
        da.m = p->k;
        da.n = p->m;
        da.k = p->n;
        da.ta = p->tb;
        da.tb = TRANSPOSED;
        da.packed = false;
    }
    if (p->tb == TRANSPOSED) {
        db.m = p->n;
        db.n = p->k;
        db.k = p->m;
        db.ta = TRANSPOSED;
        db.tb = p->ta;
    }
    if (wants_grad(n, p->a))
        add(l, da, p->count);
    if (wants_grad(n, p->b))
        add(l, db, p->count);
}

static bool list_graph(struct ceiling *c, const struct graph *g, double slices)
{
    struct listing l = {.ceiling = c, .slices = slices};
    for (int i = 0; i < g->node_count; i++) {
        l.node = g->nodes[i];
        if (!l.node->op->products)
            continue;
        if (!l.node->again)
            l.node->op->products(l.node, list_forward, &l);
        l.node->op->products(l.node, list_backward, &l);
    }
    return !l.failed;
}

static void add_macs(const struct product *p, void *context)
{
    *(double *)context += p->count * p->m * p->n * p->k;
}

/* What ops do beside products; products of masked operands may be more than counts. */
static double macs_without_products(const struct graph *g)
{
    double macs = 0;
    for (int i = 0; i < g->node_count; i++) {
        const struct node *n = g->nodes[i];
        double products = 0;
        if (n->again)
            continue;
        if (n->op->products)
            n->op->products(n, add_macs, &products);
        macs += fmax(0, node_macs(n) - products);
    }
    return macs;
}

enum status ceiling_list(struct ceiling *c, const struct experiment *x, enum network_mode mode,
                         int batch, struct error *err)
{
    struct network *n;
    *c = (struct ceiling){0};
    enum status status = network_create(&n, x, mode, batch, 1, err);
    if (status)
        return status;
    c->slice = n->slice;
    bool listed = list_graph(c, n->infer, (double)batch / c->slice);
    c->share = c->flops / (2 * n->macs * batch);
    c->other = macs_without_products(n->infer) / graph_macs(n->infer);
    if (listed && mode == NETWORK_TRAIN) {
        c->flops = 0;
        c->count = 0;
        c->slice = n->train->options.batch;
        listed = list_graph(c, n->train, (double)batch / c->slice);
    }
    network_destroy(n);
    if (listed)
        return OK;
    ceiling_free(c);
    return error_memory(err, 0);
}

void ceiling_free(struct ceiling *c)
{
    free(c->products);
    c->products = NULL;
    c->count = c->capacity = 0;
}

/* --- the times -------------------------------------------------------------------------------- */

/* The product over the rows of `batch` images in place of a slice's. */
static struct ceiling_product whole_batch(struct ceiling_product p, int slice, int batch)
{
    double factor = (double)batch / slice;
    if (p.rows == ROWS_ARE_M)
        p.m = (int)(p.m * factor + 0.5);
    else if (p.rows == ROWS_ARE_K)
        p.k = (int)(p.k * factor + 0.5);
    return p;
}

enum { LINE = 64 }; /* bytes to which operands are aligned */

static size_t whole_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* Each thread's own a, b and c, one behind the other: where b and c start, and the bytes of all. */
struct layout {
    size_t b, c, bytes;
};

static struct layout layout_of(const struct ceiling_product *p)
{
    size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k, size = type_size(p->type);
    struct layout at;
    at.b = whole_lines(m * k * size);
    at.c = at.b + whole_lines(p->packed ? kernel_packed_bytes(p->k, p->n) : k * n * size);
    at.bytes = at.c + whole_lines(m * n * type_size(p->out));
    return at;
}

/* Fills the operands with numbers that are below 1 in real and in bf16: words of equal halves. */
static void fill(unsigned char *at, const struct ceiling_product *p)
{
    uint32_t words[1024];
    const struct layout layout = layout_of(p);
    uint64_t stream = rng_stream(1, "ceiling");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        float number = (float)(rng_uniform(stream, 0, 0, i) - 0.5);
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        words[i] = (bits & 0xffff0000u) | bits >> 16;
    }
    for (size_t i = 0; i < layout.bytes; i += sizeof words)
        memcpy(at + i, words, layout.bytes - i < sizeof words ? layout.bytes - i : sizeof words);
    if (p->packed) { /* c is long enough to serve as each of the rows of b */
        struct vec row = {at + layout.c, p->out, 0};
        kernel_pack(at + layout.b, PLAIN, row, p->k, p->n);
    }
}

static void multiply(unsigned char *at, const struct ceiling_product *p)
{
    const struct layout layout = layout_of(p);
    struct vec a = {at, p->type, p->ta == PLAIN ? p->k : p->m};
    struct vec b = {at + layout.b, p->type, p->tb == PLAIN ? p->n : p->k};
    struct vec c = {at + layout.c, p->out, p->n};
    if (p->packed)
        kernel_gemm_packed(c, p->beta, a, (struct packed){b.data, p->k, p->n}, p->m, NULL);
    else
        kernel_gemm(c, p->beta, 1, p->ta, a, p->tb, b, p->m, p->n, p->k, NULL);
}

/* Seconds of `calls` calls for each thread, handed out in a few portions as the engine does. */
static double time_calls(unsigned char *operands, size_t each, const struct ceiling_product *p,
                         int threads, int calls)
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
static double rate_of(unsigned char *operands, size_t each, const struct ceiling_product *p,
                      int threads, double seconds)
{
    double best = 0;
    int calls = 1;
    for (int i = 0; i < threads; i++)
        fill(operands + (size_t)i * each, p);
    while (time_calls(operands, each, p, 1, calls) < seconds && calls < 1 << 20)
        calls *= 2;
    for (int round = 0; round < ROUNDS; round++) {
        double time = time_calls(operands, each, p, threads, calls);
        double rate = flops_of(p) * threads * calls / time;
        best = rate > best ? rate : best;
    }
    return best;
}

static double better_rate(unsigned char *operands, size_t each, const struct ceiling_product *p,
                          const struct ceiling_product *whole, int threads, double seconds)
{
    double rate = rate_of(operands, each, p, threads, seconds);
    if (p->rows == ROWS_FIXED || same_product(p, whole))
        return rate;
    double more = rate_of(operands, each, whole, threads, seconds);
    return rate > more ? rate : more;
}

enum status ceiling_measure(struct ceiling *c, int batch, int threads, double seconds,
                            struct error *err)
{
    size_t each = LINE;
    int sizes = 0;
    for (int i = 0; i < c->count; i++) {
        struct ceiling_product whole = whole_batch(c->products[i], c->slice, batch);
        size_t all = layout_of(&whole).bytes, slice = layout_of(&c->products[i]).bytes;
        each = all > each ? all : each;
        each = slice > each ? slice : each;
        sizes += c->products[i].rows == ROWS_FIXED ? 1 : 2;
    }
    unsigned char *operands = aligned_alloc(LINE, (size_t)threads * each);
    if (!operands)
        return error_memory(err, (size_t)threads * each);

    /* Finding the number of calls takes as long as two measurements; all of it with all threads and
     * with one. */
    double share = seconds / (2.0 * sizes * (ROUNDS + 2));
    double all = 0, alone = 0;
    for (int i = 0; i < c->count; i++) {
        struct ceiling_product *p = &c->products[i], whole = whole_batch(*p, c->slice, batch);
        p->flops_per_second = better_rate(operands, each, p, &whole, threads, share);
        p->flops_per_second_alone =
            threads == 1 ? p->flops_per_second : better_rate(operands, each, p, &whole, 1, share);
        all += flops_of(p) * p->count / p->flops_per_second;
        alone += flops_of(p) * p->count / p->flops_per_second_alone;
    }
    c->flops_per_second = all > 0 ? c->flops / all : 0;
    c->flops_per_second_alone = alone > 0 ? c->flops / alone : 0;
    free(operands);
    return OK;
}
