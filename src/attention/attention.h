/* attention.h - attention mechanisms. To add one:
 *   1. write attention/NAME.c with `const struct attn_variant NAME_attn` (linformer-like snippet: its
 *      options table, check, build, macs);
 *   2. add the line ATTENTION(NAME) to variants.def.
 * Config, help, `attnbench list`, checks of every option, gradcheck and the tests over the registry
 * follow from these two steps. No model names a variant, and no variant a model. */
#ifndef ATTENTION_ATTENTION_H
#define ATTENTION_ATTENTION_H

#include "config/field.h"
#include "graph/graph.h"

/* Where attention happens: everything that any variant may need to know of its host. */
struct attn_site {
    int B, N, D, H;    /* images in the slice, tokens, width, heads */
    int grid[2];       /* rows and columns of patches; N = prefix + grid[0] grid[1] */
    int prefix;        /* tokens before the patches: class token, distillation token */
    int block, blocks; /* number of this block and of all blocks */
    bool qkv_bias, proj_bias;
};

struct attn_variant {
    const char *name, *summary, *paper;
    const char *complexity;     /* of time, in N tokens and width D: "O(N^2 D)" */
    const struct field *fields; /* of its options; NULL: none */
    size_t options_size;

    /* What the variant cannot do: ERR_INPUT with "OPTION: WHAT (HINT)". NULL: it works everywhere. */
    enum status (*check)(const void *options, const struct attn_site *s, struct error *err);

    /* Records the mechanism with all of its projections.  x: (B, N, D), raster order, prefix tokens
     * first. Returns (B, N, D). */
    struct tensor *(*build)(struct graph *g, const void *options, const struct attn_site *s,
                            struct tensor *x);

    /* Multiply-adds of one image, by the paper's closed form; projections included. */
    double (*macs)(const void *options, const struct attn_site *s);
};

/* The i-th variant as a kind for configs; kind->impl is its struct attn_variant. The first one is
 * what others are compared with. */
const struct kind *attn_kinds(int i);

/* Records the chosen variant under the scope `name`; its output is traced under that name. */
struct tensor *attn_build(struct graph *g, const char *name, const struct choice *attention,
                          const struct attn_site *s, struct tensor *x);

/* check and macs of the chosen variant. */
MUST_USE enum status attn_check(const struct choice *attention, const struct attn_site *s,
                                struct error *err);
double attn_macs(const struct choice *attention, const struct attn_site *s);

/* 1 / sqrt(D / H) */
double attn_scale(const struct attn_site *s);

#endif
