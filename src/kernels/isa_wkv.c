/* isa_wkv.c - Bi-WKV (kernels.h) as two scans. Sums over the rows on one side are kept as a e^o
 * with the largest exponent o of a summand so far, and so are those of the other side, which a
 * first scan leaves in `scratch` for each row. Columns are independent: a few lanes of them at a
 * time. */
#include "kernels/isa.h"

enum { BLOCK = 2 }; /* lanes at a time: one waits for the exponential of the other */

_Static_assert(BLOCK *(int)LANE <= (int)WKV_COLS,
               "scratch is for blocks of at most WKV_COLS columns");

/* Sums e^(key) value and e^(key) over the rows passed, as a e^o and b e^o. */
struct side {
    lane a, b, o;
};

/* Sums for the gradient: e^(-zeta) g and e^(-zeta) g y, and the same times the distance in rows. */
struct side_grad {
    lane g, gy, far_g, far_gy, o;
};

/* One summand joins others whose exponent has become `o`: what both are multiplied by. */
ALWAYS_INLINE void rescale(lane *o, lane key, lane *keep, lane *add)
{
    lane above = *o - key, one = lane_all(1);
    lane ratio = lane_exp(lane_min(above, -above)); /* of the smaller to the larger */
    lane_mask larger = above > lane_all(0);
    *keep = lane_where(larger, one, ratio);
    *add = lane_where(larger, ratio, one);
    *o = lane_where(larger, *o, key);
}

ALWAYS_INLINE struct side side_none(void)
{
    return (struct side){lane_all(0), lane_all(0), lane_all((real)-INFINITY)};
}

ALWAYS_INLINE void side_pass(struct side *s, lane decay, lane key, lane value)
{
    lane keep, add;
    s->o -= decay;
    rescale(&s->o, key, &keep, &add);
    s->a = s->a * keep + value * add;
    s->b = s->b * keep + add;
}

ALWAYS_INLINE struct side_grad side_grad_none(void)
{
    lane none = lane_all(0);
    return (struct side_grad){none, none, none, none, lane_all((real)-INFINITY)};
}

ALWAYS_INLINE void side_grad_pass(struct side_grad *s, lane decay, lane zeta, lane g, lane gy)
{
    lane keep, add;
    s->o -= decay;
    rescale(&s->o, -zeta, &keep, &add);
    s->far_g = (s->far_g + s->g) * keep;
    s->far_gy = (s->far_gy + s->gy) * keep;
    s->g = s->g * keep + g * add;
    s->gy = s->gy * keep + gy * add;
}

ALWAYS_INLINE lane row_get(struct vec x, int row, size_t c, size_t n)
{
    return lane_get_type(x.data, x.type, (size_t)row * (size_t)x.stride + c, n);
}

ALWAYS_INLINE void row_put(struct vec x, int beta, int row, size_t c, lane value, size_t n)
{
    size_t at = (size_t)row * (size_t)x.stride + c;
    if (beta)
        value += lane_get_type(x.data, x.type, at, n);
    lane_put_type(x.data, x.type, at, value, n);
}

/* Arguments of a call, for its blocks of columns. */
struct call {
    struct vec y, zeta, k, v, dy, dk, dv;
    int beta_k, beta_v;
    const real *decay, *first;
    real *ddecay, *dfirst;
    const struct row_sequence *rows;
    real *scratch;
};

/* The lanes' parts of `decay` and `first`, divided by the number of rows. */
ALWAYS_INLINE void block_params(const struct call *o, size_t c, size_t n, int lanes, lane *w,
                                lane *u)
{
    UNROLL
    for (int l = 0; l < lanes; l++) {
        size_t i = (size_t)l * LANE;
        real share = (real)1 / (real)o->rows->count;
        w[l] = lane_get(o->decay + c + i, n - i) * share;
        u[l] = lane_get(o->first + c + i, n - i) * share;
    }
}

ALWAYS_INLINE void forward_block(const struct call *o, size_t c, size_t n, int lanes)
{
    lane w[BLOCK], u[BLOCK];
    struct side left[BLOCK], right[BLOCK];
    size_t count = o->rows->count, kept = (size_t)lanes * 3 * LANE;
    block_params(o, c, n, lanes, w, u);
    UNROLL
    for (int l = 0; l < lanes; l++)
        left[l] = right[l] = side_none();
    for (size_t t = count; t-- > 0;) {
        UNROLL
        for (int l = 0; l < lanes; l++) {
            size_t i = (size_t)l * LANE;
            memcpy(o->scratch + t * kept + 3 * i, &right[l], sizeof right[l]);
            side_pass(&right[l], w[l], row_get(o->k, o->rows->at[t], c + i, n - i),
                      row_get(o->v, o->rows->at[t], c + i, n - i));
        }
    }
    for (size_t t = 0; t < count; t++) {
        int row = o->rows->at[t];
        UNROLL
        for (int l = 0; l < lanes; l++) {
            size_t i = (size_t)l * LANE;
            lane k = row_get(o->k, row, c + i, n - i), v = row_get(o->v, row, c + i, n - i);
            memcpy(&right[l], o->scratch + t * kept + 3 * i, sizeof right[l]);
            lane itself = u[l] + k;
            lane most = lane_max(itself, lane_max(left[l].o, right[l].o));
            lane from_left = lane_exp(left[l].o - most), from_right = lane_exp(right[l].o - most);
            lane from_itself = lane_exp(itself - most);
            lane sum = left[l].a * from_left + right[l].a * from_right + v * from_itself;
            lane weight = left[l].b * from_left + right[l].b * from_right + from_itself;
            row_put(o->y, 0, row, c + i, sum / weight, n - i);
            row_put(o->zeta, 0, row, c + i, most + lane_log(weight), n - i);
            side_pass(&left[l], w[l], k, v);
        }
    }
}

