/* set_mean.c - means over sets of tokens.    x: (B, H, N, d)  y: (B, H, sets, d), real
 *   y[s] = 1/n sum over m in set s of x[m]        dx[m] = sum over the sets s with m of dy[s] / n
 * where n is the number of members, or one number for all sets. */
#include "ops/ops.h"

struct options {
    struct token_sets sets;
    double divisor;
    int team;
};

static struct set_pool pool_of(const struct node *n)
{
    const struct options *o = n->options;
    const int *x = n->in[0]->shape.dim;
    return (struct set_pool){
        .B = x[0], .H = x[1], .N = x[2], .d = x[3], .e = x[3], .sets = o->sets, .team = o->team};
}

bool token_sets_fit(const struct token_sets *sets, int N, int least)
{
    if (sets->count < 1 || sets->first[0] != 0)
        return false;
    for (int s = 0; s < sets->count; s++)
        if (sets->first[s + 1] - sets->first[s] < least)
            return false;
    for (int m = 0; m < sets->first[sets->count]; m++)
        if (sets->token[m] < 0 || sets->token[m] >= N)
            return false;
    return true;
}

static void set_mean_infer(struct graph *g, struct node *n)
{
    const struct options *o = n->options;
    const struct shape *x = &n->in[0]->shape;
    if (x->rank != 4 || !token_sets_fit(&o->sets, x->dim[2], o->divisor > 0 ? 0 : 1)) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "set_mean: %d sets do not fit %s, wanted (B, H, N, d)",
                   o->sets.count, shape_text(text, x));
        return;
    }
    graph_out(g, n, TYPE_REAL, SHAPE(x->dim[0], x->dim[1], o->sets.count, x->dim[3]));
    struct set_pool s = pool_of(n);
    graph_scratch(g, n, 0, kernel_set_scratch(&s));
}

static void set_mean_forward(const struct node *n)
{
    const struct options *o = n->options;
    struct set_pool s = pool_of(n);
    kernel_set_mean(tensor_heads(n->out), tensor_heads(n->in[0]), o->divisor, &s);
}

static void set_mean_backward(const struct node *n)
{
    const struct options *o = n->options;
    struct set_pool s = pool_of(n);
    kernel_set_mean_grad(tensor_grad_heads(n->in[0]), n->beta[0], tensor_grad_heads(n->out),
                         o->divisor, &s, n->scratch_backward->data);
}

/* Sets that share a token, and leave one out; with both kinds of divisors. */
static struct tensor *set_mean_sample(struct graph *g)
{
    static const int first[] = {0, 1, 4}, token[] = {3, 0, 3, 2};
    static const struct token_sets sets = {2, first, token};
    struct tensor *x = graph_sample(g, SHAPE(2, 2, 5, 3));
    return op_add(g, op_set_mean(g, x, &sets, 0), op_set_mean(g, x, &sets, 4));
}

const struct op set_mean_op = {
    .name = "set_mean",
    .infer = set_mean_infer,
    .forward = set_mean_forward,
    .backward = set_mean_backward,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = set_mean_sample,
};

struct tensor *op_set_mean(struct graph *g, struct tensor *x, const struct token_sets *sets,
                           double divisor)
{
    const struct options o = {*sets, divisor, g->options.team};
    return graph_record(g, &set_mean_op, graph_copy(g, &o, sizeof o), INPUTS(x));
}
