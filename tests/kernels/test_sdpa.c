/* test_sdpa.c - fused attention against the formula in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "grid.h"
#include "test.h"

/* A problem, and everything about it in double: all arrays are dense (B, H, ...). */
struct problem {
    struct sdpa s;
    enum type type;
    struct grid qkv, dqkv, y, dy; /* (B N, 2 H d + H e) as q, k, v; y: (B N, H e) */
    double *want_y, *want_lse, *want_dq, *want_dk, *want_dv;
    real *lse, *scratch, *bias, *dbias; /* bias: NULL without terms */
    double *want_dbias;
};

static const int shapes[][5] = {
    /* B, H, N = M, d, e */
    {1, 1, 1, 1, 1}, {4, 3, 7, 5, 6}, {3, 2, 50, 16, 16}, {1, 1, 197, 24, 17}, {1, 1, 350, 8, 17},
};

/* Columns of a (B N, C) grid as heads of width d. */
static struct heads view(const struct grid *g, size_t col, int N, int d)
{
    struct vec at = vec_at(g->vec, 0, col);
    return (struct heads){at.data, at.type, N * at.stride, d, at.stride};
}

static size_t col_k(const struct sdpa *s)
{
    return (size_t)(s->H * s->d);
}

/* Of each token in windows of one region, of halves, of stripes. */
static void make_regions(unsigned char *region, size_t N)
{
    for (size_t i = 0; i < N; i++) {
        region[i] = 7;
        region[N + i] = i < N / 2 ? 1 : 200;
        region[2 * N + i] = (unsigned char)(i % 3);
    }
}

static struct problem make(const int *shape, enum type type, size_t gap, double dropout, bool terms)
{
    struct problem p = {.type = type};
    p.s = (struct sdpa){.B = shape[0],
                        .H = shape[1],
                        .N = shape[2],
                        .M = shape[2],
                        .d = shape[3],
                        .e = shape[4],
                        .scale = 1.3 / sqrt(shape[3]),
                        .dropout = dropout,
                        .stream = 11,
                        .step = 3,
                        .team = 3,
                        .sample = 40};
    const struct sdpa *s = &p.s;
    size_t rows = (size_t)(s->B * s->N), width = (size_t)(s->H * (2 * s->d + s->e));
    p.qkv = grid_random(type, rows, width, gap, 1.5);
    p.dqkv = grid_poisoned(type, rows, width, gap);
    p.y = grid_poisoned(type, rows, (size_t)(s->H * s->e), gap);
    p.dy = grid_random(type, rows, (size_t)(s->H * s->e), gap, 1);
    if (terms) {
        static unsigned char region[3 * 400];
        static const bool mixed[3] = {false, true, true};
        size_t scores = (size_t)s->H * (size_t)s->N * (size_t)s->N;
        make_regions(region, (size_t)s->N);
        p.s.windows = 3;
        p.s.region = region;
        p.s.mixed = mixed;
        p.s.bias = p.bias = reals_random(scores, 2);
        p.dbias = reals_random(scores, 1);
        p.want_dbias = calloc(scores, sizeof *p.want_dbias);
    }
    p.lse = reals_random((size_t)(s->B * s->H * s->N), 1);
    p.scratch = reals_random(kernel_sdpa_scratch(s), 0);
    memset(p.scratch, 0xff, kernel_sdpa_scratch(s) * sizeof *p.scratch); /* NaN */
    return p;
}

/* What is added to the scaled score. */
static double term(const struct problem *p, int b, int h, int i, int j)
{
    const struct sdpa *s = &p->s;
    if (!p->bias)
        return 0;
    const unsigned char *region = s->region + b % s->windows * s->N;
    if (region[i] != region[j])
        return (double)-INFINITY;
    return (double)p->bias[(h * s->N + i) * s->N + j];
}

static double keep_factor(const struct sdpa *s, int b, int h, int i, int j)
{
    uint32_t word[4];
    uint64_t element = ((uint64_t)(h * s->N + i)) * (uint64_t)s->M + (uint64_t)j;
    if (s->dropout == 0)
        return 1;
    rng_block(word, s->stream, s->step, s->sample + (uint64_t)b, element / 4);
    return (double)word[element % 4] < s->dropout * 0x1p32 ? 0 : 1 / (1 - s->dropout);
}

