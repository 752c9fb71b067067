/* linear.c - affine map of the last axis.    x: (.., in)  W: (out, in)  bias: (out)  y: (.., out)
 *   y = x W^T + bias        dx = dy W,  dW = dy^T x,  dbias = column sums of dy
 * After graph_fuse it may compute what follows as well, in this order, while the product is in cache:
 *   y = gelu(z), z = x W^T + bias;   y = the rows of z in another order (permute_tokens);
 *   y = factor z (stochastic depth);   y = z + residual
 * and then dz = dy gelu'(z) with gelu'(z) kept, or dz = factor dy in the order of x, stands for dy above,
 * and dresidual = dy. */
#include "kernels/kernels.h"
#include "ops/drop_path.h"
#include "ops/ops.h"
#include "ops/permute_tokens.h"

struct linear {
    enum type out; /* 0: as x */
    bool gelu;
    const struct permutation *order;   /* NULL: none */
    const struct drop_path *drop_path; /* NULL: none */
};

enum { X, WEIGHT, BIAS, RESIDUAL };    /* inputs */
enum { SLOPE, FACTOR };                /* saved, where absorbed: gelu'(z), a number for each sample */

/* Rows and columns of a weight of any shape: a convolution's (D, C, p, p) is (D, C p p). */
static int weight_rows(const struct tensor *W)
{
    return W->shape.dim[0];
}

static int weight_cols(const struct tensor *W)
{
    return (int)(tensor_count(W) / (size_t)W->shape.dim[0]);
}

static struct vec weight_vec(const struct tensor *W, void *data)
{
    return (struct vec){data, W->type, weight_cols(W)};
}

static void linear_infer(struct graph *g, struct node *n)
{
    const struct tensor *x = n->in[0], *W = n->in[1], *bias = n->in[2];
    if (weight_cols(W) != tensor_cols(x) ||
        (bias && tensor_count(bias) != (size_t)weight_rows(W))) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "linear: weight %s does not take %s",
                   shape_text(a, &W->shape), shape_text(b, &x->shape));
        return;
    }
    infer_param(g, n, 1);
    infer_param(g, n, 2);
    const struct linear *o = n->options;
    struct shape shape = x->shape;
    shape.dim[shape.rank - 1] = weight_rows(W);
    graph_out(g, n, o->out ? o->out : x->type, shape);
    if (x->type == TYPE_BF16 && W->root->param) /* else infer_param has failed the graph */
        W->root->param->packed = true;
}

static void linear_products(const struct node *n, product_visit *visit, void *context)
{
    const struct tensor *x = n->in[X], *W = n->in[WEIGHT];
    const struct product y = {
        .m = (int)tensor_rows(x), .n = weight_rows(W), .k = weight_cols(W), .tb = TRANSPOSED,
        .a = X, .b = WEIGHT, .all_rows = true, .count = 1,
    };
    visit(&y, context);
}

/* c = beta c + a op(W), op(W) in packed bf16 where activations are bf16. */
static void multiply(struct vec c, int beta, struct vec a, enum trans trans, const struct node *n,
                     int rows, const struct epilogue *epilogue)
{
    const struct tensor *W = n->in[WEIGHT];
    int out = weight_rows(W), in = weight_cols(W);
    if (n->in[X]->type == TYPE_BF16)
        kernel_gemm_packed(c, beta, a, param_packed(n->run->params, W->root->param, trans), rows,
                           epilogue);
    else
        kernel_gemm(c, beta, 1, PLAIN, a, trans, weight_vec(W, W->data), rows,
                    trans == TRANSPOSED ? out : in, trans == TRANSPOSED ? in : out, epilogue);
}

static void linear_forward(const struct node *n)
{
    const struct linear *o = n->options;
    const struct tensor *x = n->in[X];
    int rows = (int)tensor_rows(x);
    struct epilogue e = {.bias = n->in[BIAS] ? n->in[BIAS]->data : NULL, .gelu = o->gelu};
    if (n->saved[SLOPE])
        e.slope = (struct vec){n->saved[SLOPE]->data, n->saved[SLOPE]->type, tensor_cols(n->out)};
    if (o->order) {
        e.order = &o->order->to;
        e.period = o->order->to.period;
    }
    if (o->drop_path) {
        drop_path_factors(n->saved[FACTOR]->data, o->drop_path, n->run, n->out->shape.dim[0]);
        e.factor = n->saved[FACTOR]->data;
        e.period = (size_t)rows / (size_t)n->out->shape.dim[0];
    }
    if (n->inputs > RESIDUAL)
        e.residual = tensor_vec(n->in[RESIDUAL]);
    multiply(tensor_vec(n->out), 0, tensor_vec(x), TRANSPOSED, n, rows, &e);
}

