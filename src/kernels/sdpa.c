/* sdpa.c - attention for one image and head at a time, over tiles of query rows.
 *
 * Forward, per tile: s = scale q k^T, s = exp(s - max), y = s v / sum. Backward, per tile:
 *   w = exp(scale q k^T - lse)    dp = dropout(dy v^T)      ds = scale w (dp - sum y dy)
 *   dq = ds k                     dk += ds^T q              dv += dropout(w)^T dy
 * Keys and values are packed once per head; dk and dv are summed in scratch over the tiles. */
#include "kernels/level.h"

/* Scores of a tile: two tiles stay in L2. A tile has at least as many rows as keep a product busy.
 */
enum { TILE_SCORES = 32768, TILE_ROWS = 24 };

/* Sizes that follow from the shape alone, and the pieces of the scratch. */
struct plan {
    int rows;         /* of a tile */
    ptrdiff_t stride; /* of a tile */
    real *q, *y,
        *dy;         /* (rows, d), (rows, e), (rows, e): bf16 as real, or a result not yet scaled */
    real *s, *dp;    /* (rows, M) */
    real *row;       /* (rows): 1 / sum, or sum y dy */
    real *k_columns; /* k^T packed: (d, M) */
    real *k_rows;    /* k packed: (M, d) */
    real *v_columns; /* v^T packed: (e, M) */
    real *v_rows;    /* v packed: (M, e) */
    real *q_rows;    /* q of the tile, packed: (rows, d) */
    real *dy_rows;   /* dy of the tile, packed: (rows, e) */
    real *dk, *dv;   /* (M, d), (M, e) */
};

/* The next n reals of the scratch, from a new cache line on. */
static real *take(real *scratch, size_t *used, size_t n)
{
    real *here = scratch ? scratch + *used : NULL;
    *used += (n + 15) / 16 * 16;
    return here;
}

/* Divides the scratch (NULL: only counts). Returns the number of reals. */
static size_t make_plan(struct plan *p, const struct sdpa *o, real *scratch)
{
    int most = o->M > 0 ? TILE_SCORES / o->M : o->N;
    most = most < TILE_ROWS ? TILE_ROWS : most;
    int tiles = o->N > 0 ? (o->N - 1) / most + 1 : 1;
    p->rows = (o->N + tiles - 1) / tiles;
    p->stride = (ptrdiff_t)product_padded(o->M);

    size_t used = 0, rows = (size_t)p->rows;
    size_t d = product_padded(o->d), e = product_padded(o->e);
    p->q = take(scratch, &used, rows * d);
    p->y = take(scratch, &used, rows * e);
    p->dy = take(scratch, &used, rows * e);
    p->s = take(scratch, &used, rows * (size_t)p->stride);
    p->dp = take(scratch, &used, rows * (size_t)p->stride);
    p->row = take(scratch, &used, rows);
    p->k_columns = take(scratch, &used, product_packed(o->d, o->M));
    p->k_rows = take(scratch, &used, product_packed(o->M, o->d));
    p->v_columns = take(scratch, &used, product_packed(o->e, o->M));
    p->v_rows = take(scratch, &used, product_packed(o->M, o->e));
    p->q_rows = take(scratch, &used, product_packed(p->rows, o->d));
    p->dy_rows = take(scratch, &used, product_packed(p->rows, o->e));
    p->dk = take(scratch, &used, (size_t)o->M * d);
    p->dv = take(scratch, &used, (size_t)o->M * e);
    return used;
}

