/* product_amx.c - products of bf16 with AMX: c is summed in 2 x 2 tiles of 16 x 16, 32 elements of
 * k at a time. A tile of a holds 16 rows of 32 elements; one of b 16 rows of 16 pairs, as b is
 * packed. Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18. */
#include <stdbool.h>

#include "kernels/bf16_pack.h"
#include "kernels/tables.h"

enum { TILE = 16, DEPTH = 32 };

/* The operand of ldtilecfg: palette 1, all eight tiles of 16 rows of 64 bytes. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static const struct tile_config config = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {TILE, TILE, TILE, TILE, TILE, TILE, TILE, TILE},
};

_Static_assert(sizeof(struct tile_config) == 64, "as the instruction reads it");

/* The intrinsics do not tell every compiler which memory they read. */
static inline void memory_is_read(void)
{
    __asm__ volatile("" ::: "memory");
}

static void pack(uint16_t *panels, ptrdiff_t panel, struct matrix b, int k, int n)
{
    bf16_pack(panels, panel, b, k, n, DEPTH);
}

/* Whole tiles are read: rows of bf16 serve as they are if they fill tiles; all else is copied to
 * rows padded with zeros. */
static struct left left(uint16_t *buffer, struct matrix a, int m, int k)
{
    if (a.col == 1 && a.type == TYPE_BF16 && m % TILE == 0 && k % DEPTH == 0)
        return (struct left){a.data, a.row, 2};
    ptrdiff_t row = (ptrdiff_t)bf16_padded(k, DEPTH);
    int padded = (int)bf16_padded(m, TILE);
    if (a.col == 1) {
        for (int i = 0; i < padded; i++)
            for (int p = 0; p < k; p += DEPTH)
                _mm512_storeu_si512(buffer + i * row + p,
                                    i < m ? bf16_load_row(a.data, a.type, i * a.row + p, k - p)
                                          : _mm512_setzero_si512());
        return (struct left){buffer, row, 2};
    }
    struct matrix flipped = {a.data, a.type, a.col, 1};
    for (int p = 0; p < k; p += DEPTH) {
        for (int i = 0; i < padded; i += 2 * TILE) {
            __m512i low[TILE], high[TILE];
            for (int c = 0; c < TILE; c++) {
                low[c] = high[c] = _mm512_setzero_si512();
                if (p + 2 * c < k)
                    bf16_pairs(&low[c], &high[c], flipped, p + 2 * c, i, k, m);
            }
            bf16_transpose(low);
            bf16_transpose(high);
            for (int c = 0; c < TILE; c++) {
                _mm512_storeu_si512(buffer + (i + c) * row + p, low[c]);
                if (i + TILE < padded)
                    _mm512_storeu_si512(buffer + (i + TILE + c) * row + p, high[c]);
            }
        }
    }
    return (struct left){buffer, row, 2};
}

/* The four sums, from the rows `stride` apart at c, or zeros. */
ALWAYS_INLINE void open_tiles(const real *c, ptrdiff_t stride, bool load, bool low, bool right)
{
    long bytes = (long)(stride * (ptrdiff_t)sizeof *c);
    if (!load) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, c, bytes);
    if (right)
        _tile_loadd(1, c + TILE, bytes);
    if (low)
        _tile_loadd(2, c + TILE * stride, bytes);
    if (low && right)
        _tile_loadd(3, c + TILE * stride + TILE, bytes);
}

ALWAYS_INLINE void close_tiles(real *c, ptrdiff_t stride, bool low, bool right)
{
    long bytes = (long)(stride * (ptrdiff_t)sizeof *c);
    _tile_stored(0, c, bytes);
    if (right)
        _tile_stored(1, c + TILE, bytes);
    if (low)
        _tile_stored(2, c + TILE * stride, bytes);
    if (low && right)
        _tile_stored(3, c + TILE * stride + TILE, bytes);
}

/* Adds the products; `low`: there are more than 16 rows, `right`: more than 16 columns. They are
 * constants where this is called. */
ALWAYS_INLINE void sum_tiles(const uint16_t *a, ptrdiff_t row, const uint16_t *panel, int k,
                             bool low, bool right)
{
    const long a_bytes = (long)(row * (ptrdiff_t)sizeof *a);
    const long b_bytes = right ? 4 * BF16_PANEL : 2 * BF16_PANEL;
    for (int p = 0; p < k; p += DEPTH) {
        _tile_loadd(4, a, a_bytes);
        _tile_loadd(6, panel, b_bytes);
        _tile_dpbf16ps(0, 4, 6);
        if (right) {
            _tile_loadd(7, panel + BF16_PANEL, b_bytes);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (low) {
            _tile_loadd(5, a + TILE * row, a_bytes);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (low && right)
            _tile_dpbf16ps(3, 5, 7);
        a += DEPTH;
        panel += TILE * b_bytes / (long)sizeof *panel;
    }
}

/* c (m, n) = beta c + alpha a b for at most 32 rows and one panel. */
ALWAYS_INLINE void block(real *c, ptrdiff_t stride, int beta, real alpha, const uint16_t *a,
                         ptrdiff_t row, const uint16_t *panel, int m, int n, int k, bool low,
                         bool right)
{
    bool whole = m == (low ? 2 : 1) * TILE && n == (right ? 2 : 1) * TILE && alpha == 1;
    open_tiles(c, stride, whole && beta, low, right);
    sum_tiles(a, row, panel, k, low, right);
    if (whole) {
        close_tiles(c, stride, low, right);
        return;
    }
    _Alignas(64) real sum[4 * TILE * TILE];
    close_tiles(sum, 2 * TILE, low, right);
    for (int i = 0; i < m; i++) {
        const real *from = sum + 2 * TILE * i;
        bf16_update(c + i * stride, beta, alpha, _mm512_loadu_ps(from), n);
        if (right)
            bf16_update(c + i * stride + TILE, beta, alpha, _mm512_loadu_ps(from + TILE), n - TILE);
    }
}

static void multiply(real *c, ptrdiff_t stride, int beta, real alpha, struct left a, struct right b,
                     int m, int n, int k)
{
    memory_is_read();
    _tile_loadconfig(&config);
    for (int i = 0; i < m; i += 2 * TILE) {
        int rows = m - i < 2 * TILE ? m - i : 2 * TILE;
        const uint16_t *from = a.data + i * a.row, *panel = b.data;
        for (int j = 0; j < n; j += BF16_PANEL, panel += b.panel) {
            real *to = c + i * stride + j;
            int width = bf16_panel_width(j, n);
            bool right = width == BF16_PANEL;
            const uint16_t *at = panel + b.row * width;
            int cols = n - j < BF16_PANEL ? n - j : BF16_PANEL;
            if (rows > TILE && right)
                block(to, stride, beta, alpha, from, a.row, at, rows, cols, k, true, true);
            else if (rows > TILE)
                block(to, stride, beta, alpha, from, a.row, at, rows, cols, k, true, false);
            else if (right)
                block(to, stride, beta, alpha, from, a.row, at, rows, cols, k, false, true);
            else
                block(to, stride, beta, alpha, from, a.row, at, rows, cols, k, false, false);
        }
    }
    _tile_release();
}

const struct kernels_bf16 bf16_amx = {
    .depth = DEPTH,
    .rows = 64,
    .pack = pack,
    .left = left,
    .multiply = multiply,
};
