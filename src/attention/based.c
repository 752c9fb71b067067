/* based.c - linear attention whose weights are the Taylor expansion of exp(q . k / sqrt f) to second
 * order, for queries and keys of few features. Arora et al., "Simple linear attention language models
 * balance the recall-throughput tradeoff", arXiv:2402.18668, section 4.1: f features a head, and
 *   phi(x) = [1, x / f^(1/4), vec(x x^T) / sqrt(2 f)],  phi(q) . phi(k) = 1 + s + s^2 / 2 >= 1 / 2.
 * Here over all tokens, not causal, and without the paper's window attention and short convolutions. */
#include <math.h>

#include "attention/linear.h"
#include "nn/nn.h"

struct based {
    int f, order;
};

static const struct field based_fields[] = {
    FIELD_INT(struct based, f, 16, 1, 64, "features of a query and of a key, in each head"),
    FIELD_ORDER(struct based),
    FIELD_END,
};

static struct tensor *based_build(struct graph *g, const void *options, const struct attn_site *s,
                                  struct tensor *x)
{
    const struct based *o = options;
    const struct linear_terms terms = {
        .den = DEN_ADD, .eps = 1e-12, .order = o->order,
        .basis = BASIS_FULL, .c = {1, 1 / sqrt(o->f), 0.5 / o->f},
    };
    struct tensor *q = linear_heads(g, s, "q", x, o->f), *k = linear_heads(g, s, "k", x, o->f);
    struct tensor *v = linear_heads(g, s, "v", x, s->D / s->H);
    struct tensor *a = linear_real(g, q), *f = linear_real(g, k);
    return linear_project(g, s, linear_attend(g, s, a, f, v, terms));
}

/* 2 N D^2 + 2 N D H f + 2 N (1 + f + f^2)(D + H) */
static double based_macs(const void *options, const struct attn_site *s)
{
    const struct based *o = options;
    double N = s->N, D = s->D, f = o->f;
    return linear_macs(s, 1 + f + f * f, true) - 2 * N * D * D + 2 * N * D * s->H * f;
}

const struct attn_variant based_attn = {
    .name = "based", .summary = "second-order Taylor weights of few features (Based)",
    .paper = "arXiv:2402.18668", .complexity = "O(N f^2 D)",
    .fields = based_fields, .options_size = sizeof(struct based),
    .build = based_build, .macs = based_macs,
};