size_t kernel_sdpa_scratch(const struct sdpa *s)
{
    struct plan p;
    return make_plan(&p, s, NULL) + 16;
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

/* x (rows, cols) as real numbers, in `buffer` unless it is. */
static struct matrix as_real(real *buffer, struct vec x, int rows, int cols)
{
    if (x.type == TYPE_REAL)
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

/* s = scale q k^T for `rows` rows of q. */
static void scores(const struct plan *p, const struct sdpa *o, struct vec q, int rows)
{
    kernels_level()->product->multiply(p->s, p->stride, 0, (real)o->scale,
                                       as_real(p->q, q, rows, o->d), p->k_columns, rows, o->M,
                                       o->d);
}

static void forward_head(const struct plan *p, const struct sdpa *o, int b, int h, struct vec y,
                         real *lse, struct vec q, struct vec k, struct vec v)
{
    const struct kernels_product *product = kernels_level()->product;
    const struct kernels_tile *tile = kernels_level()->tile;
    product->pack(p->k_columns, transposed(rows_of(k)), o->d, o->M);
    product->pack(p->v_rows, rows_of(v), o->M, o->e);
    for (int i = 0; i < o->N; i += p->rows) {
        int rows = o->N - i < p->rows ? o->N - i : p->rows;
        scores(p, o, vec_at(q, (size_t)i, 0), rows);
        tile->exp_rows(p->s, p->stride, p->row, lse + i, rows, o->M);
        if (o->dropout > 0) {
            struct tile_dropout drop = tile_dropout(o, b, h, i);
            tile->dropout(p->s, p->stride, &drop, rows, o->M);
        }
        product->multiply(p->y, o->e, 0, 1, tile_of(p->s, p->stride), p->v_rows, rows, o->e, o->M);
        tile->store(vec_at(y, (size_t)i, 0), 0, p->y, o->e, p->row, rows, o->e);
    }
}

void kernel_sdpa(struct heads y, real *lse, struct heads q, struct heads k, struct heads v,
                 const struct sdpa *s, real *scratch)
{
    struct plan p;
    make_plan(&p, s, scratch);
    for (int b = 0; b < s->B; b++)
        for (int h = 0; h < s->H; h++)
            forward_head(&p, s, b, h, heads_at(y, b, h),
                         lse + ((size_t)b * (size_t)s->H + (size_t)h) * (size_t)s->N,
                         heads_at(q, b, h), heads_at(k, b, h), heads_at(v, b, h));
}

/* What belongs to one image and head in the backward direction; data is NULL where not wanted. */
struct head_grad {
    struct vec dq, dk, dv;
    int beta_q, beta_k, beta_v;
    struct vec q, k, v, y, dy;
    const real *lse;
};

static void backward_tile(const struct plan *p, const struct sdpa *o, const struct head_grad *g,
                          int b, int h, int i, int rows)
{
    const struct kernels_product *product = kernels_level()->product;
    const struct kernels_tile *tile = kernels_level()->tile;
    struct vec q = vec_at(g->q, (size_t)i, 0), dy = vec_at(g->dy, (size_t)i, 0);
    struct tile_dropout drop = tile_dropout(o, b, h, i);
    bool dropped = o->dropout > 0, first = i == 0;

    scores(p, o, q, rows);
    tile->weights(p->s, p->stride, g->lse + i, rows, o->M);
    if (g->dq.data || g->dk.data) {
        product->multiply(p->dp, p->stride, 0, 1, as_real(p->dy, dy, rows, o->e), p->v_columns,
                          rows, o->M, o->e);
        if (dropped)
            tile->dropout(p->dp, p->stride, &drop, rows, o->M);
        tile->dots(p->row, vec_at(g->y, (size_t)i, 0), dy, rows, o->e);
        tile->score_grad(p->dp, p->s, p->stride, p->row, o->scale, rows, o->M);
    }
    if (g->dv.data) {
        if (dropped)
            tile->dropout(p->s, p->stride, &drop, rows, o->M);
        product->pack(p->dy_rows, rows_of(dy), rows, o->e);
        product->multiply(p->dv, o->e, !first, 1, transposed(tile_of(p->s, p->stride)), p->dy_rows,
                          o->M, o->e, rows);
    }
    if (g->dk.data) {
        product->pack(p->q_rows, rows_of(q), rows, o->d);
        product->multiply(p->dk, o->d, !first, 1, transposed(tile_of(p->dp, p->stride)), p->q_rows,
                          o->M, o->d, rows);
    }
    if (g->dq.data) {
        product->multiply(p->q, o->d, 0, 1, tile_of(p->dp, p->stride), p->k_rows, rows, o->d, o->M);
        tile->store(vec_at(g->dq, (size_t)i, 0), g->beta_q, p->q, o->d, NULL, rows, o->d);
    }
}

static void backward_head(const struct plan *p, const struct sdpa *o, const struct head_grad *g,
                          int b, int h)
{
    const struct kernels_product *product = kernels_level()->product;
    const struct kernels_tile *tile = kernels_level()->tile;
    product->pack(p->k_columns, transposed(rows_of(g->k)), o->d, o->M);
    product->pack(p->k_rows, rows_of(g->k), o->M, o->d);
    product->pack(p->v_columns, transposed(rows_of(g->v)), o->e, o->M);
    for (int i = 0; i < o->N; i += p->rows)
        backward_tile(p, o, g, b, h, i, o->N - i < p->rows ? o->N - i : p->rows);
    if (g->dk.data)
        tile->store(g->dk, g->beta_k, p->dk, o->d, NULL, o->M, o->d);
    if (g->dv.data)
        tile->store(g->dv, g->beta_v, p->dv, o->e, NULL, o->M, o->e);
}

static struct vec wanted_at(struct heads x, int b, int h)
{
    return x.data ? heads_at(x, b, h) : (struct vec){.data = NULL};
}

void kernel_sdpa_grad(struct heads dq, int beta_q, struct heads dk, int beta_k, struct heads dv,
                      int beta_v, struct heads q, struct heads k, struct heads v, struct heads y,
                      struct heads dy, const real *lse, const struct sdpa *s, real *scratch)
{
    struct plan p;
    make_plan(&p, s, scratch);
    for (int b = 0; b < s->B; b++) {
        for (int h = 0; h < s->H; h++) {
            struct head_grad g = {
                .dq = wanted_at(dq, b, h),
                .dk = wanted_at(dk, b, h),
                .dv = wanted_at(dv, b, h),
                .beta_q = beta_q,
                .beta_k = beta_k,
                .beta_v = beta_v,
                .q = heads_at(q, b, h),
                .k = heads_at(k, b, h),
                .v = heads_at(v, b, h),
                .y = heads_at(y, b, h),
                .dy = heads_at(dy, b, h),
                .lse = lse + ((size_t)b * (size_t)s->H + (size_t)h) * (size_t)s->N,
            };
            backward_head(&p, s, &g, b, h);
        }
    }
}