/* Computes y, or with `backward` adds the gradients to dqkv.value; y must then be as stored. */
static void plain_head(struct problem *p, int b, int h, bool backward)
{
    const struct sdpa *s = &p->s;
    size_t N = (size_t)s->N, d = (size_t)s->d, e = (size_t)s->e, W = p->qkv.cols, Y = p->y.cols;
    size_t first = (size_t)b * N, cq = (size_t)h * d, ck = col_k(s) + cq;
    size_t cv = 2 * col_k(s) + (size_t)h * e, cy = (size_t)h * e;
    const double *x = p->qkv.value, *dy = p->dy.value;
    double *dx = p->dqkv.value, *y = p->y.value;
    double *w = malloc(N * sizeof *w), *keep = malloc(N * sizeof *keep);
    for (size_t i = 0; i < N; i++) {
        double sum = 0, r = 0;
        for (size_t j = 0; j < N; j++) {
            double dot = 0;
            for (size_t c = 0; c < d; c++)
                dot += x[(first + i) * W + cq + c] * x[(first + j) * W + ck + c];
            w[j] = exp(s->scale * dot + term(p, b, h, (int)i, (int)j));
            keep[j] = keep_factor(s, b, h, (int)i, (int)j);
            sum += w[j];
        }
        if (!backward) {
            size_t at = ((size_t)b * (size_t)s->H + (size_t)h) * N + i;
            p->want_lse[at] = log(sum);
        }
        for (size_t c = 0; c < e && !backward; c++) {
            double *to = &y[(first + i) * Y + cy + c];
            *to = 0;
            for (size_t j = 0; j < N; j++)
                *to += keep[j] * w[j] / sum * x[(first + j) * W + cv + c];
        }
        for (size_t j = 0; j < N; j++) /* r = sum over j of w dw */
            for (size_t c = 0; c < e && backward; c++)
                r += keep[j] * w[j] / sum * x[(first + j) * W + cv + c] *
                     dy[(first + i) * Y + cy + c];
        for (size_t j = 0; j < N && backward; j++) {
            double dw = 0;
            for (size_t c = 0; c < e; c++) {
                double g = dy[(first + i) * Y + cy + c];
                dw += keep[j] * g * x[(first + j) * W + cv + c];
                dx[(first + j) * W + cv + c] += keep[j] * w[j] / sum * g;
            }
            double dz = w[j] / sum * (dw - r), ds = s->scale * dz;
            if (p->bias)
                p->want_dbias[((size_t)h * N + i) * N + j] += dz;
            for (size_t c = 0; c < d; c++) {
                dx[(first + i) * W + cq + c] += ds * x[(first + j) * W + ck + c];
                dx[(first + j) * W + ck + c] += ds * x[(first + i) * W + cq + c];
            }
        }
    }
    free(w);
    free(keep);
}

static void plain(struct problem *p, bool backward)
{
    for (int b = 0; b < p->s.B; b++)
        for (int h = 0; h < p->s.H; h++)
            plain_head(p, b, h, backward);
}

static void run_forward(struct problem *p)
{
    const struct sdpa *s = &p->s;
    kernel_sdpa(view(&p->y, 0, s->N, s->e), p->lse, view(&p->qkv, 0, s->N, s->d),
                view(&p->qkv, col_k(s), s->N, s->d), view(&p->qkv, 2 * col_k(s), s->N, s->e), s,
                p->scratch);
}

static void run_backward(struct problem *p, int beta)
{
    const struct sdpa *s = &p->s;
    const struct grid *x = &p->qkv, *g = &p->dqkv;
    kernel_sdpa_grad(view(g, 0, s->N, s->d), beta, view(g, col_k(s), s->N, s->d), beta,
                     view(g, 2 * col_k(s), s->N, s->e), beta, p->dbias, beta,
                     view(x, 0, s->N, s->d), view(x, col_k(s), s->N, s->d),
                     view(x, 2 * col_k(s), s->N, s->e), view(&p->y, 0, s->N, s->e),
                     view(&p->dy, 0, s->N, s->e), p->lse, s, p->scratch);
}

