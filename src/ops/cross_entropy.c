/* cross_entropy.c - loss of each sample.    logits: (B, K)  labels: (B)  y: (B)
 *   p = softmax(logits),  target = (1 - s) onehot(label) + s / K,  y = - sum target log p
 *   dlogits = dy (p - target) */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void cross_entropy_infer(struct graph *g, struct node *n)
{
    const struct tensor *x = n->in[0], *labels = n->in[1];
    if (x->shape.rank != 2 || labels->type != TYPE_INT ||
        tensor_count(labels) != (size_t)x->shape.dim[0]) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "cross_entropy: %s and %s, wanted logits (B, K) and labels (B)",
                   shape_text(a, &x->shape), shape_text(b, &labels->shape));
        return;
    }
    graph_out(g, n, TYPE_REAL, SHAPE(x->shape.dim[0]));
    graph_saved(g, n, 0, TYPE_REAL, tensor_count(x)); /* p */
}

static void cross_entropy_forward(const struct node *n)
{
    kernel_cross_entropy(n->out->data, n->saved[0]->data, tensor_vec(n->in[0]), n->in[1]->data,
                         *(const double *)n->options, tensor_rows(n->in[0]),
                         (size_t)tensor_cols(n->in[0]));
}

static void cross_entropy_backward(const struct node *n)
{
    kernel_cross_entropy_grad(tensor_grad(n->in[0]), n->beta[0], n->saved[0]->data, n->out->grad,
                              n->in[1]->data, *(const double *)n->options, tensor_rows(n->in[0]),
                              (size_t)tensor_cols(n->in[0]));
}

static struct tensor *cross_entropy_sample(struct graph *g)
{
    return op_cross_entropy(g, graph_sample(g, SHAPE(4, 5)), graph_sample_labels(g, 4), 0.1);
}

const struct op cross_entropy_op = {
    .name = "cross_entropy", .infer = cross_entropy_infer, .forward = cross_entropy_forward,
    .backward = cross_entropy_backward, .backward_reads = READS_IN(1),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = cross_entropy_sample,
};

struct tensor *op_cross_entropy(struct graph *g, struct tensor *logits, struct tensor *labels,
                                double smoothing)
{
    return graph_record(g, &cross_entropy_op, graph_copy(g, &smoothing, sizeof smoothing),
                        INPUTS(logits, labels));
}
