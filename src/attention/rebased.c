/* rebased.c - linear attention whose weights are squares of products of normalised queries and keys.
 * Aksenov et al., "Linear Transformers with Learnable Kernel Functions are Better In-Context Models",
 * arXiv:2402.10644, section 4: q' = gamma_q LN(q) + beta_q, k' likewise, weights (q' . k')^2 / f, for f
 * features a head. As in the authors' code the product is squared, not each of its terms. gamma and beta
 * belong to each head, of queries and of keys; LN is over the f features of a head, its eps 1e-5. All
 * weights of a query may be 0, where eps decides. Over all tokens, not causal. */
#include "attention/linear.h"
#include "nn/nn.h"

enum { MOST_FEATURES = 64 };

struct rebased {
    int f;
    double eps;
    int order;
};

static const struct field rebased_fields[] = {
    FIELD_INT(struct rebased, f, 16, 2, MOST_FEATURES, "features of a query and of a key, in each head"),
    FIELD_REAL(struct rebased, eps, 1e-5, 1e-12, 1, "added to the denominator"),
    FIELD_ORDER(struct rebased),
    FIELD_END,
};

/* The heads of the map `name`, normalised, times gamma plus beta of name_norm: (B, H, N, f), real. */
static struct tensor *normalised(struct graph *g, const struct attn_site *s, const char *name,
                                 struct tensor *x, int f)
{
    real ones[MOST_FEATURES], zeros[MOST_FEATURES] = {0};
    for (int i = 0; i < f; i++)
        ones[i] = 1;
    struct tensor *y = op_real(g, linear_heads(g, s, name, x, f));
    y = op_layer_norm(g, y, graph_constant(g, SHAPE(f), ones), graph_constant(g, SHAPE(f), zeros), 1e-5);
    graph_scope_push(g, "%s_norm", name);
    struct tensor *gamma = graph_param_flags(g, "weight", SHAPE(s->H, f), INIT_ONES, 0);
    struct tensor *beta = graph_param_flags(g, "bias", SHAPE(s->H, f), INIT_ZEROS, 0);
    graph_scope_pop(g);
    y = op_multiply_broadcast(g, y, graph_reshape(g, gamma, SHAPE(s->H, 1, f)));
    return op_add_broadcast(g, y, graph_reshape(g, beta, SHAPE(s->H, 1, f)), 0);
}

static struct tensor *rebased_build(struct graph *g, const void *options,
                                    const struct attn_site *s, struct tensor *x)
{
    const struct rebased *o = options;
    const struct linear_terms terms = {
        .den = DEN_ADD, .eps = o->eps, .order = o->order, .basis = BASIS_SYM, .c = {0, 0, 1.0 / o->f},
    };
    struct tensor *a = normalised(g, s, "q", x, o->f), *f = normalised(g, s, "k", x, o->f);
    struct tensor *v = linear_heads(g, s, "v", x, s->D / s->H);
    return linear_project(g, s, linear_attend(g, s, a, f, v, terms));
}

/* 2 N D^2 + 2 N D H f + N f (f + 1)(D + H) */
static double rebased_macs(const void *options, const struct attn_site *s)
{
    const struct rebased *o = options;
    double N = s->N, D = s->D, f = o->f;
    return linear_macs(s, f * (f + 1) / 2, true) - 2 * N * D * D + 2 * N * D * s->H * f;
}

const struct attn_variant rebased_attn = {
    .name = "rebased", .summary = "squared products of normalised queries and keys (ReBased)",
    .paper = "arXiv:2402.10644", .complexity = "O(N f^2 D)",
    .fields = rebased_fields, .options_size = sizeof(struct rebased),
    .build = rebased_build, .macs = rebased_macs,
};
