/* test_mix.c - one matrix for many groups of rows, against plain loops in double. */
#include <stdlib.h>

#include "grid.h"
#include "test.h"

static const int sizes[][4] = {
    /* groups, N, D, parts */
    {1, 1, 1, 1}, {6, 3, 8, 2}, {3, 49, 40, 1}, {2, 16, 150, 1}, {1, 70, 136, 2}, {3, 66, 5, 1},
};

enum { SIZES = sizeof sizes / sizeof *sizes };

/* A mix with windows of patterns 0, 2, 1 where there are as many groups. */
struct problem {
    struct mix mix;
    struct grid W;
    int pattern[3];
    unsigned char *region;
    real *scratch;
};

static void begin(struct problem *p, const int *size, bool regions)
{
    *p = (struct problem){.pattern = {0, 2, 1}};
    p->mix = (struct mix){.groups = size[0], .N = size[1], .D = size[2], .parts = size[3]};
    size_t N = (size_t)size[1], parts = (size_t)size[3];
    p->W = grid_random(TYPE_REAL, parts * N, N, 0, 1);
    p->mix.W = p->W.vec.data;
    p->region = calloc(2, N);
    CHECK(p->region != NULL);
    for (size_t t = 0; t < N; t++) {
        p->region[t] = (unsigned char)(2 * (t % 5 > 2) + (t > N / 2)); /* four that interleave */
        p->region[N + t] = t % 3 == 0;
    }
    if (regions && size[0] % 3 == 0) {
        p->mix.windows = 3;
        p->mix.patterns = 2;
        p->mix.pattern = p->pattern;
        p->mix.region = p->region;
    }
    p->scratch = malloc(kernel_mix_scratch(&p->mix) * sizeof(real));
    CHECK(p->scratch != NULL);
}

static void end(struct problem *p)
{
    free(p->region);
    free(p->scratch);
}

/* W[t, j] of a group and column. */
static double weight(const struct problem *p, int group, int c, int t, int j)
{
    const struct mix *o = &p->mix;
    int pattern = o->patterns ? p->pattern[group % 3] : 0;
    const unsigned char *id = pattern ? p->region + (pattern - 1) * o->N : NULL;
    int part = c / (o->D / o->parts);
    return id && id[t] != id[j] ? 0 : p->W.value[(part * o->N + t) * o->N + j];
}

static double rounding(const struct problem *p, enum type type)
{
    double terms = 12 + p->mix.N;
    return type == TYPE_BF16 ? 0x1p-8 * terms / 4 : tolerance_of(4e-7 * terms);
}

static void check_forward(enum type type, size_t gap)
{
    for (int i = 0; i < 8 * SIZES; i++) {
        struct problem p;
        begin(&p, sizes[i / 8], i & 1);
        const struct mix *o = &p.mix;
        size_t N = (size_t)o->N, rows = (size_t)o->groups * N, cols = (size_t)o->D;
        bool turned = i & 2;
        int beta = i & 4 ? 1 : 0;
        struct grid x = grid_random(type, rows, cols, gap, 1);
        struct grid y = grid_output(beta, type, rows, cols, gap);
        const real *bias = beta ? NULL : reals_random(N, 1);
        kernel_mix(y.vec, beta, turned ? TRANSPOSED : PLAIN, x.vec, bias, o, p.scratch);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++) {
                double sum = beta ? y.value[r * cols + c] : (double)bias[r % N];
                for (size_t j = 0; j < N; j++) {
                    int t = (int)(r % N), k = (int)j, g = (int)(r / N);
                    double w = turned ? weight(&p, g, (int)c, k, t) : weight(&p, g, (int)c, t, k);
                    sum += w * x.value[(r / N * N + j) * cols + c];
                }
                y.value[r * cols + c] = sum;
            }
        test_about("%d groups, %d x %d, %d", o->groups, o->N, o->D, i % 8);
        grid_check(&y, rounding(&p, type));
        end(&p);
    }
}

TEST(mix__is_a_product_for_each_group_and_part)
{
    each_level(check_forward);
}

static void check_grad(enum type type, size_t gap)
{
    for (int i = 0; i < 2 * SIZES; i++) {
        struct problem p;
        begin(&p, sizes[i / 2], i & 1);
        const struct mix *o = &p.mix;
        size_t N = (size_t)o->N, rows = (size_t)o->groups * N, cols = (size_t)o->D;
        size_t parts = (size_t)o->parts;
        struct grid x = grid_random(type, rows, cols, gap, 1);
        struct grid dy = grid_random(type, rows, cols, gap, 1);
        struct grid dW = grid_random(TYPE_REAL, parts * N, N, 0, 1), old = grid_copy(&dW);
        struct grid db = grid_random(TYPE_REAL, 1, N, 0, 1);
        kernel_mix_grad(dW.vec.data, db.vec.data, dy.vec, x.vec, o, p.scratch);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++) {
                double from = dy.value[r * cols + c];
                size_t part = c / (cols / parts);
                for (size_t j = 0; j < N; j++) {
                    bool kept = weight(&p, (int)(r / N), (int)c, (int)(r % N), (int)j) != 0;
                    dW.value[(part * N + r % N) * N + j] +=
                        kept ? from * x.value[(r / N * N + j) * cols + c] : 0;
                }
                db.value[r % N] += from;
            }
        test_about("%d groups, %d x %d", o->groups, o->N, o->D);
        double tolerance = tolerance_of(4e-7 * (12 + (double)(rows / N * cols)));
        grid_check(&dW, tolerance);
        grid_check(&db, tolerance);
        /* Either may be left out. */
        kernel_mix_grad(NULL, db.vec.data, dy.vec, x.vec, o, p.scratch);
        kernel_mix_grad(old.vec.data, NULL, dy.vec, x.vec, o, p.scratch);
        for (size_t k = 0; k < parts * N * N; k++)
            old.value[k] = grid_get(&dW, k / N, k % N);
        grid_check(&old, 0);
        end(&p);
    }
}

TEST(mix_grad__adds_products_over_the_groups)
{
    each_level(check_grad);
}
