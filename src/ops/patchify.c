/* patchify.c - images cut into patches, one row each.    x: (B, C, H, W)  y: (B, (H/h)(W/w), C h w)
 * The row of a patch is ordered (C, h, w) as the weight of the convolution that it replaces.
 *   y and dy: the same numbers in another order, y in the graph's storage type */
#include "kernels/kernels.h"
#include "ops/ops.h"

struct patch {
    int h, w;
};

static void patchify_infer(struct graph *g, struct node *n)
{
    const struct patch *p = n->options;
    const struct shape *x = &n->in[0]->shape;
    if (x->rank != 4 || p->h < 1 || p->w < 1 || x->dim[2] % p->h || x->dim[3] % p->w) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "patchify: patches of %d x %d do not divide %s", p->h, p->w,
                   shape_text(text, x));
        return;
    }
    graph_out(g, n, g->options.type,
              SHAPE(x->dim[0], x->dim[2] / p->h * (x->dim[3] / p->w), x->dim[1] * p->h * p->w));
}

/* Calls kernel_accumulate for the runs of w pixels that a patch consists of: to the patches, or back.
 * In memory the runs of one image row and channel lie side by side, h w apart in the patches. */
static void move(const struct node *n, const void *x_data, const void *y_data, bool to_patches,
                 int beta)
{
    const struct patch *p = n->options;
    const struct tensor *x = n->in[0], *y = n->out;
    int C = x->shape.dim[1], H = x->shape.dim[2], W = x->shape.dim[3];
    ptrdiff_t cols = tensor_cols(y);
    int columns = W / p->w;
    for (int b = 0; b < x->shape.dim[0]; b++) {
        for (int c = 0; c < C; c++) {
            for (int i = 0; i < H; i++) {
                ptrdiff_t pixel = (((ptrdiff_t)b * C + c) * H + i) * W;
                ptrdiff_t patch = ((ptrdiff_t)b * (H / p->h) + i / p->h) * columns * cols +
                                  ((ptrdiff_t)c * p->h + i % p->h) * p->w;
                struct vec in_x = {(char *)(uintptr_t)x_data + pixel * type_size(x->type), x->type,
                                   p->w};
                struct vec in_y = {(char *)(uintptr_t)y_data + patch * type_size(y->type), y->type,
                                   cols};
                kernel_accumulate(to_patches ? in_y : in_x, beta, to_patches ? in_x : in_y, 1,
                                  (size_t)columns, (size_t)p->w);
            }
        }
    }
}

static void patchify_forward(const struct node *n)
{
    move(n, n->in[0]->data, n->out->data, true, 0);
}

static void patchify_backward(const struct node *n)
{
    move(n, n->in[0]->grad, n->out->grad, false, n->beta[0]);
}

static struct tensor *patchify_sample(struct graph *g)
{
    return op_patchify(g, graph_sample(g, SHAPE(2, 3, 4, 6)), 2, 3);
}

const struct op patchify_op = {
    .name = "patchify", .infer = patchify_infer, .forward = patchify_forward,
    .backward = patchify_backward, .takes = TYPE_REAL | TYPE_BF16, .sample = patchify_sample,
};

struct tensor *op_patchify(struct graph *g, struct tensor *x, int h, int w)
{
    struct patch p = {h, w};
    return graph_record(g, &patchify_op, graph_copy(g, &p, sizeof p), INPUTS(x));
}
