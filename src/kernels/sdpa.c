/* sdpa.c - attention for one image and head at a time, over tiles of query rows.
 *
 * Forward, per tile: s = scale q k^T + bias, s = exp(s - max), y = s v / sum. Backward, per tile:
 *   w = exp(scale q k^T + bias - lse)    dp = dropout(dy v^T)    ds = scale w (dp - sum y dy)
 *   dq = ds k    dk += ds^T q    dv += dropout(w)^T dy           dbias += ds / scale
 * A score of minus infinity, between tokens of different regions, has weight and gradient 0.
 * Keys and values are packed once per head; dk and dv are summed in scratch over the tiles. Where
 * all operands are bf16 and the level has bf16 products, s and ds are rounded to bf16 as left
 * operands of a product; sums, maxima and exponentials stay real. */
#include <stdbool.h>

#include "kernels/operand.h"
#include "kernels/team.h"

/* Scores of a tile: two tiles stay in L2. A tile has at least as many rows as keep a product busy.
 */
enum { TILE_SCORES = 32768, TILE_ROWS = 24 };

/* Sizes that follow from the shape alone, and the pieces of the scratch. */
struct plan {
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

/* Divides the scratch (NULL: only counts). Returns the number of reals. */
static size_t make_plan(struct plan *p, const struct sdpa *o, real *scratch)
{
    int busy = o->M > 0 ? TILE_SCORES / o->M : o->N;
    busy = busy < TILE_ROWS ? TILE_ROWS : busy;
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

/* Reals for one thread: its own cache lines. */
static size_t scratch_of_one(const struct sdpa *s)
{
    struct plan p;
    return make_plan(&p, s, NULL) + SCRATCH_LINE;
}

size_t kernel_sdpa_scratch(const struct sdpa *s)
{
    return scratch_of_one(s) * (size_t)(s->team > 1 ? s->team : 1);
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
static void multiply(const struct plan *p, real *c, ptrdiff_t stride, int beta, real alpha,
                     struct matrix a, const void *b, int m, int n, int k)
{
    if (p->bf16)
        p->bf16->multiply(c, stride, beta, alpha, p->bf16->left(p->left, a, m, k),
                          operand_right(p->bf16, b, k), m, n, k);
    else
        kernels_level()->product->multiply(c, stride, beta, alpha, a, b, m, n, k);
}

/* x (rows, cols) as a left operand: as real numbers, in `buffer` unless it is, or as bf16. */
static struct matrix as_left(const struct plan *p, real *buffer, struct vec x, int rows, int cols)
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
static void scores(const struct plan *p, const struct sdpa *o, int b, int i, struct vec q, int rows)
{
    multiply(p, p->s, p->stride, 0, (real)o->scale, as_left(p, p->q, q, rows, o->d), p->k_columns,
             rows, o->M, o->d);
    int window = o->region ? b % o->windows : 0;
    if (o->region && o->mixed[window])
        kernels_level()->tile->mask(p->s, p->stride, o->region + (size_t)window * (size_t)o->N, i,
                                    rows, o->M);
}

/* Rows `first` to `last` - 1 of q. */
static void forward_rows(const struct plan *p, const struct sdpa *o, int b, int h, int first,
                         int last, struct vec y, real *lse, struct vec q, struct vec k,
                         struct vec v)
{
    const struct kernels_tile *tile = kernels_level()->tile;
    operand_pack(p->bf16, p->k_columns, transposed(rows_of(k)), o->d, o->M);
    operand_pack(p->bf16, p->v_rows, rows_of(v), o->M, o->e);
    for (int i = first; i < last; i += p->rows) {
        int rows = last - i < p->rows ? last - i : p->rows;
        scores(p, o, b, i, vec_at(q, (size_t)i, 0), rows);
        tile->exp_rows(p->s, p->stride, bias_at(o, h, i), p->row, lse + i, rows, o->M);
        if (o->dropout > 0) {
            struct tile_dropout drop = tile_dropout(o, b, h, i);
            tile->dropout(p->s, p->stride, &drop, rows, o->M);
        }
        multiply(p, p->y, o->e, 0, 1, tile_of(p->s, p->stride), p->v_rows, rows, o->e, o->M);
        tile->store(vec_at(y, (size_t)i, 0), 0, p->y, o->e, p->row, rows, o->e);
    }
}

/* The bf16 products of the level, if all operands are bf16. */
static const struct kernels_bf16 *bf16_of(struct heads q, struct heads k, struct heads v,
                                          struct heads dy)
{
    bool all =
        q.type == TYPE_BF16 && k.type == TYPE_BF16 && v.type == TYPE_BF16 && dy.type == TYPE_BF16;
    return all ? kernels_level()->bf16 : NULL;
}

/* One call, forward or backward; data is NULL where a gradient is not wanted. */
struct call {
    const struct sdpa *s;
    const struct kernels_bf16 *bf16;
    real *scratch;
    int groups; /* of query rows, forward */
    struct heads y, q, k, v, dy, dq, dk, dv;
    real *out_lse;
    const real *lse;
    real *dbias;
    int beta_q, beta_k, beta_v, beta_bias;
};

/* The plan in the scratch of one member. */
static struct plan plan_of(const struct call *o, int member)
{
    struct plan p;
    size_t skipped = (size_t)member * scratch_of_one(o->s);
    make_plan(&p, o->s, o->scratch ? scratch_aligned(o->scratch) + skipped : NULL);
    p.bf16 = o->bf16;
    return p;
}

/* Of the team, as far as there is scratch for all of it. */
static int threads_for(const struct sdpa *s)
{
    int threads = team_threads();
    return threads <= s->team ? threads : 1;
}

static void share(team_part *part, const struct call *o, int parts)
{
    if (threads_for(o->s) > 1) {
        team_run(part, o, parts);
        return;
    }
    for (int i = 0; i < parts; i++)
        part(o, i, 0);
}

static size_t lse_at(const struct sdpa *s, int b, int h)
{
    return ((size_t)b * (size_t)s->H + (size_t)h) * (size_t)s->N;
}

static void forward_part(const void *job, int part, int member)
{
    const struct call *o = job;
    const struct sdpa *s = o->s;
    struct plan p = plan_of(o, member);
    int group = part % o->groups, head = part / o->groups, b = head / s->H, h = head % s->H;
    int first = (int)((long long)s->N * group / o->groups);
    int last = (int)((long long)s->N * (group + 1) / o->groups);
    forward_rows(&p, s, b, h, first, last, heads_at(o->y, b, h), o->out_lse + lse_at(s, b, h),
                 heads_at(o->q, b, h), heads_at(o->k, b, h), heads_at(o->v, b, h));
}

/* As many that all threads get the same number of parts; each packs its keys and values anew. What
 * a row gives does not depend on it. */
static int row_groups(const struct sdpa *s)
{
    int threads = threads_for(s), a = threads, b = s->B * s->H;
    while (b) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    int groups = a ? threads / a : 1, most = s->N / TILE_ROWS;
    groups = groups < most ? groups : most;
    return groups > 1 ? groups : 1;
}

void kernel_sdpa(struct heads y, real *lse, struct heads q, struct heads k, struct heads v,
                 const struct sdpa *s, real *scratch)
{
    struct call o = {
        .s = s,
        .bf16 = bf16_of(q, k, v, v),
        .scratch = scratch,
        .groups = row_groups(s),
        .y = y,
        .q = q,
        .k = k,
        .v = v,
        .out_lse = lse,
    };
    share(forward_part, &o, s->B * s->H * o.groups);
}

/* What belongs to one image and head in the backward direction; data is NULL where not wanted. */
struct head_grad {
    struct vec dq, dk, dv;
    real *dbias; /* of the head */
    int beta_q, beta_k, beta_v, beta_bias;
    struct vec q, k, v, y, dy;
    const real *lse;
};

static void backward_tile(const struct plan *p, const struct sdpa *o, const struct head_grad *g,
                          int b, int h, int i, int rows)
{
    const struct kernels_tile *tile = kernels_level()->tile;
    struct vec q = vec_at(g->q, (size_t)i, 0), dy = vec_at(g->dy, (size_t)i, 0);
    struct tile_dropout drop = tile_dropout(o, b, h, i);
    bool dropped = o->dropout > 0, first = i == 0;

    scores(p, o, b, i, q, rows);
    tile->weights(p->s, p->stride, bias_at(o, h, i), g->lse + i, rows, o->M);
    if (g->dq.data || g->dk.data || g->dbias) {
        multiply(p, p->dp, p->stride, 0, 1, as_left(p, p->dy, dy, rows, o->e), p->v_columns, rows,
                 o->M, o->e);
        if (dropped)
            tile->dropout(p->dp, p->stride, &drop, rows, o->M);
        tile->dots(p->row, vec_at(g->y, (size_t)i, 0), dy, rows, o->e);
        tile->score_grad(p->dp, p->s, p->stride, p->row, o->scale,
                         g->dbias ? g->dbias + (ptrdiff_t)i * o->M : NULL, g->beta_bias, rows,
                         o->M);
    }
    if (g->dv.data) {
        if (dropped)
            tile->dropout(p->s, p->stride, &drop, rows, o->M);
        operand_pack(p->bf16, p->dy_rows, rows_of(dy), rows, o->e);
        multiply(p, p->dv, o->e, !first, 1, transposed(tile_of(p->s, p->stride)), p->dy_rows, o->M,
                 o->e, rows);
    }
    if (g->dk.data) {
        operand_pack(p->bf16, p->q_rows, rows_of(q), rows, o->d);
        multiply(p, p->dk, o->d, !first, 1, transposed(tile_of(p->dp, p->stride)), p->q_rows, o->M,
                 o->d, rows);
    }
    if (g->dq.data) {
        multiply(p, p->q, o->d, 0, 1, tile_of(p->dp, p->stride), p->k_rows, rows, o->d, o->M);
        tile->store(vec_at(g->dq, (size_t)i, 0), g->beta_q, p->q, o->d, NULL, rows, o->d);
    }
}

static void backward_head(const struct plan *p, const struct sdpa *o, const struct head_grad *g,
                          int b, int h)
{
    const struct kernels_tile *tile = kernels_level()->tile;
    operand_pack(p->bf16, p->k_columns, transposed(rows_of(g->k)), o->d, o->M);
    operand_pack(p->bf16, p->k_rows, rows_of(g->k), o->M, o->d);
    operand_pack(p->bf16, p->v_columns, transposed(rows_of(g->v)), o->e, o->M);
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

static void backward_one(const struct call *o, const struct plan *p, int b, int h)
{
    const struct sdpa *s = o->s;
    struct head_grad g = {
        .dq = wanted_at(o->dq, b, h),
        .dk = wanted_at(o->dk, b, h),
        .dv = wanted_at(o->dv, b, h),
        .dbias = o->dbias ? o->dbias + (ptrdiff_t)h * s->N * s->M : NULL,
        .beta_q = o->beta_q,
        .beta_k = o->beta_k,
        .beta_v = o->beta_v,
        .beta_bias = o->beta_bias || b > 0,
        .q = heads_at(o->q, b, h),
        .k = heads_at(o->k, b, h),
        .v = heads_at(o->v, b, h),
        .y = heads_at(o->y, b, h),
        .dy = heads_at(o->dy, b, h),
        .lse = o->lse + lse_at(s, b, h),
    };
    backward_head(p, s, &g, b, h);
}

/* One head of one image. */
static void backward_part(const void *job, int part, int member)
{
    const struct call *o = job;
    struct plan p = plan_of(o, member);
    backward_one(o, &p, part / o->s->H, part % o->s->H);
}

/* One head of all images in their order, which add to the gradient of one bias. */
static void backward_bias_part(const void *job, int part, int member)
{
    const struct call *o = job;
    struct plan p = plan_of(o, member);
    for (int b = 0; b < o->s->B; b++)
        backward_one(o, &p, b, part);
}

void kernel_sdpa_grad(struct heads dq, int beta_q, struct heads dk, int beta_k, struct heads dv,
                      int beta_v, real *dbias, int beta_bias, struct heads q, struct heads k,
                      struct heads v, struct heads y, struct heads dy, const real *lse,
                      const struct sdpa *s, real *scratch)
{
    struct call o = {
        .s = s,
        .bf16 = bf16_of(q, k, v, dy),
        .scratch = scratch,
        .y = y,
        .q = q,
        .k = k,
        .v = v,
        .dy = dy,
        .dq = dq,
        .dk = dk,
        .dv = dv,
        .lse = lse,
        .dbias = dbias,
        .beta_q = beta_q,
        .beta_k = beta_k,
        .beta_v = beta_v,
        .beta_bias = beta_bias,
    };
    if (dbias)
        share(backward_bias_part, &o, s->H);
    else
        share(backward_part, &o, s->B * s->H);
}