/* Gradient of x W^T + bias: that of the output, or what absorbed steps make of it, in scratch. */
static struct vec product_grad(const struct node *n, size_t rows, size_t out)
{
    const struct linear *o = n->options;
    struct vec dy = tensor_grad(n->out);
    if (!o->gelu && !o->drop_path && !o->order)
        return dy;
    struct vec dz = {n->scratch_backward->data, n->out->type, (ptrdiff_t)out};
    if (o->gelu) {
        struct vec slope = {n->saved[SLOPE]->data, n->saved[SLOPE]->type, (ptrdiff_t)out};
        kernel_multiply(dz, 0, slope, dy, rows, out);
    } else if (o->order) {
        const real *factor = o->drop_path ? n->saved[FACTOR]->data : NULL;
        kernel_gather_rows(dz, 0, dy, &o->order->to, factor, 0, rows, out);
    } else {
        kernel_scale_rows(dz, 0, dy, n->saved[FACTOR]->data, rows, out,
                          rows / (size_t)n->out->shape.dim[0]);
    }
    return dz;
}

static void linear_backward(const struct node *n)
{
    const struct tensor *x = n->in[X], *W = n->in[WEIGHT], *bias = n->in[BIAS];
    int rows = (int)tensor_rows(x), in = weight_cols(W), out = weight_rows(W);
    struct vec dz = product_grad(n, (size_t)rows, (size_t)out);
    if (x->grad)
        multiply(tensor_grad(x), n->beta[X], dz, PLAIN, n, rows, NULL);
    if (W->grad)
        kernel_gemm(weight_vec(W, W->grad), 1, 1, TRANSPOSED, dz, PLAIN, tensor_vec(x), out, in,
                    rows, NULL);
    if (bias && bias->grad)
        kernel_column_sums(bias->grad, dz, (size_t)rows, (size_t)out);
    if (n->inputs > RESIDUAL && n->in[RESIDUAL]->grad)
        kernel_accumulate(tensor_grad(n->in[RESIDUAL]), n->beta[RESIDUAL], tensor_grad(n->out), 1,
                          (size_t)rows, (size_t)out);
}

/* Scratch for dz, in the storage type of the output. */
static void need_scratch(struct graph *g, struct node *n)
{
    size_t bytes = tensor_count(n->out) * type_size(n->out->type);
    graph_scratch(g, n, 0, (bytes + sizeof(real) - 1) / sizeof(real));
}

static bool linear_absorb(struct graph *g, struct node *n, const struct node *reader)
{
    struct linear o = *(const struct linear *)n->options;
    bool last = o.gelu || n->inputs > RESIDUAL;
    bool same_rows = tensor_cols(reader->out) == tensor_cols(n->out); /* a view may have others */
    if (last || !same_rows || (o.out && o.out != n->in[X]->type))
        return false;
    if (reader->op == &permute_tokens_op && !o.drop_path && !o.order) {
        o.order = reader->options;
    } else if (reader->op == &gelu_op && !o.drop_path && !o.order) {
        o.gelu = true;
        if (g->options.gradients)
            n->saved[SLOPE] = n->out; /* where z, which nobody else reads, would have been */
    } else if (reader->op == &drop_path_op && !o.drop_path) {
        o.drop_path = reader->options;
        n->saved[FACTOR] = reader->saved[0];
    } else if (reader->op == &add_op) {
        int other = reader->in[0]->root == n->out->root;
        struct tensor *residual = reader->in[other];
        if (residual->type != n->out->type || !tensor_has_rows(residual))
            return false;
        n->in[RESIDUAL] = residual;
        n->inputs = RESIDUAL + 1;
        n->options = graph_copy(g, &o, sizeof o);
        return !g->error.status;
    } else {
        return false;
    }
    need_scratch(g, n);
    n->options = graph_copy(g, &o, sizeof o);
    return !g->error.status;
}

static struct tensor *linear_sample(struct graph *g)
{
    struct tensor *W = graph_param(g, "weight", SHAPE(4, 5), INIT_NORMAL(1));
    struct tensor *bias = graph_param(g, "bias", SHAPE(4), INIT_NORMAL(1));
    return op_linear(g, graph_sample(g, SHAPE(2, 3, 5)), W, bias);
}

const struct op linear_op = {
    .name = "linear", .infer = linear_infer, .products = linear_products,
    .forward = linear_forward, .backward = linear_backward,
    .backward_reads = READS_IN(0) | READS_IN(1),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .absorb = linear_absorb,
    .sample = linear_sample,
};

static struct tensor *record(struct graph *g, struct tensor *x, struct tensor *W,
                             struct tensor *bias, enum type out)
{
    struct linear o = {.out = out};
    return graph_record(g, &linear_op, graph_copy(g, &o, sizeof o), INPUTS(x, W, bias));
}

struct tensor *op_linear(struct graph *g, struct tensor *x, struct tensor *W, struct tensor *bias)
{
    return record(g, x, W, bias, 0);
}

struct tensor *op_linear_real(struct graph *g, struct tensor *x, struct tensor *W,
                              struct tensor *bias)
{
    return record(g, x, W, bias, TYPE_REAL);
}
