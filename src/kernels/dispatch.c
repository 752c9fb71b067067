/* dispatch.c - the levels, the choice among them, and the functions of kernels.h that lead there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "base/cpu.h"
#include "kernels/blas.h"
#include "kernels/level.h"
#include "kernels/trial.h"

#define KERNELS_LEVEL(isa)                                                                         \
    .elementwise = &elementwise_##isa, .map = map_##isa, .gelu = &gelu_##isa,                      \
    .columns = &columns_##isa, .softmax = &softmax_##isa, .norm = &norm_##isa,                     \
    .batch_norm = &batch_norm_##isa, .tokens = &tokens_##isa, .sets = &sets_##isa,                 \
    .outer = &outer_##isa, .taps = &taps_##isa, .wkv = &wkv_##isa, .scan = &scan_##isa,            \
    .optim = &optim_##isa, .product = &product_##isa, .epilogue = &epilogue_##isa,                 \
    .tile = &tile_##isa

/* From the lowest to the highest; this build may lack the upper ones. */
static const struct kernels_level levels[] = {
    {.name = "portable", KERNELS_LEVEL(portable)},
#ifndef ISA_ONLY_PORTABLE
    {.name = "avx2", KERNELS_LEVEL(avx2)},
    {.name = "avx512", KERNELS_LEVEL(avx512)},
    {.name = "avx512+bf16", .bf16 = &bf16_avx512bf16, KERNELS_LEVEL(avx512bf16)},
    {.name = "amx", .bf16 = &bf16_amx, KERNELS_LEVEL(avx512bf16)},
#endif
};

static const char *const names[] = {"portable", "avx2", "avx512", "avx512+bf16", "amx"};

enum {
    LEVELS = (int)(sizeof levels / sizeof *levels),
    NAMES = (int)(sizeof names / sizeof *names)
};

static const struct kernels_level *chosen = &levels[0];

/* Name of the level that failed its trial, or NULL. */
static const char *failed;

static bool cpu_can(const struct cpu_features *cpu, int level)
{
    const bool can[NAMES] = {true, cpu->avx2, cpu->avx2 && cpu->avx512,
                             cpu->avx512 && cpu->avx512_bf16, cpu->amx_bf16 && cpu->avx512_bf16};
    return can[level];
}

/* The highest level up to `most` that the CPU can run, and whose products are right. */
static int highest_level(int most)
{
    struct cpu_features cpu = cpu_features();
    int level = most;
    for (; level > 0; level--) {
        if (!cpu_can(&cpu, level))
            continue;
        if (!levels[level].bf16 || bf16_works(levels[level].bf16))
            break;
        failed = levels[level].name;
    }
    return level;
}

enum status kernels_init(struct error *err)
{
    const char *wanted = getenv("ATTNBENCH_ISA");
    int level = NAMES;
    failed = NULL;
    if (wanted && *wanted) {
        level = 0;
        while (level < NAMES && strcmp(names[level], wanted))
            level++;
        if (level == NAMES)
            return error_set(
                err, ERR_INPUT,
                "ATTNBENCH_ISA: \"%s\" is not portable, avx2, avx512, avx512+bf16 or amx", wanted);
        if (level >= LEVELS)
            return error_set(err, ERR_INPUT, "ATTNBENCH_ISA: this build has no kernels for %s",
                             wanted);
    }
    int can = highest_level(level < LEVELS ? level : LEVELS - 1);
    if (level < LEVELS && can < level)
        return error_set(err, ERR_INPUT, "ATTNBENCH_ISA: this CPU cannot run %s (%s %s)", wanted,
                         failed ? "it failed its trial; next is" : "its best is", levels[can].name);
    chosen = &levels[can];
    blas_init();
    return OK;
}

const char *kernels_isa_note(void)
{
    static char text[160];
    if (!failed)
        return NULL;
    snprintf(
        text, sizeof text,
        "the kernels for %s computed wrong products when tried on this CPU: %s is used, slower "
        "with bf16",
        failed, chosen->name);
    return text;
}

