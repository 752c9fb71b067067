/* trial.c - small products of whole numbers, which bf16 and float hold exactly. */
#include "kernels/trial.h"

#include "kernels/bf16.h"

enum { MOST_M = 37, MOST_N = 49, MOST_K = 67, GAP = 99 };

static const int sizes[][3] = {{1, 1, 1}, {16, 16, 32}, {17, 33, 35}, {32, 32, 64}, {37, 49, 67}};

static real value_a(int i, int p)
{
    return (real)((i * 7 + p * 5) % 11 - 5);
}

static real value_b(int p, int j)
{
    return (real)((p * 3 + j * 8) % 13 - 6);
}

/* An operand as it lies in memory, in one of its types; behind it are numbers that must not count.
 */
struct operand {
    uint16_t half[(MOST_K + 1) * (MOST_K + 1)];
    real whole[(MOST_K + 1) * (MOST_K + 1)];
};

static struct matrix fill(struct operand *o, real (*value)(int, int), int rows, int cols,
                          enum type type, bool transposed)
{
    ptrdiff_t row = transposed ? 1 : cols + 1, col = transposed ? rows + 1 : 1;
    for (int i = 0; i < (MOST_K + 1) * (MOST_K + 1); i++)
        o->half[i] = bf16_from_real(o->whole[i] = GAP);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            o->half[i * row + j * col] = bf16_from_real(o->whole[i * row + j * col] = value(i, j));
    return (struct matrix){type == TYPE_REAL ? (const void *)o->whole : o->half, type, row, col};
}

/* c = a b, or with beta c + 2 a b, on c = 1, with a gap of 1 behind each row. */
static bool try(const struct kernels_bf16 *bf16, const int *size, enum type type, bool ta, bool tb,
                int beta)
{
    static const real alphas[] = {1, 2};
    _Alignas(64) uint16_t panels[96 * 64], buffer[64 * 96];
    real c[MOST_M * (MOST_N + 1)];
    struct operand a, b;
    int m = size[0], n = size[1], k = size[2];
    ptrdiff_t stride = n + 1, panel = BF16_PANEL * (ptrdiff_t)bf16_padded(k, bf16->depth);
    real alpha = alphas[beta];
    for (int i = 0; i < m * (n + 1); i++)
        c[i] = 1;
    struct matrix from = fill(&a, value_a, m, k, type, ta);
    bf16->pack(panels, panel, fill(&b, value_b, k, n, type, tb), k, n);
    bf16->multiply(c, stride, beta, alpha, bf16->left(buffer, from, m, k),
                   (struct right){panels, panel, 0}, m, n, k);
    for (int i = 0; i < m; i++) {
        for (int j = 0; j <= n; j++) {
            real want = 0;
            for (int p = 0; p < k && j < n; p++)
                want += alpha * value_a(i, p) * value_b(p, j);
            want += (real)(j == n || beta);
            if (!(c[i * stride + j] == want))
                return false;
        }
    }
    return true;
}

bool bf16_works(const struct kernels_bf16 *bf16)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int which = 0; which < 16; which++)
            if (!try(bf16, sizes[i], which & 1 ? TYPE_REAL : TYPE_BF16, which & 2, which & 4,
                     which >> 3))
                return false;
    return true;
}
