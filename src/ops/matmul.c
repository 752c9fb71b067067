/* matmul.c - matrix products of the last two axes.    a: (.., m, k)  b: (.., k, n)  y: (.., m, n)
 *   y = op(a) op(b), op(a) = a^T for _tn, op(b) = b^T for _nt
 *   plain:  da = dy b^T,  db = a^T dy
 *   _tn:    da = b dy^T,  db = a dy
 *   _nt:    da = dy b,    db = dy^T a
 * An operand without outer axes serves all products; its gradient is the sum over them. */
#include "kernels/kernels.h"
#include "ops/ops.h"

struct matmul {
    enum trans ta, tb;
};

/* Number of products, and sizes of one; axes of op(a), op(b). */
struct sizes {
    int outer, m, n, k;
};

static int axis(const struct tensor *t, int from_end)
{
    return t->shape.dim[t->shape.rank - from_end];
}

static int outer_count(const struct tensor *t)
{
    return (int)(tensor_count(t) / ((size_t)axis(t, 1) * (size_t)axis(t, 2)));
}

static struct sizes sizes_of(const struct node *n)
{
    const struct matmul *o = n->options;
    const struct tensor *a = n->in[0], *b = n->in[1];
    int outer = outer_count(a) > outer_count(b) ? outer_count(a) : outer_count(b);
    return (struct sizes){outer, axis(a, o->ta == TRANSPOSED ? 1 : 2),
                          axis(b, o->tb == TRANSPOSED ? 2 : 1),
                          axis(a, o->ta == TRANSPOSED ? 2 : 1)};
}

static bool outer_agree(const struct tensor *a, const struct tensor *b)
{
    if (a->shape.rank == 2 || b->shape.rank == 2)
        return true;
    if (a->shape.rank != b->shape.rank)
        return false;
    for (int i = 0; i < a->shape.rank - 2; i++)
        if (a->shape.dim[i] != b->shape.dim[i])
            return false;
    return true;
}

static void matmul_infer(struct graph *g, struct node *n)
{
    const struct matmul *o = n->options;
    const struct tensor *a = n->in[0], *b = n->in[1];
    struct shape shape = a->shape.rank >= b->shape.rank ? a->shape : b->shape;
    if (a->shape.rank < 2 || b->shape.rank < 2 || !outer_agree(a, b) ||
        axis(a, o->ta == TRANSPOSED ? 2 : 1) != axis(b, o->tb == TRANSPOSED ? 1 : 2)) {
        char x[64], y[64];
        graph_fail(g, ERR_SHAPE, "matmul%s: %s and %s do not fit",
                   o->ta == TRANSPOSED ? "_tn" : o->tb == TRANSPOSED ? "_nt" : "",
                   shape_text(x, &a->shape), shape_text(y, &b->shape));
        return;
    }
    struct sizes s = sizes_of(n);
    shape.dim[shape.rank - 2] = s.m;
    shape.dim[shape.rank - 1] = s.n;
    graph_out(g, n, shape.rank == a->shape.rank ? a->type : b->type, shape);
}

static void matmul_products(const struct node *n, product_visit *visit, void *context)
{
    const struct matmul *o = n->options;
    struct sizes s = sizes_of(n);
    const struct product y = {
        .m = s.m, .n = s.n, .k = s.k, .ta = o->ta, .tb = o->tb, .a = 0, .b = 1, .count = s.outer,
    };
    visit(&y, context);
}

/* Matrix number i of a tensor's values or gradient. */
static struct vec matrix(const struct tensor *t, void *base, int i)
{
    int rank = t->shape.rank;
    ptrdiff_t offset = 0;
    for (int at = rank - 3; at >= 0; at--) {
        offset += i % t->shape.dim[at] * t->stride[at];
        i /= t->shape.dim[at];
    }
    return (struct vec){(char *)base + offset * (ptrdiff_t)type_size(t->type), t->type,
                        t->stride[rank - 2]};
}

