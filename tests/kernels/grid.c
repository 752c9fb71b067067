/* grid.c - matrices for the tests of kernels. */
#include "grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"
#include "kernels/bf16.h"
#include "test.h"

static const double gap_value = -77; /* exact in bf16 */

static struct {
    struct arena arena;
    bool ready;
    uint64_t drawn;
} state;

static void release(void)
{
    arena_free(&state.arena);
}

static void *allocate(size_t bytes)
{
    if (!state.ready) {
        arena_init(&state.arena);
        atexit(release);
        state.ready = true;
    }
    void *p = arena_alloc(&state.arena, bytes ? bytes : 1);
    CHECK(p);
    return p;
}

double next_random(void)
{
    return 2 * rng_uniform(1, 2, 3, state.drawn++) - 1;
}

int *order_random(size_t n)
{
    int *at = allocate(n * sizeof *at);
    for (size_t i = 0; i < n; i++)
        at[i] = (int)((i + n / 3) % n);
    for (size_t i = 0; i < n / 4; i++) {
        size_t j = (size_t)((next_random() + 1) / 2 * (double)n) % n;
        int swapped = at[i];
        at[i] = at[j];
        at[j] = swapped;
    }
    return at;
}

real *reals_random(size_t n, double scale)
{
    real *x = allocate(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(scale * next_random());
    return x;
}

static double load(const struct grid *g, size_t at)
{
    return g->vec.type == TYPE_REAL ? (double)((const real *)g->vec.data)[at]
                                    : (double)bf16_to_real(((const uint16_t *)g->vec.data)[at]);
}

static void store(struct grid *g, size_t at, double x)
{
    if (g->vec.type == TYPE_REAL)
        ((real *)g->vec.data)[at] = (real)x;
    else
        ((uint16_t *)g->vec.data)[at] = bf16_from_real((real)x);
}

static struct grid make(enum type type, size_t rows, size_t cols, size_t gap)
{
    struct grid g = {.rows = rows, .cols = cols, .gap = gap};
    g.vec.type = type;
    g.vec.stride = (ptrdiff_t)(cols + gap);
    g.vec.data = allocate(rows * (cols + gap) * type_size(type));
    g.value = allocate(rows * cols * sizeof *g.value);
    for (size_t i = 0; i < rows * (cols + gap); i++)
        store(&g, i, gap_value);
    return g;
}

double grid_get(const struct grid *g, size_t row, size_t col)
{
    return load(g, row * (g->cols + g->gap) + col);
}

void grid_set(struct grid *g, size_t row, size_t col, double x)
{
    store(g, row * (g->cols + g->gap) + col, x);
    g->value[row * g->cols + col] = grid_get(g, row, col);
}

struct grid grid_random(enum type type, size_t rows, size_t cols, size_t gap, double scale)
{
    struct grid g = make(type, rows, cols, gap);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            grid_set(&g, r, c, scale * next_random());
    return g;
}

struct grid grid_poisoned(enum type type, size_t rows, size_t cols, size_t gap)
{
    struct grid g = make(type, rows, cols, gap);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            grid_set(&g, r, c, (double)NAN);
    memset(g.value, 0, rows * cols * sizeof *g.value);
    return g;
}

struct grid grid_output(int beta, enum type type, size_t rows, size_t cols, size_t gap)
{
    return beta ? grid_random(type, rows, cols, gap, 1) : grid_poisoned(type, rows, cols, gap);
}

struct grid grid_copy(const struct grid *from)
{
    struct grid g = make(from->vec.type, from->rows, from->cols, from->gap);
    for (size_t r = 0; r < g.rows; r++)
        for (size_t c = 0; c < g.cols; c++)
            grid_set(&g, r, c, grid_get(from, r, c));
    return g;
}

void grid_check(const struct grid *g, double tolerance)
{
    double rounding = g->vec.type == TYPE_BF16 ? 0x1.01p-8 : 0;
    for (size_t r = 0; r < g->rows; r++) {
        for (size_t c = 0; c < g->cols; c++) {
            double want = g->value[r * g->cols + c];
            CHECK_NEAR(grid_get(g, r, c), want,
                       tolerance * (1 + fabs(want)) + rounding * fabs(want));
        }
        for (size_t c = g->cols; c < g->cols + g->gap; c++)
            CHECK_NEAR(grid_get(g, r, c), gap_value, 0);
    }
}

double tolerance_of(double tolerance)
{
    return sizeof(real) == sizeof(double) ? tolerance * 0x1p-24 : tolerance;
}

bool level_rounds_weights(void)
{
    return !strcmp(kernels_isa(), "avx512+bf16") || !strcmp(kernels_isa(), "amx");
}

void each_level(void (*check)(enum type type, size_t gap))
{
    static const char *const levels[] = {"portable", "avx2", "avx512", "avx512+bf16", "amx"};
    static const enum type types[] = {TYPE_REAL, TYPE_BF16};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        setenv("ATTNBENCH_ISA", levels[i], 1);
        if (kernels_init(NULL))
            continue;
        CHECK_STR(kernels_isa(), levels[i]);
        for (int type = 0; type < 2; type++) {
            for (size_t gap = 0; gap <= 3; gap += 3) {
                test_about("%s, %s, gap %zu", levels[i], type ? "bf16" : "real", gap);
                check(types[type], gap);
            }
        }
    }
    unsetenv("ATTNBENCH_ISA");
    CHECK(kernels_init(NULL) == OK);
}
