/* test_trial.c - the trial of bf16 kernels lets right ones pass and finds what can be wrong. */
#include "kernels/bf16.h"
#include "kernels/trial.h"
#include "test.h"

/* What the plain kernels below do wrong. */
static enum fault { NONE, SWAPPED_PAIRS, LOST_LAST_K, NO_BETA, NO_ALPHA, WRITES_BEHIND } fault;

static real value(struct matrix x, int i, int j)
{
    ptrdiff_t at = i * x.row + j * x.col;
    return x.type == TYPE_REAL ? ((const real *)x.data)[at]
                               : bf16_to_real(((const uint16_t *)x.data)[at]);
}

static void pack(uint16_t *panels, ptrdiff_t panel, struct matrix b, int k, int n)
{
    for (int j = 0; j < n; j += BF16_PANEL, panels += panel) {
        int width = bf16_panel_width(j, n);
        for (int p = 0; p < (int)bf16_padded(k, 2); p++) {
            for (int i = 0; i < width; i++) {
                int side = fault == SWAPPED_PAIRS ? 1 - p % 2 : p % 2;
                panels[(p / 2 * width + i) * 2 + side] =
                    bf16_from_real(p < k && j + i < n ? value(b, p, j + i) : 0);
            }
        }
    }
}

static struct left left(uint16_t *buffer, struct matrix a, int m, int k)
{
    ptrdiff_t row = (ptrdiff_t)bf16_padded(k, 2);
    for (int i = 0; i < m; i++)
        for (int p = 0; p < row; p++)
            buffer[i * row + p] = bf16_from_real(p < k ? value(a, i, p) : 0);
    return (struct left){buffer, row, 2};
}

static void multiply(real *c, ptrdiff_t stride, int beta, real alpha, struct left a, struct right b,
                     int m, int n, int k)
{
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n + (fault == WRITES_BEHIND); j++) {
            int first = j / BF16_PANEL * BF16_PANEL, width = bf16_panel_width(first, n);
            const uint16_t *panel = b.data + j / BF16_PANEL * b.panel;
            real sum = 0;
            for (int p = 0; p < k - (fault == LOST_LAST_K); p++)
                sum += bf16_to_real(a.data[i * a.row + p]) *
                       bf16_to_real(panel[(p / 2 * width + j - first) * 2 + p % 2]);
            sum *= fault == NO_ALPHA ? 1 : alpha;
            c[i * stride + j] = (beta && fault != NO_BETA ? c[i * stride + j] : 0) + sum;
        }
    }
}

static const struct kernels_bf16 kernels = {
    .depth = 2, .rows = 16, .pack = pack, .left = left, .multiply = multiply};

TEST(trial__passes_what_is_right)
{
    fault = NONE;
    CHECK(bf16_works(&kernels));
}

TEST(trial__finds_each_fault)
{
    static const enum fault faults[] = {SWAPPED_PAIRS, LOST_LAST_K, NO_BETA, NO_ALPHA,
                                        WRITES_BEHIND};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        test_about("fault %zu", i);
        fault = faults[i];
        CHECK(!bf16_works(&kernels));
    }
    fault = NONE;
}
