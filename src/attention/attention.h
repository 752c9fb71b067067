/* attention.h - attention mechanisms. To add one:
 *   1. write attention/NAME.c with `const struct attn_variant NAME_attn`: its options table, check,
 *      build, macs, and `placement` where it may have to see the whole map of a model with windows;
 *   2. add the line ATTENTION(NAME) to variants.def.
 * Config, help, `attnbench list`, checks of every option, gradcheck and the tests over the registry
 * follow from these two steps. No model names a variant, and no variant a model. */
#ifndef ATTENTION_ATTENTION_H
#define ATTENTION_ATTENTION_H

#include "config/field.h"
#include "graph/graph.h"

struct token_regions;
struct attn_offsets;
struct adapt;

/* Where attention happens: everything that any variant may need to know of its host.
 *
 * A model describes its whole map: (B, N, D) in raster order, and the windows into which it is
 * cut. A variant that works inside windows sees each of them as a sample with a map of its own:
 * B times as many samples, N = grid[0] grid[1] tokens of one window, window = grid, no shift. A
 * variant that is placed on the whole map sees it as the model does, and what it makes of the windows
 * is its own affair. */
struct attn_site {
    int B, N, D, H;    /* images (windows) in the slice, tokens, width, heads */
    int grid[2];       /* rows and columns of patches; N = prefix + grid[0] grid[1] */
    int prefix;        /* tokens before the patches: class token, distillation token */
    int block, blocks; /* number of this block and of all blocks */
    bool qkv_bias, proj_bias;
    int window[2];     /* rows and columns of a window, which divide the grid; 0: no windows */
    int shift[2];      /* rows and columns by which windows are shifted; less than the window */
    const struct token_regions *regions; /* of shifted windows, for the variant inside; else NULL:
                                            tokens of different regions must not meet */
};

/* What a variant sees where a model has windows: one window as its whole map, or the map. */
enum attn_placement { ATTN_INNER, ATTN_GLOBAL };

struct attn_variant {
    const char *name, *summary, *paper;
    const char *complexity;     /* of time, in N tokens and width D: "O(N^2 D)" */
    const struct field *fields; /* of its options; NULL: none */
    size_t options_size;
    const struct field_need *needs; /* options that are refused where others leave them without effect;
                                       NULL: none */
    bool kinks; /* features like relu's, over whose kinks the steps of float jump: gradients are
                   compared with differences in double alone */
    bool steps; /* rounds numbers or compares them with thresholds, where those of bf16 may come out
                   elsewhere: precisions are compared with `exact` options */

    /* Which of the two these options want at the model's site, which has windows. NULL: inner. */
    enum attn_placement (*placement)(const void *options, const struct attn_site *s);

    /* What the variant cannot do: ERR_INPUT with "OPTION: WHAT (HINT)". NULL: it works everywhere. */
    enum status (*check)(const void *options, const struct attn_site *s, struct error *err);

    /* Records the mechanism with all of its projections.  x: (B, N, D), raster order, prefix tokens
     * first. Returns (B, N, D). */
    struct tensor *(*build)(struct graph *g, const void *options, const struct attn_site *s,
                            struct tensor *x);

    /* Multiply-adds of one image, by the paper's closed form; projections included. */
    double (*macs)(const void *options, const struct attn_site *s);

    /* For checks of gradients alone: changes options to some with which differences can tell whether the
     * gradient is right. Off goes what it takes for a constant by definition though it is none, and
     * what is steeper than a step. NULL: differences can tell with any options. */
    void (*exact)(void *options);

    /* Where its relative_position_bias_table has which offset; false: it has no table at this site.
     * NULL: as attn_bias. */
    bool (*offsets)(const void *options, const struct attn_site *s, struct attn_offsets *o);

    /* Fills what a layer of another attention leaves open (attention/adapt.h), or merges into what was
     * taken over from it. NULL: that stays as it starts. */
    void (*adapt)(const struct adapt *a, const void *options);
};

/* The i-th variant as a kind for configs; kind->impl is its struct attn_variant. The first one is
 * what others are compared with. */
const struct kind *attn_kinds(int i);

/* Records the chosen variant under the scope `name`: cuts x into the site's windows for one that
 * works inside them, and undoes that. x: (B, N, D). Returns (B, N, D), traced under that name in
 * raster order. */
struct tensor *attn_build(struct graph *g, const char *name, const struct choice *attention,
                          const struct attn_site *s, struct tensor *x);

/* check and macs of the chosen variant at the model's site; macs are those of all windows. */
MUST_USE enum status attn_check(const struct choice *attention, const struct attn_site *s,
                                struct error *err);
double attn_macs(const struct choice *attention, const struct attn_site *s);

/* The model's site as the chosen variant sees it in checks and costs: one window as its map, or the
 * whole map. */
struct attn_site attn_seen(const struct choice *attention, const struct attn_site *s);

/* The offsets of the chosen variant's table at the model's site; false where it has none. */
bool attn_table_offsets(const struct choice *attention, const struct attn_site *s,
                        struct attn_offsets *o);

/* 1 / sqrt(D / H) */
double attn_scale(const struct attn_site *s);

/* For variants in windows: the learned bias of the scores by relative position, (H, N, N),
 * NULL where the site has no windows. Makes the parameter relative_position_bias_table,
 * ((2 h - 1)(2 w - 1), H), without weight decay, in the scope of the attention.
 * arXiv:2103.14030, eq. 4. */
struct tensor *attn_bias(struct graph *g, const struct attn_site *s);

/* Softmax attention as it is at this site: op_sdpa with the scale, and inside windows with their
 * bias and regions.  q: (B, H, N, d)  k: (B, H, N, d)  v: (B, H, N, e). Returns (B, H, N, e). */
struct tensor *attn_sdpa(struct graph *g, const struct attn_site *s, struct tensor *q,
                         struct tensor *k, struct tensor *v);

/* Whether the dotted name of a parameter or a scope lies in an attention layer: models build
 * theirs under the name "attn". */
bool attn_owns(const char *name);

#endif
