/* matmul.c - matrix products of the last two axes.    a: (.., m, k)  b: (.., k, n)  y: (.., m, n)
 *   y = op(a) op(b), op(a) = a^T for _tn, op(b) = b^T for _nt
 *   plain:  da = dy b^T,  db = a^T dy
 *   _tn:    da = b dy^T,  db = a dy
 *   _nt:    da = dy b,    db = dy^T a
 * An operand that lacks the first outer axes serves all of their indices, and its gradient is the
 * sum over them. The output is stored as the operand with more axes, or real. */
#include "kernels/kernels.h"
#include "ops/ops.h"

struct matmul {
    enum trans ta, tb;
    enum type out; /* 0: as the operand with more axes */
};

/* Number of products, and sizes of one; axes of op(a), op(b). */
struct sizes {
    size_t outer;
    int m, n, k;
};

static int axis(const struct tensor *t, int from_end)
{
    return t->shape.dim[t->shape.rank - from_end];
}

static struct sizes sizes_of(const struct node *n)
{
    const struct matmul *o = n->options;
    const struct tensor *a = n->in[0], *b = n->in[1];
    size_t outer = tensor_matrices(a), other = tensor_matrices(b);
    return (struct sizes){outer > other ? outer : other, axis(a, o->ta == TRANSPOSED ? 1 : 2),
                          axis(b, o->tb == TRANSPOSED ? 2 : 1),
                          axis(a, o->ta == TRANSPOSED ? 2 : 1)};
}

static bool outer_agree(const struct tensor *a, const struct tensor *b)
{
    int rank = a->shape.rank < b->shape.rank ? a->shape.rank : b->shape.rank;
    for (int from_end = 3; from_end <= rank; from_end++)
        if (axis(a, from_end) != axis(b, from_end))
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
    enum type type = shape.rank == a->shape.rank ? a->type : b->type;
    graph_out(g, n, o->out ? o->out : type, shape);
}

static void matmul_products(const struct node *n, product_visit *visit, void *context)
{
    const struct matmul *o = n->options;
    struct sizes s = sizes_of(n);
    const struct product y = {
        .m = s.m, .n = s.n, .k = s.k, .ta = o->ta, .tb = o->tb, .a = 0, .b = 1,
        .count = (double)s.outer,
    };
    visit(&y, context);
}

static void matmul_forward(const struct node *n)
{
    const struct matmul *o = n->options;
    struct sizes s = sizes_of(n);
    for (size_t i = 0; i < s.outer; i++)
        kernel_gemm(tensor_matrix(n->out, i), 0, 1, o->ta, tensor_matrix(n->in[0], i), o->tb,
                    tensor_matrix(n->in[1], i), s.m, s.n, s.k, NULL);
}

/* beta of product i into operand k: one with fewer matrices gathers several products in each. */
static int beta_of(const struct node *n, int k, size_t i)
{
    return i >= tensor_matrices(n->in[k]) ? 1 : n->beta[k];
}

static void matmul_backward(const struct node *n)
{
    const struct matmul *o = n->options;
    const struct tensor *a = n->in[0], *b = n->in[1];
    struct sizes s = sizes_of(n);
    for (size_t i = 0; i < s.outer && a->grad; i++) {
        struct vec dy = tensor_matrix_grad(n->out, i), w = tensor_matrix(b, i);
        struct vec da = tensor_matrix_grad(a, i);
        int beta = beta_of(n, 0, i);
        if (o->ta == TRANSPOSED)
            kernel_gemm(da, beta, 1, o->tb, w, TRANSPOSED, dy, s.k, s.m, s.n, NULL);
        else
            kernel_gemm(da, beta, 1, PLAIN, dy, o->tb == PLAIN ? TRANSPOSED : PLAIN, w, s.m, s.k,
                        s.n, NULL);
    }
    for (size_t i = 0; i < s.outer && b->grad; i++) {
        struct vec dy = tensor_matrix_grad(n->out, i), w = tensor_matrix(a, i);
        struct vec db = tensor_matrix_grad(b, i);
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
    struct tensor *u = graph_param(g, "u", SHAPE(2, 3, 2), INIT_NORMAL(1));
    struct tensor *y = op_matmul_nt(g, op_matmul_real(g, a, b), w); /* (2, 2, 3, 6) */
    return op_matmul_tn(g, u, y);                                   /* (2, 2, 2, 6) */
}

const struct op matmul_op = {
    .name = "matmul", .infer = matmul_infer, .products = matmul_products,
    .forward = matmul_forward, .backward = matmul_backward,
    .backward_reads = READS_IN(0) | READS_IN(1),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = matmul_sample,
};

static struct tensor *record(struct graph *g, struct tensor *a, struct tensor *b,
                             struct matmul options)
{
    return graph_record(g, &matmul_op, graph_copy(g, &options, sizeof options), INPUTS(a, b));
}

struct tensor *op_matmul(struct graph *g, struct tensor *a, struct tensor *b)
{
    return record(g, a, b, (struct matmul){PLAIN, PLAIN, 0});
}

struct tensor *op_matmul_tn(struct graph *g, struct tensor *a, struct tensor *b)
{
    return record(g, a, b, (struct matmul){TRANSPOSED, PLAIN, 0});
}

struct tensor *op_matmul_nt(struct graph *g, struct tensor *a, struct tensor *b)
{
    return record(g, a, b, (struct matmul){PLAIN, TRANSPOSED, 0});
}

struct tensor *op_matmul_real(struct graph *g, struct tensor *a, struct tensor *b)
{
    return record(g, a, b, (struct matmul){PLAIN, PLAIN, TYPE_REAL});
}

struct tensor *op_matmul_tn_real(struct graph *g, struct tensor *a, struct tensor *b)
{
    return record(g, a, b, (struct matmul){TRANSPOSED, PLAIN, TYPE_REAL});
}

struct tensor *op_matmul_nt_real(struct graph *g, struct tensor *a, struct tensor *b)
{
    return record(g, a, b, (struct matmul){PLAIN, TRANSPOSED, TYPE_REAL});
}
