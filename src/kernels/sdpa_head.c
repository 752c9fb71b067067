/* sdpa_head.c - attention for one image and head, over tiles of query rows.
 *
 * Forward, per tile: s = scale q k^T + bias, s = exp(s - max), y = s v / sum. Backward, per tile:
 *   w = exp(scale q k^T + bias - lse)    dp = dropout(dy v^T)    ds = scale w (dp - sum y dy)
 *   dq = ds k    dk += ds^T q    dv += dropout(w)^T dy           dbias += ds / scale
 * Weights that are left out because they are small are treated as those that dropout leaves out; a
 * tile without any other needs no products but its scores.
 * A score of minus infinity, between tokens of different regions, has weight and gradient 0.
 * Keys and values are packed once per head; dk and dv are summed in scratch over the tiles. Where
 * all operands are bf16 and the level has bf16 products, s and ds are rounded to bf16 as left
 * operands of a product; sums, maxima and exponentials stay real. */
#include "kernels/sdpa_head.h"

#include <string.h>

/* Scores of a tile: two tiles stay in L2. */
enum { TILE_SCORES = 32768 };

size_t sdpa_plan_make(struct sdpa_plan *p, const struct sdpa *o, real *scratch)
{
    int busy = o->M > 0 ? TILE_SCORES / o->M : o->N;
    busy = busy < SDPA_TILE_ROWS ? SDPA_TILE_ROWS : busy;
    int tiles = o->N > 0 ? (o->N - 1) / busy + 1 : 1;
    p->rows = (o->N + tiles - 1) / tiles;
    p->stride = (ptrdiff_t)product_padded(o->M);

    size_t used = 0, rows = (size_t)p->rows;
    size_t d = product_padded(o->d), e = product_padded(o->e);
    p->q = scratch_take(scratch, &used, rows * d);
    p->y = scratch_take(scratch, &used, rows * e);
    p->dy = scratch_take(scratch, &used, rows * e);
    p->s = scratch_take(scratch, &used, rows * (size_t)p->stride);
    p->dp = scratch_take(scratch, &used, rows * (size_t)p->stride);
    p->row = scratch_take(scratch, &used, rows);
    p->k_columns = scratch_take(scratch, &used, operand_size(o->d, o->M));
    p->k_rows = scratch_take(scratch, &used, operand_size(o->M, o->d));
    p->v_columns = scratch_take(scratch, &used, operand_size(o->e, o->M));
    p->v_rows = scratch_take(scratch, &used, operand_size(o->M, o->e));
    p->q_rows = scratch_take(scratch, &used, operand_size(p->rows, o->d));
    p->dy_rows = scratch_take(scratch, &used, operand_size(p->rows, o->e));
    size_t scores = size_most(bf16_left_size(p->rows, o->M), bf16_left_size(o->M, p->rows));
    size_t tokens = size_most(bf16_left_size(p->rows, o->d), bf16_left_size(p->rows, o->e));
    p->left = (uint16_t *)scratch_take(scratch, &used, size_most(scores, tokens) / 2);
    p->dk = scratch_take(scratch, &used, (size_t)o->M * d);
    p->dv = scratch_take(scratch, &used, (size_t)o->M * e);
    return used;
}

const struct kernels_bf16 *sdpa_bf16(enum type q, enum type k, enum type v, enum type dy)
{
    bool all = q == TYPE_BF16 && k == TYPE_BF16 && v == TYPE_BF16 && dy == TYPE_BF16;
    return all ? kernels_level()->bf16 : NULL;
}

static struct matrix rows_of(struct vec x)
{
    return (struct matrix){x.data, x.type, x.stride, 1};
}

static struct matrix transposed(struct matrix x)
{
    return (struct matrix){x.data, x.type, x.col, x.row};
}

static struct matrix tile_of(const real *s, ptrdiff_t stride)
{
    return (struct matrix){s, TYPE_REAL, stride, 1};
}

