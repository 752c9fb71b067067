/* linear.c - the core and the output projection of linear attentions at a site. */
#include "attention/linear.h"

#include "nn/nn.h"

const char *const linear_orders[] = {"auto", "linear", "quadratic", NULL};

struct tensor *linear_heads(struct graph *g, const struct attn_site *s, const char *name,
                            struct tensor *x, int width)
{
    return graph_split_heads(g, nn_linear_bias(g, name, x, s->H * width, false), s->H);
}

struct tensor *linear_real(struct graph *g, struct tensor *x)
{
    return x->type == TYPE_REAL ? x : op_real(g, x);
}

struct tensor *linear_attend(struct graph *g, const struct attn_site *s, struct tensor *a,
                             struct tensor *f, struct tensor *v, struct linear_terms terms)
{
    terms.regions = s->regions;
    return op_linear_attention(g, a, f, v, &terms);
}

struct tensor *linear_project(struct graph *g, const struct attn_site *s, struct tensor *y)
{
    if (y->shape.rank == 4)
        y = op_merge_heads(g, y);
    return nn_linear_bias(g, "proj", y, s->D, s->proj_bias);
}

double linear_macs(const struct attn_site *s, double features, bool normalised)
{
    double N = s->N, D = s->D;
    return 4 * N * D * D + 2 * N * features * (D + (normalised ? s->H : 0));
}