const struct kernels_level *kernels_level(void)
{
    return chosen;
}

const char *kernels_isa(void)
{
    return chosen->name;
}

void kernels_thread_init(void)
{
#ifdef __SSE__
    _mm_setcsr(_mm_getcsr() | 0x8040u); /* flush to zero, denormals are zero */
#elif defined(__aarch64__)
    unsigned long control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | 1ul << 24));
#endif
}

void kernel_multiply(struct vec y, int beta, struct vec a, struct vec b, size_t rows, size_t cols)
{
    chosen->elementwise->multiply(y, beta, a, b, rows, cols);
}

void kernel_add_rows(struct vec y, struct vec x, const real *p, size_t rows, size_t cols,
                     size_t period)
{
    chosen->elementwise->add_rows(y, x, p, rows, cols, period);
}

void kernel_add_rows_grad(real *dp, struct vec dy, size_t rows, size_t cols, size_t period)
{
    chosen->columns->add_rows_grad(dp, dy, rows, cols, period);
}

void kernel_scale_rows(struct vec y, int beta, struct vec x, const real *factor, size_t rows,
                       size_t cols, size_t period)
{
    chosen->elementwise->scale_rows(y, beta, x, factor, rows, cols, period);
}

void kernel_scale_cols(struct vec y, int beta, struct vec x, const real *gamma, size_t rows,
                       size_t cols)
{
    chosen->elementwise->scale_cols(y, beta, x, gamma, rows, cols);
}

void kernel_scale_cols_grad(real *dgamma, struct vec x, struct vec dy, size_t rows, size_t cols)
{
    chosen->columns->scale_cols_grad(dgamma, x, dy, rows, cols);
}

void kernel_column_sums(real *sums, struct vec x, size_t rows, size_t cols)
{
    chosen->columns->column_sums(sums, x, rows, cols);
}

void kernel_dropout(struct vec y, int beta, struct vec x, size_t rows, size_t cols, size_t period,
                    double p, uint64_t stream, uint64_t step, uint64_t sample)
{
    chosen->elementwise->dropout(y, beta, x, rows, cols, period, p, stream, step, sample);
}

void kernel_softmax(struct vec y, struct vec x, size_t rows, size_t cols)
{
    chosen->softmax->softmax(y, x, rows, cols);
}

void kernel_softmax_grad(struct vec dx, int beta, struct vec y, struct vec dy, size_t rows,
                         size_t cols)
{
    chosen->softmax->softmax_grad(dx, beta, y, dy, rows, cols);
}

void kernel_layer_norm_grad(struct vec dx, int beta, real *dweight, real *dbias, struct vec x,
                            const real *mean, const real *rstd, const real *weight, struct vec dy,
                            size_t rows, size_t cols)
{
    chosen->norm->layer_norm_grad(dx, beta, dweight, dbias, x, mean, rstd, weight, dy, rows, cols);
}

void kernel_normalize(struct vec y, real *norm, struct vec x, int groups, double eps, size_t rows,
                      size_t cols)
{
    chosen->norm->normalize(y, norm, x, groups, eps, rows, cols);
}

void kernel_normalize_grad(struct vec dx, int beta, struct vec y, const real *norm, struct vec dy,
                           int groups, double eps, size_t rows, size_t cols)
{
    chosen->norm->normalize_grad(dx, beta, y, norm, dy, groups, eps, rows, cols);
}

void kernel_token_softmax(struct vec y, struct vec x, const struct token_groups *groups,
                          size_t rows, size_t cols)
{
    chosen->tokens->softmax(y, x, groups, rows, cols);
}

void kernel_token_softmax_grad(struct vec dx, int beta, struct vec y, struct vec dy,
                               const struct token_groups *groups, size_t rows, size_t cols)
{
    chosen->tokens->softmax_grad(dx, beta, y, dy, groups, rows, cols);
}

void kernel_token_mean(struct vec y, int beta, double own, double share, struct vec x,
                       const struct token_groups *groups, size_t rows, size_t cols)
{
    chosen->tokens->mean(y, beta, own, share, x, groups, rows, cols);
}