ALWAYS_INLINE void backward_block(const struct call *o, size_t c, size_t n, int lanes)
{
    lane w[BLOCK], u[BLOCK], dw[BLOCK], du[BLOCK];
    struct side_grad left[BLOCK], right[BLOCK];
    size_t count = o->rows->count, kept = (size_t)lanes * 5 * LANE;
    block_params(o, c, n, lanes, w, u);
    UNROLL
    for (int l = 0; l < lanes; l++) {
        left[l] = right[l] = side_grad_none();
        dw[l] = du[l] = lane_all(0);
    }
    for (size_t t = count; t-- > 0;) {
        int row = o->rows->at[t];
        UNROLL
        for (int l = 0; l < lanes; l++) {
            size_t i = (size_t)l * LANE;
            lane g = row_get(o->dy, row, c + i, n - i), y = row_get(o->y, row, c + i, n - i);
            memcpy(o->scratch + t * kept + 5 * i, &right[l], sizeof right[l]);
            side_grad_pass(&right[l], w[l], row_get(o->zeta, row, c + i, n - i), g, g * y);
        }
    }
    for (size_t t = 0; t < count; t++) {
        int row = o->rows->at[t];
        UNROLL
        for (int l = 0; l < lanes; l++) {
            size_t i = (size_t)l * LANE;
            lane k = row_get(o->k, row, c + i, n - i), v = row_get(o->v, row, c + i, n - i);
            lane g = row_get(o->dy, row, c + i, n - i), y = row_get(o->y, row, c + i, n - i);
            lane zeta = row_get(o->zeta, row, c + i, n - i);
            memcpy(&right[l], o->scratch + t * kept + 5 * i, sizeof right[l]);
            lane to_left = lane_exp(left[l].o + k), to_right = lane_exp(right[l].o + k);
            lane itself = lane_exp(u[l] + k - zeta) * g;
            lane sum = left[l].g * to_left + right[l].g * to_right + itself;
            lane sum_y = left[l].gy * to_left + right[l].gy * to_right + itself * y;
            dw[l] -= v * (left[l].far_g * to_left + right[l].far_g * to_right) -
                     (left[l].far_gy * to_left + right[l].far_gy * to_right);
            du[l] += itself * (v - y);
            if (o->dk.data)
                row_put(o->dk, o->beta_k, row, c + i, v * sum - sum_y, n - i);
            if (o->dv.data)
                row_put(o->dv, o->beta_v, row, c + i, sum, n - i);
            side_grad_pass(&left[l], w[l], zeta, g, g * y);
        }
    }
    UNROLL
    for (int l = 0; l < lanes; l++) {
        size_t i = (size_t)l * LANE;
        real share = (real)1 / (real)count, *to_w = o->ddecay + c + i, *to_u = o->dfirst + c + i;
        lane_put(to_w, lane_get(to_w, n - i) + dw[l] * share, n - i);
        lane_put(to_u, lane_get(to_u, n - i) + du[l] * share, n - i);
    }
}

static void bi_wkv(struct vec y, struct vec zeta, struct vec k, struct vec v, const real *decay,
                   const real *first, const struct row_sequence *rows, size_t cols, real *scratch)
{
    const struct call o = {.y = y,
                           .zeta = zeta,
                           .k = k,
                           .v = v,
                           .decay = decay,
                           .first = first,
                           .rows = rows,
                           .scratch = scratch};
    const size_t whole = (size_t)BLOCK * LANE;
    size_t c = 0;
    for (; c + whole <= cols; c += whole)
        forward_block(&o, c, whole, BLOCK);
    for (; c < cols; c += LANE)
        forward_block(&o, c, cols - c, 1);
}

static void bi_wkv_grad(struct vec dk, int beta_k, struct vec dv, int beta_v, real *ddecay,
                        real *dfirst, struct vec k, struct vec v, struct vec y, struct vec zeta,
                        struct vec dy, const real *decay, const real *first,
                        const struct row_sequence *rows, size_t cols, real *scratch)
{
    const struct call o = {.y = y,
                           .zeta = zeta,
                           .k = k,
                           .v = v,
                           .dy = dy,
                           .dk = dk,
                           .dv = dv,
                           .beta_k = beta_k,
                           .beta_v = beta_v,
                           .decay = decay,
                           .first = first,
                           .ddecay = ddecay,
                           .dfirst = dfirst,
                           .rows = rows,
                           .scratch = scratch};
    const size_t whole = (size_t)BLOCK * LANE;
    size_t c = 0;
    for (; c + whole <= cols; c += whole)
        backward_block(&o, c, whole, BLOCK);
    for (; c < cols; c += LANE)
        backward_block(&o, c, cols - c, 1);
}

const struct kernels_wkv KERNELS_NAME(wkv) = {
    .bi_wkv = bi_wkv,
    .bi_wkv_grad = bi_wkv_grad,
};