static void check_dbias(const struct problem *p, double tolerance)
{
    size_t scores = (size_t)p->s.H * (size_t)p->s.N * (size_t)p->s.N;
    for (size_t i = 0; p->bias && i < scores; i++)
        CHECK_NEAR(p->dbias[i], p->want_dbias[i], tolerance * (1 + fabs(p->want_dbias[i])));
}

static void check_problem(enum type type, size_t gap, double dropout, bool terms)
{
    bool half = type == TYPE_BF16;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (shapes[i][2] > 100 && (dropout > 0) != (gap > 0))
            continue; /* the slow ones once */
        struct problem p = make(shapes[i], type, gap, dropout, terms);
        size_t lses = (size_t)(p.s.B * p.s.H * p.s.N);
        double *lse = malloc(lses * sizeof *lse);
        p.want_lse = lse;
        run_forward(&p);
        plain(&p, false);
        bool rounds = half && level_rounds_weights();
        grid_check(&p.y, rounds ? 4e-3 : tolerance_of(3e-6));
        for (size_t j = 0; j < lses; j++)
            CHECK_NEAR(p.lse[j], lse[j], tolerance_of(2e-6) * (1 + fabs(lse[j])));
        free(lse);
        /* bf16 rounds y, and with it sum y dy. */
        double tolerance = rounds ? 8e-3 : half ? 4e-3 : tolerance_of(1e-5);
        tolerance *= half && terms ? 2 : 1;       /* few weights, and large ones */
        double of_bias = half ? 2e-2 : tolerance; /* without a rounding of its own */
        run_backward(&p, 0);
        plain(&p, true);
        grid_check(&p.dqkv, tolerance);
        check_dbias(&p, of_bias);
        run_backward(&p, 1);
        plain(&p, true);
        grid_check(&p.dqkv, 2 * tolerance + (half ? 4e-3 : 0));
        check_dbias(&p, 2 * of_bias);
        free(p.want_dbias);
    }
}

static void check_plain(enum type type, size_t gap)
{
    check_problem(type, gap, 0, false);
}

static void check_dropout(enum type type, size_t gap)
{
    check_problem(type, gap, 0.3, false);
}

static void check_terms(enum type type, size_t gap)
{
    check_problem(type, gap, gap > 0 ? 0.3 : 0, true);
}

TEST(sdpa__is_the_formula)
{
    each_level(check_plain);
}

TEST(sdpa__drops_weights_by_their_number)
{
    each_level(check_dropout);
}

TEST(sdpa__adds_a_bias_and_keeps_regions_apart)
{
    each_level(check_terms);
}

/* Runs both directions, other numbers in the tokens of the second half; keeps what the first half
 * of every window of halves has in y and dqkv. */
static void run_halves(struct problem *p, bool other, double *kept)
{
    size_t N = (size_t)p->s.N;
    for (size_t r = 0; r < p->qkv.rows && other; r++) {
        if (r / N % 3 != 1 || r % N < N / 2)
            continue;
        for (size_t c = 0; c < p->qkv.cols; c++)
            grid_set(&p->qkv, r, c, 9 * next_random());
        for (size_t c = 0; c < p->dy.cols; c++)
            grid_set(&p->dy, r, c, 9 * next_random());
    }
    run_forward(p);
    run_backward(p, 0);
    for (size_t r = N; r < N + N / 2; r++) {
        for (size_t c = 0; c < p->y.cols; c++)
            *kept++ = grid_get(&p->y, r, c);
        for (size_t c = 0; c < p->dqkv.cols; c++)
            *kept++ = grid_get(&p->dqkv, r, c);
    }
}

static void check_apart(enum type type, size_t gap)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (shapes[i][0] < 2 || shapes[i][2] < 2)
            continue;
        struct problem p = make(shapes[i], type, gap, gap > 0 ? 0.3 : 0, true);
        size_t count = (size_t)(p.s.N / 2) * (p.y.cols + p.dqkv.cols);
        double *one = malloc(count * sizeof *one), *two = malloc(count * sizeof *two);
        run_halves(&p, false, one);
        run_halves(&p, true, two);
        for (size_t k = 0; k < count; k++)
            CHECK_NEAR(two[k], one[k], 0);
        free(one);
        free(two);
        free(p.want_dbias);
    }
}