/* c = beta c + alpha a b with b packed. */
static void multiply(const struct sdpa_plan *p, real *c, ptrdiff_t stride, int beta, real alpha,
                     struct matrix a, const void *b, int m, int n, int k)
{
    if (p->bf16)
        p->bf16->multiply(c, stride, beta, alpha, p->bf16->left(p->left, a, m, k),
                          operand_right(p->bf16, b, k), m, n, k);
    else
        kernels_level()->product->multiply(c, stride, beta, alpha, a, b, m, n, k);
}

/* x (rows, cols) as a left operand: as real numbers, in `buffer` unless it is, or as bf16. */
static struct matrix as_left(const struct sdpa_plan *p, real *buffer, struct vec x, int rows,
                             int cols)
{
    if (x.type == TYPE_REAL || p->bf16)
        return rows_of(x);
    struct vec to = {buffer, TYPE_REAL, cols};
    kernel_accumulate(to, 0, x, 1, (size_t)rows, (size_t)cols);
    return rows_of(to);
}

static struct tile_dropout tile_dropout(const struct sdpa *o, int b, int h, int row)
{
    return (struct tile_dropout){
        .p = o->dropout,
        .stream = o->stream,
        .step = o->step,
        .sample = o->sample + (uint64_t)b,
        .first = ((uint64_t)h * (uint64_t)o->N + (uint64_t)row) * (uint64_t)o->M,
    };
}

/* The bias of head h, from row i on. */
static const real *bias_at(const struct sdpa *o, int h, int i)
{
    return o->bias ? o->bias + ((size_t)h * (size_t)o->N + (size_t)i) * (size_t)o->M : NULL;
}

/* s = scale q k^T for `rows` rows of q, from row i on; minus infinity between regions. */
static void scores(const struct sdpa_plan *p, const struct sdpa *o, int b, int i, struct vec q,
                   int rows)
{
    multiply(p, p->s, p->stride, 0, (real)o->scale, as_left(p, p->q, q, rows, o->d), p->k_columns,
             rows, o->M, o->d);
    int window = o->region ? b % o->windows : 0;
    if (o->region && o->mixed[window])
        kernels_level()->tile->mask(p->s, p->stride, o->region + (size_t)window * (size_t)o->N, i,
                                    rows, o->M);
}

/* Whether all weights of the tile are left out, so that its products need not be formed. scale: what
 * the rows of p->s are still to be multiplied by, or NULL. */
static bool is_empty(const struct sdpa_plan *p, const struct sdpa *o, const real *scale, int rows)
{
    return o->above > 0 &&
           !kernels_level()->tile->any_above(p->s, p->stride, scale, o->above, rows, o->M);
}

void sdpa_forward_rows(const struct sdpa_plan *p, const struct sdpa *o, int b, int h, int first,
                       int last, struct vec y, real *lse, struct vec q, struct vec k, struct vec v)
{
    const struct kernels_tile *tile = kernels_level()->tile;
    operand_pack(p->bf16, p->k_columns, transposed(rows_of(k)), o->d, o->M);
    operand_pack(p->bf16, p->v_rows, rows_of(v), o->M, o->e);
    for (int i = first; i < last; i += p->rows) {
        int rows = last - i < p->rows ? last - i : p->rows;
        scores(p, o, b, i, vec_at(q, (size_t)i, 0), rows);
        tile->exp_rows(p->s, p->stride, bias_at(o, h, i), p->row, lse + i, rows, o->M);
        if (is_empty(p, o, p->row, rows)) {
            memset(p->y, 0, (size_t)rows * (size_t)o->e * sizeof(real));
            tile->store(vec_at(y, (size_t)i, 0), 0, p->y, o->e, NULL, rows, o->e);
            continue;
        }
        if (o->above > 0)
            tile->keep_above(p->s, p->s, p->stride, p->row, o->above, rows, o->M);
        if (o->dropout > 0) {
            struct tile_dropout drop = tile_dropout(o, b, h, i);
            tile->dropout(p->s, p->stride, &drop, rows, o->M);
        }
        multiply(p, p->y, o->e, 0, 1, tile_of(p->s, p->stride), p->v_rows, rows, o->e, o->M);
        tile->store(vec_at(y, (size_t)i, 0), 0, p->y, o->e, p->row, rows, o->e);
    }
}

