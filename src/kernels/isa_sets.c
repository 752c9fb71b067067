/* isa_sets.c - sums and softmaxes over sets of tokens, of one head of one image. */
#include "kernels/isa.h"

/* Elements of row r of x from column c on, of the `n` that are left. */
ALWAYS_INLINE lane row_get(struct vec x, ptrdiff_t r, size_t c, size_t n)
{
    return lane_get_type((const char *)x.data + r * x.stride * (ptrdiff_t)type_size(x.type), x.type,
                         c, n);
}

ALWAYS_INLINE void row_put(struct vec x, ptrdiff_t r, size_t c, lane y, size_t n)
{
    lane_put_type((char *)x.data + r * x.stride * (ptrdiff_t)type_size(x.type), x.type, c, y, n);
}

ALWAYS_INLINE real dot(struct vec a, ptrdiff_t i, struct vec b, ptrdiff_t j, size_t n)
{
    lane sum = {0};
    for (size_t c = 0; c < n; c += LANE)
        sum += row_get(a, i, c, n - c) * row_get(b, j, c, n - c);
    return lane_sum(sum);
}

/* y[s] = factor sum over the tokens m of the set of weight[m] x[m]; weight NULL: 1. */
ALWAYS_INLINE void sum_set(struct vec y, int beta, ptrdiff_t s, struct vec x, const int *token,
                           int count, const real *weight, real factor, size_t n)
{
    for (size_t c = 0; c < n; c += LANE) {
        lane sum = {0};
        for (int m = 0; m < count; m++) {
            lane term = row_get(x, token[m], c, n - c);
            sum += weight ? term * weight[m] : term;
        }
        sum *= factor;
        if (beta)
            sum += row_get(y, s, c, n - c);
        row_put(y, s, c, sum, n - c);
    }
}

/* dx[m] += factor dy[s] for a row of n real numbers. */
ALWAYS_INLINE void add_row(real *dx, real factor, struct vec dy, ptrdiff_t s, size_t n)
{
    for (size_t c = 0; c < n; c += LANE)
        lane_put(dx + c, lane_get(dx + c, n - c) + row_get(dy, s, c, n - c) * factor, n - c);
}

static real over(const struct token_sets *sets, int s, double divisor)
{
    return (real)(1 / (divisor > 0 ? divisor : sets->first[s + 1] - sets->first[s]));
}

static void mean(struct vec y, struct vec x, const struct token_sets *sets, double divisor, int d)
{
    for (int s = 0; s < sets->count; s++) {
        int first = sets->first[s];
        sum_set(y, 0, s, x, sets->token + first, sets->first[s + 1] - first, NULL,
                over(sets, s, divisor), (size_t)d);
    }
}

static void mean_grad(real *dx, struct vec dy, const struct token_sets *sets, double divisor, int d)
{
    for (int s = 0; s < sets->count; s++)
        for (int m = sets->first[s]; m < sets->first[s + 1]; m++)
            add_row(dx + (ptrdiff_t)sets->token[m] * d, over(sets, s, divisor), dy, s, (size_t)d);
}

/* w = softmax(w), n elements. */
static void normalize(real *w, size_t n)
{
    lane max = lane_all((real)-INFINITY), sum = {0};
    for (size_t i = 0; i < n; i += LANE)
        max = lane_max(
            lane_fill(lane_get(w + i, n - i), n - i < LANE ? n - i : LANE, (real)-INFINITY), max);
    real largest = lane_largest(max);
    for (size_t i = 0; i < n; i += LANE) {
        lane x = lane_exp(lane_get(w + i, n - i) - largest);
        lane_put(w + i, x, n - i);
        sum += n - i < LANE ? lane_fill(x, n - i, 0) : x;
    }
    real inverse = 1 / lane_sum(sum);
    for (size_t i = 0; i < n; i++)
        w[i] *= inverse;
}

static void softmax(struct vec y, real *weight, struct vec q, struct vec k, struct vec v,
                    const struct set_softmax *o)
{
    const struct token_sets *sets = &o->pool.sets;
    real scale = (real)o->scale, norm = (real)(o->norm / 2);
    size_t d = (size_t)o->pool.d;
    for (int s = 0; s < sets->count; s++) {
        int first = sets->first[s], count = sets->first[s + 1] - first;
        const int *token = sets->token + first;
        real *w = weight + first;
        for (int m = 0; m < count; m++) {
            w[m] = scale * dot(q, s, k, token[m], d);
            if (norm != 0)
                w[m] -= norm * dot(k, token[m], k, token[m], d);
        }
        normalize(w, (size_t)count);
        sum_set(y, 0, s, v, token, count, w, 1, (size_t)o->pool.e);
    }
}

/* da[m] = w_m (dy . v_m - sum over j of w_j dy . v_j) */
static void score_grad(real *da, const real *w, struct vec dy, int s, struct vec v,
                       const int *token, int count, int e)
{
    real sum = 0;
    for (int m = 0; m < count; m++) {
        da[m] = dot(dy, s, v, token[m], (size_t)e);
        sum += w[m] * da[m];
    }
    for (int m = 0; m < count; m++)
        da[m] = w[m] * (da[m] - sum);
}

static void softmax_grad(struct vec dq, int beta, real *dk, real *dv, struct vec q, struct vec k,
                         struct vec v, struct vec dy, const real *weight, real *da,
                         const struct set_softmax *o)
{
    const struct token_sets *sets = &o->pool.sets;
    real scale = (real)o->scale, norm = (real)o->norm;
    size_t d = (size_t)o->pool.d, e = (size_t)o->pool.e;
    for (int s = 0; s < sets->count; s++) {
        int first = sets->first[s], count = sets->first[s + 1] - first;
        const int *token = sets->token + first;
        const real *w = weight + first;
        score_grad(da, w, dy, s, v, token, count, o->pool.e);
        if (dq.data)
            sum_set(dq, beta, s, k, token, count, da, scale, d);
        for (int m = 0; dk && m < count; m++) {
            add_row(dk + token[m] * (ptrdiff_t)d, scale * da[m], q, s, d);
            if (norm != 0)
                add_row(dk + token[m] * (ptrdiff_t)d, -norm * da[m], k, token[m], d);
        }
        for (int m = 0; dv && m < count; m++)
            add_row(dv + token[m] * (ptrdiff_t)e, w[m], dy, s, e);
    }
}

const struct kernels_sets KERNELS_NAME(sets) = {
    .mean = mean,
    .mean_grad = mean_grad,
    .softmax = softmax,
    .softmax_grad = softmax_grad,
};
