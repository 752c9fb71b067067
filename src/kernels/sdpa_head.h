/* sdpa_head.h - softmax attention of one head of one image, in tiles of query rows: what sdpa.c and
 * sdpa_tables.c share. Of struct sdpa these functions read M, N, d, e, scale, bias, regions and
 * dropout; b and h say which image and head they are called for. */
#ifndef KERNELS_SDPA_HEAD_H
#define KERNELS_SDPA_HEAD_H

#include <stdbool.h>

#include "kernels/operand.h"

/* A tile has at least as many rows as keep a product busy. */
enum { SDPA_TILE_ROWS = 24 };

/* Sizes that follow from the shape alone, and the pieces of the scratch. */
struct sdpa_plan {
    const struct kernels_bf16 *bf16; /* NULL: all products are real */
    int rows;                        /* of a tile */
    ptrdiff_t stride;                /* of a tile */
    real *q, *y,
        *dy;         /* (rows, d), (rows, e), (rows, e): bf16 as real, or a result not yet scaled */
    real *s, *dp;    /* (rows, M) */
    real *row;       /* (rows): 1 / sum, or sum y dy */
    void *k_columns; /* k^T packed: (d, M) */
    void *k_rows;    /* k packed: (M, d) */
    void *v_columns; /* v^T packed: (e, M) */
    void *v_rows;    /* v packed: (M, e) */
    void *q_rows;    /* q of the tile, packed: (rows, d) */
    void *dy_rows;   /* dy of the tile, packed: (rows, e) */
    uint16_t *left;  /* a left operand as bf16: (rows, M), (M, rows), (rows, d or e) */
    real *dk, *dv;   /* (M, d), (M, e) */
};

/* Divides the scratch (NULL: only counts), which is 64-byte aligned. Returns the number of reals.
 */
size_t sdpa_plan_make(struct sdpa_plan *p, const struct sdpa *o, real *scratch);

/* The bf16 products of the level, if all operands are bf16. */
const struct kernels_bf16 *sdpa_bf16(enum type q, enum type k, enum type v, enum type dy);

/* Rows `first` to `last` - 1 of y, and their row sums in lse (from row 0 on). */
void sdpa_forward_rows(const struct sdpa_plan *p, const struct sdpa *o, int b, int h, int first,
                       int last, struct vec y, real *lse, struct vec q, struct vec k, struct vec v);

/* What belongs to one image and head in the backward direction. */
struct sdpa_head_grad {
    struct vec dq; /* data NULL: not wanted */
    bool wants_k, wants_v;
    real *dbias; /* of the head, or NULL */
    int beta_q, beta_bias;
    struct vec q, k, v, y, dy;
    const real *lse;
};

/* Writes dq and dbias, and leaves the gradients of keys and values that are wanted in p->dk and
 * p->dv. */
void sdpa_backward_head(const struct sdpa_plan *p, const struct sdpa *o,
                        const struct sdpa_head_grad *g, int b, int h);

#endif