static void matmul_forward(const struct node *n)
{
    const struct matmul *o = n->options;
    struct sizes s = sizes_of(n);
    for (int i = 0; i < s.outer; i++)
        kernel_gemm(matrix(n->out, n->out->data, i), 0, 1, o->ta,
                    matrix(n->in[0], n->in[0]->data, i), o->tb,
                    matrix(n->in[1], n->in[1]->data, i), s.m, s.n, s.k, NULL);
}

/* beta of product i into operand k: one without outer axes gathers all products. */
static int beta_of(const struct node *n, int k, int i)
{
    return n->in[k]->shape.rank == 2 && i > 0 ? 1 : n->beta[k];
}

static void matmul_backward(const struct node *n)
{
    const struct matmul *o = n->options;
    const struct tensor *a = n->in[0], *b = n->in[1];
    struct sizes s = sizes_of(n);
    for (int i = 0; i < s.outer && a->grad; i++) {
        struct vec dy = matrix(n->out, n->out->grad, i), w = matrix(b, b->data, i);
        struct vec da = matrix(a, a->grad, i);
        int beta = beta_of(n, 0, i);
        if (o->ta == TRANSPOSED)
            kernel_gemm(da, beta, 1, o->tb, w, TRANSPOSED, dy, s.k, s.m, s.n, NULL);
        else
            kernel_gemm(da, beta, 1, PLAIN, dy, o->tb == PLAIN ? TRANSPOSED : PLAIN, w, s.m, s.k,
                        s.n, NULL);
    }
    for (int i = 0; i < s.outer && b->grad; i++) {
        struct vec dy = matrix(n->out, n->out->grad, i), w = matrix(a, a->data, i);
        struct vec db = matrix(b, b->grad, i);
        int beta = beta_of(n, 1, i);
        if (o->tb == TRANSPOSED)
            kernel_gemm(db, beta, 1, TRANSPOSED, dy, o->ta, w, s.n, s.k, s.m, NULL);
        else
            kernel_gemm(db, beta, 1, o->ta == PLAIN ? TRANSPOSED : PLAIN, w, PLAIN, dy, s.k, s.n,
                        s.m, NULL);
    }
}

static struct tensor *matmul_sample(struct graph *g)
{
    struct tensor *a = graph_sample(g, SHAPE(2, 2, 3, 4)), *b = graph_sample(g, SHAPE(2, 2, 4, 5));
    struct tensor *w = graph_param(g, "w", SHAPE(6, 5), INIT_NORMAL(1));
    struct tensor *u = graph_param(g, "u", SHAPE(3, 2), INIT_NORMAL(1));
    struct tensor *y = op_matmul_nt(g, op_matmul(g, a, b), w); /* (2, 2, 3, 6) */
    return op_matmul_tn(g, u, y);                              /* (2, 2, 2, 6) */
}

const struct op matmul_op = {
    .name = "matmul", .infer = matmul_infer, .products = matmul_products,
    .forward = matmul_forward, .backward = matmul_backward,
    .backward_reads = READS_IN(0) | READS_IN(1),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = matmul_sample,
};

static struct tensor *record(struct graph *g, struct tensor *a, struct tensor *b, enum trans ta,
                             enum trans tb)
{
    struct matmul o = {ta, tb};
    return graph_record(g, &matmul_op, graph_copy(g, &o, sizeof o), INPUTS(a, b));
}

struct tensor *op_matmul(struct graph *g, struct tensor *a, struct tensor *b)
{
    return record(g, a, b, PLAIN, PLAIN);
}

struct tensor *op_matmul_tn(struct graph *g, struct tensor *a, struct tensor *b)
{
    return record(g, a, b, TRANSPOSED, PLAIN);
}

struct tensor *op_matmul_nt(struct graph *g, struct tensor *a, struct tensor *b)
{
    return record(g, a, b, PLAIN, TRANSPOSED);
}