TEST(sdpa__lets_regions_not_influence_each_other_by_a_bit)
{
    each_level(check_apart);
}

/* N != M, and gradients of which each is left out once. */
static void check_cross(enum type type, size_t gap)
{
    struct sdpa s = {.B = 2, .H = 2, .N = 9, .M = 33, .d = 5, .e = 4, .scale = 0.4};
    struct grid q = grid_random(type, 18, 10, gap, 1), k = grid_random(type, 66, 10, gap, 1);
    struct grid v = grid_random(type, 66, 8, gap, 1), dy = grid_random(type, 18, 8, gap, 1);
    struct grid y = grid_poisoned(type, 18, 8, gap);
    real *lse = reals_random(36, 1), *scratch = reals_random(kernel_sdpa_scratch(&s), 1);
    struct heads vq = view(&q, 0, 9, 5), vk = view(&k, 0, 33, 5), vv = view(&v, 0, 33, 4);
    struct heads vy = view(&y, 0, 9, 4), vdy = view(&dy, 0, 9, 4), none = {.data = NULL};
    kernel_sdpa(vy, lse, vq, vk, vv, &s, scratch);

    struct grid dq = grid_poisoned(type, 18, 10, gap), dk = grid_poisoned(type, 66, 10, gap);
    struct grid dv = grid_poisoned(type, 66, 8, gap);
    kernel_sdpa_grad(view(&dq, 0, 9, 5), 0, view(&dk, 0, 33, 5), 0, view(&dv, 0, 33, 4), 0, NULL, 0,
                     vq, vk, vv, vy, vdy, lse, &s, scratch);
    for (int out = 0; out < 3; out++) {
        struct grid eq = grid_poisoned(type, 18, 10, gap), ek = grid_poisoned(type, 66, 10, gap);
        struct grid ev = grid_poisoned(type, 66, 8, gap);
        kernel_sdpa_grad(out == 0 ? none : view(&eq, 0, 9, 5), 0,
                         out == 1 ? none : view(&ek, 0, 33, 5), 0,
                         out == 2 ? none : view(&ev, 0, 33, 4), 0, NULL, 0, vq, vk, vv, vy, vdy,
                         lse, &s, scratch);
        const struct grid *got[] = {&eq, &ek, &ev}, *want[] = {&dq, &dk, &dv};
        for (int which = 0; which < 3; which++) {
            for (size_t i = 0; i < got[which]->rows * got[which]->cols; i++) {
                size_t row = i / got[which]->cols, col = i % got[which]->cols;
                double x = grid_get(got[which], row, col);
                if (which == out)
                    CHECK(isnan(x));
                else
                    CHECK_NEAR(x, grid_get(want[which], row, col), 0);
            }
        }
    }
    for (size_t r = 0; r < 18; r++) {
        size_t b = r / 9;
        for (size_t c = 0; c < 8; c++) {
            double sum = 0, all = 0;
            for (size_t j = 0; j < 33; j++) {
                double dot = 0;
                for (size_t t = 0; t < 5; t++)
                    dot += q.value[r * 10 + c / 4 * 5 + t] *
                           k.value[(b * 33 + j) * 10 + c / 4 * 5 + t];
                double w = exp(0.4 * dot);
                all += w;
                sum += w * v.value[(b * 33 + j) * 8 + c];
            }
            y.value[r * 8 + c] = sum / all;
        }
    }
    bool rounds = type == TYPE_BF16 && level_rounds_weights();
    grid_check(&y, rounds ? 4e-3 : tolerance_of(2e-6));
}

TEST(sdpa__takes_other_keys_than_queries_and_leaves_out_gradients)
{
    each_level(check_cross);
}

