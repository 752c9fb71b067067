/* adapt.h - a layer that starts from the trained layer of another attention. What both have is taken
 * over; the rest starts as close to the old mechanism as the new one can be, as its own `adapt` says,
 * or as it would without a checkpoint.
 *
 *   1. Maps of tokens. The rows of qkv, qk, q, k and v are those of queries, keys and values. Where
 *      the old layer has a map of queries but none of keys or values, it uses the tokens themselves,
 *      and the new map is the identity.
 *   2. Tables of biases by relative position are taken over offset by offset, and 0 for offsets that
 *      the old layer has no number for. Where the model's windows have another size, the table is
 *      resampled first, as the authors of Swin do.
 *   3. Any other tensor of the same name and shape is the same tensor.
 *   4. The hook of the variant sees both layers then, unless both have the same attention. */
#ifndef ATTENTION_ADAPT_H
#define ATTENTION_ADAPT_H

#include "attention/attention.h"

enum { ADAPT_HOW = 96 };

struct adapt_tensor {
    const char *name; /* within the layer: "qkv.weight" */
    struct shape shape;
    real *value;

    /* Of the layer to fill: whether trained values are in it; and what is to be said of it, "" where
     * it is the tensor of the same name, or as at the start. */
    bool loaded, resized; /* resized: loaded by resampling */
    char how[ADAPT_HOW];

    /* Of the old layer: the parts in use, a bit each, and how many there are (3 in qkv, 1 in proj). */
    unsigned used;
    int parts;
};

/* A layer and its tensors. */
struct adapt_layer {
    const struct choice *attention;
    struct attn_site site;
    struct adapt_tensor *list;
    int count;
};

/* Fills `to`, which has its initial values, from `from`. Both sites are those of the models; they
 * have the same width and heads. ERR_MEMORY alone. */
MUST_USE enum status attn_adapt(struct adapt_layer *to, struct adapt_layer *from, struct error *err);

/* Whether two layers have the same attention with the same options. */
bool attn_same(const struct choice *a, const struct choice *b);

/* Where a table of relative positions has what: row
 *     (dy + reach[0] - 1) (2 reach[1] - 1) + dx + reach[1] - 1
 * of (dy, dx) = sign (query - key), in rows and columns of the map. */
struct attn_offsets {
    int reach[2], sign;
};

/* --- for hooks ---------------------------------------------------------------------------------- */

/* What a hook sees: the new layer, the old one, and the new layer's site as `build` sees it. */
struct adapt {
    struct adapt_layer *to, *from;
    const struct attn_site *site;
};

/* The new layer's tensor of that name, or NULL: where it has none, or trained values are in it. */
struct adapt_tensor *adapt_open(const struct adapt *a, const char *name);

/* Fills it, where it is open, with one number; with that multiple of the identity in its last two
 * axes. */
void adapt_constant(const struct adapt *a, const char *name, double value);
void adapt_identity(const struct adapt *a, const char *name, double factor);

/* The map of the tokens to queries ('q'), keys ('k') or values ('v'): its weights (rows, D), or its
 * biases (rows); value is NULL where the layer has none. */
struct adapt_part {
    real *value;
    int rows, columns; /* columns: 1 of biases */
    struct adapt_tensor *tensor;
    int index; /* among the maps in it */
};
struct adapt_part adapt_weight(const struct adapt_layer *l, char map);
struct adapt_part adapt_bias(const struct adapt_layer *l, char map);

/* Says that a part of the old layer is in use; nothing where it is none. */
void adapt_use(const struct adapt_part *part);

/* The tensor of that name in a layer, or NULL. */
struct adapt_tensor *adapt_find(const struct adapt_layer *l, const char *name);

/* Appends to what is said of a tensor of the new layer. */
void adapt_say(struct adapt_tensor *t, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
