/* quadratic_order.c - linear attention through the weights of its tokens, over tiles of query rows:
 * what is cheaper for few tokens and many features.
 *
 *   s = a f^T,  t = c0 + c1 s + c2 s^2 with a basis, else s,  n = t 1,  y = t v / den(n)
 *   g = dp v^T,  dy . y = sum over keys of t g,  dt = g + dn 1^T,  ds = dt (c1 + 2 c2 s)
 *   da = ds f,  df = ds^T a,  dv = t^T dp
 *
 * Keys and values are packed once; df and dv are summed in scratch over the tiles. */
#include "kernels/linear_head.h"

/* Weights of a tile: two tiles stay in L2. A tile has at least as many rows as keep a product busy.
 */
enum { TILE_WEIGHTS = 32768, TILE_ROWS = 24 };

/* Sizes that follow from the shape alone, and the pieces of the scratch. */
struct plan {
    int rows; /* of a tile */
    ptrdiff_t stride;
    real *s, *t, *dt; /* s is t without a basis; dt, then ds: (rows, M) */
    real *tile;       /* y not yet divided, or [dp, dn]: (rows, width) */
    real *row;        /* (2 rows) */
    real *ones;       /* (M) */
    real *f_columns;  /* f^T packed: (d, M) */
    real *f_rows;     /* f packed: (M, d) */
    real *v_columns;  /* v^T packed: (e, M) */
    real *v_rows;     /* v packed: (M, e) */
    real *a_rows;     /* a of the tile, packed: (rows, d) */
    real *dp_rows;    /* dp packed: (rows, e) */
    real *df, *dv;    /* (M, d), (M, e) */
};

/* Divides the scratch (NULL: only counts). Returns the number of reals. */
static size_t make_plan(struct plan *p, const struct linear_attention *o, real *scratch)
{
    int busy = TILE_WEIGHTS / o->M;
    busy = busy < TILE_ROWS ? TILE_ROWS : busy;
    int tiles = (o->N - 1) / busy + 1;
    p->rows = (o->N + tiles - 1) / tiles;
    p->stride = (ptrdiff_t)product_padded(o->M);

    size_t used = 0, rows = (size_t)p->rows, M = (size_t)o->M;
    p->t = scratch_take(scratch, &used, rows * (size_t)p->stride);
    p->s = p->t;
    if (o->basis)
        p->s = scratch_take(scratch, &used, rows * (size_t)p->stride);
    p->dt = scratch_take(scratch, &used, rows * (size_t)p->stride);
    p->tile = scratch_take(scratch, &used, rows * (size_t)linear_width(o));
    p->row = scratch_take(scratch, &used, 2 * rows);
    p->ones = scratch_take(scratch, &used, M);
    p->f_columns = scratch_take(scratch, &used, product_packed(o->d, o->M));
    p->f_rows = scratch_take(scratch, &used, product_packed(o->M, o->d));
    p->v_columns = scratch_take(scratch, &used, product_packed(o->e, o->M));
    p->v_rows = scratch_take(scratch, &used, product_packed(o->M, o->e));
    p->a_rows = scratch_take(scratch, &used, product_packed(p->rows, o->d));
    p->dp_rows = scratch_take(scratch, &used, product_packed(p->rows, o->e));
    p->df = scratch_take(scratch, &used, M * (size_t)o->d);
    p->dv = scratch_take(scratch, &used, M * (size_t)o->e);
    return used;
}

size_t quadratic_order_scratch(const struct linear_attention *o)
{
    struct plan p;
    return make_plan(&p, o, NULL);
}

static struct vec tile_of(const struct plan *p, real *t)
{
    return (struct vec){t, TYPE_REAL, p->stride};
}

static int tile_rows(const struct plan *p, int i, int N)
{
    return N - i < p->rows ? N - i : p->rows;
}

/* s and t for the rows i.. */
static void weights(const struct plan *p, const struct linear_head *h, int i, int rows)
{
    const struct linear_attention *o = h->o;
    real c0 = (real)o->c[0], c1 = (real)o->c[1], c2 = (real)o->c[2];
    kernels_level()->product->multiply(p->s, p->stride, 0, 1,
                                       linear_rows(vec_at(h->a, (size_t)i, 0)), p->f_columns, rows,
                                       h->M, o->d);
    for (int r = 0; r < rows && o->basis; r++) {
        const real *s = p->s + r * p->stride;
        real *t = p->t + r * p->stride;
#pragma omp simd
        for (int j = 0; j < h->M; j++)
            t[j] = c0 + s[j] * (c1 + c2 * s[j]);
    }
}

