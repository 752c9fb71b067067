/* linear_order.c - linear attention through the sums over its keys: linear in tokens.
 *
 *   s = f^T v,  z = f^T 1,  n = a z,  y = a s / den(n)
 *   g = dp s^T,  dy . y = a . g,  da = g + dn z^T,  [ds, dz] = a^T [dp, dn]
 *   df = v ds^T + 1 dz^T,  dv = f ds
 *
 * dy . y comes from g and not from y, which may be rounded: where weights are nearly equal, little
 * is left of g after the sum. The gradient of s is kept transposed: then no product has a lone last
 * column, which would cost as much as a vector of them. */
#include <string.h>

#include "kernels/linear_head.h"

/* Tokens at a time, so that their features stay in L2: fewer where there are many, but enough to
 * keep a product busy. */
enum { TILE_FEATURES = 65536, MOST_ROWS = 128, LEAST_ROWS = 32 };

/* The pieces of the scratch. */
struct plan {
    int rows;           /* of a tile */
    real *panels;       /* a tile of v or a, packed: (rows, e) or (rows, D) */
    real *tile;         /* y not yet divided, [dp, dn], or dv: (rows, width) */
    real *features;     /* those of a or f: (rows, D) */
    real *grads;        /* their gradient: (rows, D) */
    real *v;            /* a tile of v that is not real: (rows, e) */
    real *row;          /* (2 rows) */
    real *z;            /* (D) */
    real *z_panels;     /* z^T packed: (1, D) */
    real *state_panels; /* s, or s^T, packed: (D, e), (e, D) */
    real *dstate;       /* [ds, dz]^T: (width, D) */
    real *df_panels;    /* ds^T packed: (e, D) */
    real *dv_panels;    /* ds packed: (D, e) */
};

/* Divides the scratch (NULL: only counts). Returns the number of reals. */
static size_t make_plan(struct plan *p, const struct linear_attention *o, real *scratch)
{
    int D = o->D, e = o->e, width = linear_width(o), fit = TILE_FEATURES / D;
    p->rows = fit < LEAST_ROWS ? LEAST_ROWS : fit < MOST_ROWS ? fit : MOST_ROWS;
    size_t used = 0, rows = (size_t)p->rows;
    p->panels = scratch_take(scratch, &used,
                             size_most(product_packed(p->rows, e), product_packed(p->rows, D)));
    p->tile = scratch_take(scratch, &used, rows * (size_t)width);
    p->features = scratch_take(scratch, &used, o->basis ? rows * (size_t)D : 0);
    p->grads = scratch_take(scratch, &used, rows * (size_t)D);
    p->v = scratch_take(scratch, &used, rows * (size_t)e);
    p->row = scratch_take(scratch, &used, 2 * rows);
    p->z = scratch_take(scratch, &used, (size_t)D);
    p->state_panels =
        scratch_take(scratch, &used, size_most(product_packed(D, e), product_packed(e, D)));
    p->z_panels = scratch_take(scratch, &used, product_packed(1, D));
    p->dstate = scratch_take(scratch, &used, (size_t)width * (size_t)D);
    p->df_panels = scratch_take(scratch, &used, product_packed(e, D));
    p->dv_panels = scratch_take(scratch, &used, product_packed(D, e));
    return used;
}

size_t linear_order_scratch(const struct linear_attention *o)
{
    struct plan p;
    return make_plan(&p, o, NULL);
}

static int tile_rows(const struct plan *p, int i, int n)
{
    return n - i < p->rows ? n - i : p->rows;
}

/* Features of the rows i.. of a or f. */
static struct vec features(const struct plan *p, const struct linear_head *h, struct vec x, int i,
                           int rows)
{
    struct vec from = vec_at(x, (size_t)i, 0), to = {p->features, TYPE_REAL, h->o->D};
    if (!h->o->basis)
        return from;
    linear_expand(to, h->o, from, rows);
    return to;
}

/* The state: sums over the keys. */
static void sum_keys(const struct plan *p, const struct linear_head *h)
{
    const struct kernels_level *level = kernels_level();
    int D = h->o->D, e = h->o->e, width = linear_width(h->o);
    memset(p->z, 0, (size_t)D * sizeof *p->z);
    for (int j = 0; j < h->M; j += p->rows) {
        int rows = tile_rows(p, j, h->M);
        struct vec f = features(p, h, h->f, j, rows);
        level->product->pack(p->panels, linear_rows(vec_at(h->v, (size_t)j, 0)), rows, e);
        level->product->multiply(h->state, width, j > 0, 1, linear_transposed(f), p->panels, D, e,
                                 rows);
        if (width > e)
            level->columns->column_sums(p->z, f, (size_t)rows, (size_t)D);
    }
    for (int c = 0; c < D && width > e; c++)
        h->state[c * width + e] = p->z[c];
}

void linear_order(const struct linear_head *h, real *scratch)
{
    const struct kernels_level *level = kernels_level();
    const struct linear_attention *o = h->o;
    struct plan p;
    make_plan(&p, o, scratch);
    sum_keys(&p, h);
    bool normalised = linear_is_normalised(o);
    const struct vec state = {h->state, TYPE_REAL, linear_width(o)}, z = {p.z, TYPE_REAL, 0};
    level->product->pack(p.state_panels, linear_rows(state), o->D, o->e);
    for (int i = 0; i < h->N; i += p.rows) {
        int rows = tile_rows(&p, i, h->N);
        struct vec a = features(&p, h, h->a, i, rows);
        if (normalised) {
            level->tile->dots(h->n + i, a, z, rows, o->D);
            linear_inverse(p.row, h, h->n + i, rows);
        }
        level->product->multiply(p.tile, o->e, 0, linear_factor(h), linear_rows(a), p.state_panels,
                                 rows, o->e, o->D);
        level->tile->store(vec_at(h->y, (size_t)i, 0), 0, p.tile, o->e, normalised ? p.row : NULL,
                           rows, o->e);
    }
}