/* The gradients of a tile whose weights are all left out: 0. */
static void backward_empty(const struct sdpa_plan *p, const struct sdpa *o,
                           const struct sdpa_head_grad *g, int i, int rows)
{
    size_t M = (size_t)o->M, d = (size_t)o->d, e = (size_t)o->e, n = (size_t)rows;
    if (i == 0) {
        memset(p->dk, 0, M * d * sizeof(real));
        memset(p->dv, 0, M * e * sizeof(real));
    }
    if (g->dbias && !g->beta_bias)
        memset(g->dbias + (size_t)i * M, 0, n * M * sizeof(real));
    if (g->dq.data) {
        memset(p->q, 0, n * d * sizeof(real));
        kernels_level()->tile->store(vec_at(g->dq, (size_t)i, 0), g->beta_q, p->q, o->d, NULL, rows,
                                     o->d);
    }
}

static void backward_tile(const struct sdpa_plan *p, const struct sdpa *o,
                          const struct sdpa_head_grad *g, int b, int h, int i, int rows)
{
    const struct kernels_tile *tile = kernels_level()->tile;
    struct vec q = vec_at(g->q, (size_t)i, 0), dy = vec_at(g->dy, (size_t)i, 0);
    struct tile_dropout drop = tile_dropout(o, b, h, i);
    bool dropped = o->dropout > 0, first = i == 0;

    scores(p, o, b, i, q, rows);
    tile->weights(p->s, p->stride, bias_at(o, h, i), g->lse + i, rows, o->M);
    if (is_empty(p, o, NULL, rows)) {
        backward_empty(p, o, g, i, rows);
        return;
    }
    if (g->dq.data || g->wants_k || g->dbias) {
        multiply(p, p->dp, p->stride, 0, 1, as_left(p, p->dy, dy, rows, o->e), p->v_columns, rows,
                 o->M, o->e);
        if (o->above > 0)
            tile->keep_above(p->dp, p->s, p->stride, NULL, o->above, rows, o->M);
        if (dropped)
            tile->dropout(p->dp, p->stride, &drop, rows, o->M);
        tile->dots(p->row, vec_at(g->y, (size_t)i, 0), dy, rows, o->e);
        tile->score_grad(p->dp, p->s, p->stride, p->row, o->scale,
                         g->dbias ? g->dbias + (ptrdiff_t)i * o->M : NULL, g->beta_bias, rows,
                         o->M);
    }
    if (g->wants_v) {
        if (o->above > 0)
            tile->keep_above(p->s, p->s, p->stride, NULL, o->above, rows, o->M);
        if (dropped)
            tile->dropout(p->s, p->stride, &drop, rows, o->M);
        operand_pack(p->bf16, p->dy_rows, rows_of(dy), rows, o->e);
        multiply(p, p->dv, o->e, !first, 1, transposed(tile_of(p->s, p->stride)), p->dy_rows, o->M,
                 o->e, rows);
    }
    if (g->wants_k) {
        operand_pack(p->bf16, p->q_rows, rows_of(q), rows, o->d);
        multiply(p, p->dk, o->d, !first, 1, transposed(tile_of(p->dp, p->stride)), p->q_rows, o->M,
                 o->d, rows);
    }
    if (g->dq.data) {
        multiply(p, p->q, o->d, 0, 1, tile_of(p->dp, p->stride), p->k_rows, rows, o->d, o->M);
        tile->store(vec_at(g->dq, (size_t)i, 0), g->beta_q, p->q, o->d, NULL, rows, o->d);
    }
}

void sdpa_backward_head(const struct sdpa_plan *p, const struct sdpa *o,
                        const struct sdpa_head_grad *g, int b, int h)
{
    operand_pack(p->bf16, p->k_columns, transposed(rows_of(g->k)), o->d, o->M);
    operand_pack(p->bf16, p->k_rows, rows_of(g->k), o->M, o->d);
    operand_pack(p->bf16, p->v_columns, transposed(rows_of(g->v)), o->e, o->M);
    for (int i = 0; i < o->N; i += p->rows)
        backward_tile(p, o, g, b, h, i, o->N - i < p->rows ? o->N - i : p->rows);
}