/* ds from dp v^T, in place, and dn. */
static void weights_grad(const struct plan *p, const struct linear_head *h, int i, int rows)
{
    const struct linear_attention *o = h->o;
    int e = o->e, width = linear_width(o);
    real c1 = (real)o->c[1], c2 = (real)(2 * o->c[2]);
    if (width > e) {
        kernels_level()->tile->dots(p->row + rows, tile_of(p, p->t), tile_of(p, p->dt), rows, h->M);
        linear_den_grads(p->tile, p->row, p->row + rows, h, i, rows);
    }
    for (int r = 0; r < rows && width > e; r++) {
        real dn = p->tile[r * width + e], *dt = p->dt + r * p->stride;
#pragma omp simd
        for (int j = 0; j < h->M; j++)
            dt[j] += dn;
    }
    for (int r = 0; r < rows && o->basis; r++) {
        const real *s = p->s + r * p->stride;
        real *dt = p->dt + r * p->stride;
#pragma omp simd
        for (int j = 0; j < h->M; j++)
            dt[j] *= c1 + c2 * s[j];
    }
}

void quadratic_order(const struct linear_head *h, real *scratch)
{
    const struct kernels_level *level = kernels_level();
    int d = h->o->d, e = h->o->e;
    struct plan p;
    make_plan(&p, h->o, scratch);
    bool normalised = linear_is_normalised(h->o);
    const struct vec ones = {p.ones, TYPE_REAL, 0};
    for (int j = 0; j < h->M; j++)
        p.ones[j] = 1;
    level->product->pack(p.f_columns, linear_transposed(h->f), d, h->M);
    level->product->pack(p.v_rows, linear_rows(h->v), h->M, e);
    for (int i = 0; i < h->N; i += p.rows) {
        int rows = tile_rows(&p, i, h->N);
        struct vec t = tile_of(&p, p.t);
        weights(&p, h, i, rows);
        if (normalised) {
            level->tile->dots(h->n + i, t, ones, rows, h->M);
            linear_inverse(p.row, h, h->n + i, rows);
        }
        level->product->multiply(p.tile, e, 0, linear_factor(h), linear_rows(t), p.v_rows, rows, e,
                                 h->M);
        level->tile->store(vec_at(h->y, (size_t)i, 0), 0, p.tile, e, normalised ? p.row : NULL,
                           rows, e);
    }
}

static void grad_of_tile(const struct plan *p, const struct linear_head *h, int i, int rows)
{
    const struct kernels_product *product = kernels_level()->product;
    int d = h->o->d, e = h->o->e, width = linear_width(h->o);
    struct vec a = vec_at(h->a, (size_t)i, 0), dp = {p->tile, TYPE_REAL, width};
    struct vec dt = tile_of(p, p->dt);
    linear_row_grads(p->tile, p->row, h, i, rows);
    weights(p, h, i, rows);
    if (h->da.data || h->df.data) {
        product->multiply(p->dt, p->stride, 0, 1, linear_rows(dp), p->v_columns, rows, h->M, e);
        weights_grad(p, h, i, rows);
    }
    if (h->da.data) {
        struct vec da = vec_at(h->da, (size_t)i, 0);
        product->multiply(da.data, da.stride, h->beta_a, 1, linear_rows(dt), p->f_rows, rows, d,
                          h->M);
    }
    if (h->df.data) {
        product->pack(p->a_rows, linear_rows(a), rows, d);
        product->multiply(p->df, d, i > 0, 1, linear_transposed(dt), p->a_rows, h->M, d, rows);
    }
    if (h->dv.data) {
        product->pack(p->dp_rows, linear_rows(dp), rows, e);
        product->multiply(p->dv, e, i > 0, 1, linear_transposed(tile_of(p, p->t)), p->dp_rows, h->M,
                          e, rows);
    }
}

void quadratic_order_grad(const struct linear_head *h, real *scratch)
{
    const struct kernels_level *level = kernels_level();
    int d = h->o->d, e = h->o->e;
    struct plan p;
    make_plan(&p, h->o, scratch);
    level->product->pack(p.f_columns, linear_transposed(h->f), d, h->M);
    level->product->pack(p.f_rows, linear_rows(h->f), h->M, d);
    level->product->pack(p.v_columns, linear_transposed(h->v), e, h->M);
    for (int i = 0; i < h->N; i += p.rows)
        grad_of_tile(&p, h, i, tile_rows(&p, i, h->N));
    if (h->df.data)
        level->tile->store(h->df, h->beta_f, p.df, d, NULL, h->M, d);
    if (h->dv.data)
        level->tile->store(h->dv, h->beta_v, p.dv, e, NULL, h->M, e);
}