/* q, k and v one tensor x: dq, dk and dv one gradient, with beta 0, 1, 1. */
static void check_alias(enum type type, size_t gap)
{
    struct sdpa s = {.B = 2, .H = 2, .N = 190, .M = 190, .d = 6, .e = 6, .scale = 0.4};
    size_t rows = 380, cols = 12;
    struct grid x = grid_random(type, rows, cols, gap, 1),
                dy = grid_random(type, rows, cols, gap, 1);
    struct grid y = grid_poisoned(type, rows, cols, gap), dx = grid_poisoned(type, rows, cols, gap);
    real *lse = reals_random(760, 1), *scratch = reals_random(kernel_sdpa_scratch(&s), 1);
    struct heads vx = view(&x, 0, 190, 6), vdx = view(&dx, 0, 190, 6);
    struct heads vy = view(&y, 0, 190, 6), vdy = view(&dy, 0, 190, 6);
    kernel_sdpa(vy, lse, vx, vx, vx, &s, scratch);
    kernel_sdpa_grad(vdx, 0, vdx, 1, vdx, 1, NULL, 0, vx, vx, vx, vy, vdy, lse, &s, scratch);

    struct grid apart[3];
    for (int i = 0; i < 3; i++)
        apart[i] = grid_poisoned(type, rows, cols, gap);
    kernel_sdpa_grad(view(&apart[0], 0, 190, 6), 0, view(&apart[1], 0, 190, 6), 0,
                     view(&apart[2], 0, 190, 6), 0, NULL, 0, vx, vx, vx, vy, vdy, lse, &s, scratch);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            for (int i = 0; i < 3; i++)
                dx.value[r * cols + c] += grid_get(&apart[i], r, c);
    grid_check(&dx, type == TYPE_BF16 ? 0x1p-7 : tolerance_of(1e-6));
}

TEST(sdpa__gradients_may_share_memory)
{
    each_level(check_alias);
}

TEST(sdpa__scratch_grows_with_tokens_only)
{
    struct sdpa s = {.B = 1, .H = 1, .N = 4000, .M = 4000, .d = 64, .e = 64};
    size_t small = kernel_sdpa_scratch(&s);
    s.N = s.M = 16000;
    CHECK(kernel_sdpa_scratch(&s) < 5 * small);
    CHECK(kernel_sdpa_scratch(&s) < 1000u * 16000u);
    size_t one = kernel_sdpa_scratch(&s);
    s.B = s.H = 8;
    CHECK_INT(kernel_sdpa_scratch(&s), one);
    s.team = 5;
    CHECK_INT(kernel_sdpa_scratch(&s), 5 * one);
}

static size_t bytes_of(const struct grid *g)
{
    return ((g->rows - 1) * (g->cols + g->gap) + g->cols) * type_size(g->vec.type);
}

/* For three threads there is scratch, not for four. */
static void check_team(enum type type, size_t gap)
{
    for (size_t i = 2; i < sizeof shapes / sizeof *shapes; i++) {
        struct problem p = make(shapes[i], type, gap, 0.2, i == 2);
        size_t scores = i == 2 ? (size_t)(p.s.H * p.s.N * p.s.N) : 0;
        run_forward(&p);
        run_backward(&p, 0);
        struct problem one = p;
        one.dbias = reals_random(scores, 0);
        one.lse = reals_random((size_t)(p.s.B * p.s.H * p.s.N), 0);
        memcpy(one.lse, p.lse, (size_t)(p.s.B * p.s.H * p.s.N) * sizeof *p.lse);
        if (scores)
            memcpy(one.dbias, p.dbias, scores * sizeof *p.dbias);
        p.y = grid_poisoned(type, p.y.rows, p.y.cols, gap);
        p.dqkv = grid_poisoned(type, p.dqkv.rows, p.dqkv.cols, gap);
        for (int threads = 2; threads <= 4; threads++) {
            test_about("shape %zu, %d threads", i, threads);
            kernels_team(threads);
            run_forward(&p);
            run_backward(&p, 0);
            kernels_team(1);
            CHECK(memcmp(p.y.vec.data, one.y.vec.data, bytes_of(&p.y)) == 0);
            CHECK(memcmp(p.dqkv.vec.data, one.dqkv.vec.data, bytes_of(&p.dqkv)) == 0);
            CHECK(memcmp(p.lse, one.lse, (size_t)(p.s.B * p.s.H * p.s.N) * sizeof *p.lse) == 0);
            CHECK(!scores || memcmp(p.dbias, one.dbias, scores * sizeof *p.dbias) == 0);
        }
        free(p.want_dbias);
    }
}

TEST(sdpa__gives_the_same_bits_whatever_the_team)
{
    each_level(check_team);
}