/* The gradient of the features of the rows i.. of a, in p->grads; [dp, dn] in p->tile. */
static void grad_of_features(const struct plan *p, const struct linear_head *h, struct vec a, int i,
                             int rows)
{
    const struct kernels_level *level = kernels_level();
    int D = h->o->D, e = h->o->e, width = linear_width(h->o);
    const struct vec g = {p->grads, TYPE_REAL, D};
    const struct matrix dn = {p->tile + e, TYPE_REAL, width, 1};
    linear_row_grads(p->tile, p->row, h, i, rows);
    level->product->multiply(p->grads, D, 0, 1, (struct matrix){p->tile, TYPE_REAL, width, 1},
                             p->state_panels, rows, D, e);
    if (width > e) {
        level->tile->dots(p->row + rows, a, g, rows, D);
        linear_den_grads(p->tile, p->row, p->row + rows, h, i, rows);
        level->product->multiply(p->grads, D, 1, 1, dn, p->z_panels, rows, D, 1);
    }
}

/* Takes g, the gradient of features, on to dx, that of the rows i.. of x. */
static void features_grad(const struct linear_head *h, struct vec dx, int beta, struct vec x,
                          struct vec g, int i, int rows)
{
    struct vec to = vec_at(dx, (size_t)i, 0), from = vec_at(x, (size_t)i, 0);
    if (h->o->basis)
        linear_expand_grad(to, beta, h->o, from, g, rows);
    else
        kernels_level()->elementwise->accumulate(to, beta, g, 1, (size_t)rows, (size_t)h->o->D);
}

/* da, and the gradient of the state. */
static void grad_of_queries(const struct plan *p, const struct linear_head *h)
{
    const struct kernels_product *product = kernels_level()->product;
    int D = h->o->D, e = h->o->e, width = linear_width(h->o);
    bool keys = h->df.data || h->dv.data;
    const struct vec state = {h->state, TYPE_REAL, width}, tile = {p->tile, TYPE_REAL, width};
    const struct vec g = {p->grads, TYPE_REAL, D};
    product->pack(p->state_panels, linear_transposed(state), e, D);
    if (width > e)
        product->pack(p->z_panels, (struct matrix){h->state + e, TYPE_REAL, 1, width}, 1, D);
    for (int i = 0; i < h->N; i += p->rows) {
        int rows = tile_rows(p, i, h->N);
        struct vec a = features(p, h, h->a, i, rows);
        grad_of_features(p, h, a, i, rows);
        if (h->da.data)
            features_grad(h, h->da, h->beta_a, h->a, g, i, rows);
        if (keys) {
            product->pack(p->panels, linear_rows(a), rows, D);
            product->multiply(p->dstate, D, i > 0, 1, linear_transposed(tile), p->panels, width, D,
                              rows);
        }
    }
}

/* Rows of v as real numbers. */
static struct vec real_values(const struct plan *p, const struct linear_head *h, int j, int rows)
{
    struct vec v = vec_at(h->v, (size_t)j, 0), to = {p->v, TYPE_REAL, h->o->e};
    if (v.type == TYPE_REAL)
        return v;
    kernels_level()->elementwise->accumulate(to, 0, v, 1, (size_t)rows, (size_t)h->o->e);
    return to;
}

/* df and dv. */
static void grad_of_keys(const struct plan *p, const struct linear_head *h)
{
    const struct kernels_level *level = kernels_level();
    int D = h->o->D, e = h->o->e;
    bool normalised = linear_is_normalised(h->o);
    const struct vec ds = {p->dstate, TYPE_REAL, D}, g = {p->grads, TYPE_REAL, D};
    const struct vec dz = {p->dstate + (ptrdiff_t)e * D, TYPE_REAL, 0};
    level->product->pack(p->df_panels, linear_rows(ds), e, D);
    level->product->pack(p->dv_panels, linear_transposed(ds), D, e);
    for (int j = 0; j < h->M; j += p->rows) {
        int rows = tile_rows(p, j, h->M);
        if (h->dv.data)
            level->product->multiply(p->tile, e, 0, 1, linear_rows(features(p, h, h->f, j, rows)),
                                     p->dv_panels, rows, e, D);
        if (h->df.data) {
            if (normalised)
                level->elementwise->accumulate(g, 0, dz, 1, (size_t)rows, (size_t)D);
            level->product->multiply(p->grads, D, normalised, 1,
                                     linear_rows(real_values(p, h, j, rows)), p->df_panels, rows, D,
                                     e);
            features_grad(h, h->df, h->beta_f, h->f, g, j, rows);
        }
        if (h->dv.data)
            level->tile->store(vec_at(h->dv, (size_t)j, 0), h->beta_v, p->tile, e, NULL, rows, e);
    }
}

void linear_order_grad(const struct linear_head *h, real *scratch)
{
    struct plan p;
    make_plan(&p, h->o, scratch);
    if (!h->state_is_known)
        sum_keys(&p, h);
    grad_of_queries(&p, h);
    if (h->df.data || h->dv.data)
        grad_of_keys(&p, h);
}