void kernel_outer(struct vec y, struct vec x, bool symmetric, int groups, size_t rows, size_t cols)
{
    chosen->outer->outer(y, x, symmetric, groups, rows, cols);
}

void kernel_outer_grad(struct vec dx, int beta, struct vec x, struct vec dy, bool symmetric,
                       int groups, size_t rows, size_t cols)
{
    chosen->outer->outer_grad(dx, beta, x, dy, symmetric, groups, rows, cols);
}

void kernel_taps(struct vec y, int beta, struct vec x, const real *w, const real *bias,
                 const int *from, size_t rows, int taps, size_t cols)
{
    chosen->taps->taps(y, beta, x, w, bias, from, rows, taps, cols);
}

void kernel_taps_grad(real *dw, struct vec x, struct vec dy, const int *from, size_t rows, int taps,
                      size_t cols)
{
    chosen->taps->taps_grad(dw, x, dy, from, rows, taps, cols);
}

void kernel_tap_rows(struct vec y, int beta, struct vec x, const real *factor, const int *from,
                     size_t rows, int taps, size_t cols)
{
    chosen->taps->tap_rows(y, beta, x, factor, from, rows, taps, cols);
}

size_t kernel_bi_wkv_scratch(size_t rows)
{
    return (size_t)5 * WKV_COLS * rows;
}

void kernel_bi_wkv(struct vec y, struct vec zeta, struct vec k, struct vec v, const real *decay,
                   const real *first, const struct row_sequence *rows, size_t cols, real *scratch)
{
    chosen->wkv->bi_wkv(y, zeta, k, v, decay, first, rows, cols, scratch);
}

void kernel_bi_wkv_grad(struct vec dk, int beta_k, struct vec dv, int beta_v, real *ddecay,
                        real *dfirst, struct vec k, struct vec v, struct vec y, struct vec zeta,
                        struct vec dy, const real *decay, const real *first,
                        const struct row_sequence *rows, size_t cols, real *scratch)
{
    chosen->wkv->bi_wkv_grad(dk, beta_k, dv, beta_v, ddecay, dfirst, k, v, y, zeta, dy, decay,
                             first, rows, cols, scratch);
}

size_t kernel_selective_scan_scratch(size_t rows, int states)
{
    return (rows / SCAN_TILE + 1 + 2 * SCAN_TILE) * SCAN_COLS * (size_t)states;
}

void kernel_selective_scan(struct vec y, const struct scan *s)
{
    chosen->scan->selective_scan(y, s);
}

void kernel_selective_scan_grad(const struct scan_grad *g, const struct scan *s, real *scratch)
{
    chosen->scan->selective_scan_grad(g, s, scratch);
}

void kernel_cross_entropy(real *loss, real *p, struct vec x, const int *label, double smoothing,
                          size_t rows, size_t cols)
{
    chosen->softmax->cross_entropy(loss, p, x, label, smoothing, rows, cols);
}

void kernel_cross_entropy_grad(struct vec dx, int beta, const real *p, const real *dloss,
                               const int *label, double smoothing, size_t rows, size_t cols)
{
    chosen->softmax->cross_entropy_grad(dx, beta, p, dloss, label, smoothing, rows, cols);
}

void kernel_sum_into(real *sum, const real *x, size_t n)
{
    chosen->optim->sum_into(sum, x, n);
}

double kernel_sum_squares(const real *x, size_t n)
{
    return chosen->optim->sum_squares(x, n);
}

void kernel_adamw(real *w, real *m, real *v, const real *g, size_t n, const struct adamw *o)
{
    chosen->optim->adamw(w, m, v, g, n, o);
}

void kernel_sgd(real *w, real *m, const real *g, size_t n, const struct sgd *o)
{
    chosen->optim->sgd(w, m, g, n, o);
}

void kernel_average(real *y, const real *x, size_t n, double decay)
{
    chosen->optim->average(y, x, n, decay);
}
