/* gemm_bf16.c - products by the bf16 instructions of the level, with b packed here or beforehand.
 */
#include "kernels/gemm.h"

enum {
    BLOCK_N = 256,       /* columns of c that are finished at a time */
    BLOCK_K = 1024,      /* length of a sum in one go, where something has to be packed for it */
    PANELS = 192 * 1024, /* elements of b that are packed at a time */
};

/* A product, and the memory that its blocks go through. */
struct job {
    const struct gemm *g;
    bool direct;    /* sums go to c as they are */
    uint16_t *left; /* bf16_left_size(BF16_ROWS, BLOCK_K) */
    real *sums;     /* BF16_ROWS x BLOCK_N */
};

static struct job job_of(const struct gemm *g, uint16_t *left, real *sums)
{
    return (struct job){g, g->c.type == TYPE_REAL && !has_epilogue(g->epilogue), left, sums};
}

/* c from (i, j) on, (rows, cols), with elements p.. of the sums, `depth` of them; cols <= BLOCK_N
 * unless this is all of k or c takes the sums directly. b holds the columns from j on. */
static void block(const struct job *o, int i, int j, int p, int rows, int cols, int depth,
                  struct right b)
{
    const struct kernels_level *level = kernels_level();
    const struct gemm *g = o->g;
    struct left left = level->bf16->left(o->left, matrix_at(g->a, i, p), rows, depth);
    for (int at = 0; at < cols; at += BLOCK_N) {
        int width = cols - at < BLOCK_N ? cols - at : BLOCK_N;
        struct vec to = vec_at(g->c, (size_t)i, (size_t)(j + at));
        struct vec sums = o->direct ? to : (struct vec){o->sums, TYPE_REAL, BLOCK_N};
        if (!o->direct && g->beta && p == 0)
            kernel_accumulate(sums, 0, to, 1, (size_t)rows, (size_t)width);
        level->bf16->multiply(sums.data, sums.stride, p ? 1 : g->beta, g->alpha, left, b, rows,
                              width, depth);
        b.data += BLOCK_N / BF16_PANEL * b.panel;
        if (!o->direct && p + depth == g->k)
            level->epilogue->finish(g->c, sums.data, sums.stride, g->epilogue, (size_t)i,
                                    (size_t)(j + at), rows, width);
    }
}

static int part(int at, int n, int most)
{
    return n - at < most ? n - at : most;
}

/* Columns j.. of c. `panels` has room for `cols` columns of BLOCK_K or k rows. */
static void columns(const struct job *o, struct matrix b, int j, int cols, uint16_t *panels)
{
    const struct kernels_bf16 *bf16 = kernels_level()->bf16;
    const struct gemm *g = o->g;
    bool once = o->direct || g->k <= BLOCK_K; /* else sums stay with us until they are complete */
    int rows = once ? g->m : bf16->rows;
    for (int first = 0; first < g->m; first += rows) {
        int last = first + part(first, g->m, rows);
        for (int p = 0; p < g->k; p += BLOCK_K) {
            int depth = part(p, g->k, BLOCK_K);
            ptrdiff_t panel = BF16_PANEL * (ptrdiff_t)bf16_padded(depth, bf16->depth);
            bf16->pack(panels, panel, matrix_at(b, p, j), depth, cols);
            for (int i = first; i < last; i += bf16->rows)
                block(o, i, j, p, part(i, last, bf16->rows), cols, depth,
                      (struct right){panels, panel, 0});
        }
    }
}

void gemm_bf16(const struct gemm *g)
{
    _Alignas(64) uint16_t panels[PANELS], left[BF16_ROWS * BLOCK_K];
    _Alignas(64) real sums[BF16_ROWS * BLOCK_N];
    struct job o = job_of(g, left, sums);
    int padded = (int)bf16_padded(g->k < BLOCK_K ? g->k : BLOCK_K, BF16_DEPTH);
    int most = PANELS / padded / BF16_PANEL * BF16_PANEL;
    if (g->k > BLOCK_K && !o.direct && most > BLOCK_N)
        most = BLOCK_N;
    for (int j = 0; j < g->n; j += most)
        columns(&o, g->b, j, part(j, g->n, most), panels);
}

static bool has_bf16(void)
{
    return kernels_level()->bf16 != NULL;
}

size_t kernel_packed_bytes(int k, int n)
{
    size_t plain = (size_t)k * (size_t)n;
    return 2 * (has_bf16() ? bf16_packed(k, n, kernels_level()->bf16->depth) : plain);
}

/* to (k, n) = the transpose of b (n, k), rounded. */
static void flip(uint16_t *to, struct vec b, int k, int n)
{
    enum { ROWS = 32, COLS = 256 };
    for (int j = 0; j < n; j += ROWS) {
        for (int p = 0; p < k; p += COLS) {
            uint16_t rounded[ROWS * COLS];
            int rows = part(j, n, ROWS), cols = part(p, k, COLS);
            kernel_accumulate((struct vec){rounded, TYPE_BF16, COLS}, 0,
                              vec_at(b, (size_t)j, (size_t)p), 1, (size_t)rows, (size_t)cols);
            for (int c = 0; c < cols; c++)
                for (int r = 0; r < rows; r++)
                    to[(ptrdiff_t)(p + c) * n + j + r] = rounded[r * COLS + c];
        }
    }
}

void kernel_pack(void *to, enum trans tb, struct vec b, int k, int n)
{
    struct matrix from = matrix_of(b, tb);
    if (has_bf16()) {
        const struct kernels_bf16 *bf16 = kernels_level()->bf16;
        bf16->pack(to, BF16_PANEL * (ptrdiff_t)bf16_padded(k, bf16->depth), from, k, n);
        return;
    }
    if (tb == PLAIN)
        kernel_accumulate((struct vec){to, TYPE_BF16, n}, 0, b, 1, (size_t)k, (size_t)n);
    else
        flip(to, b, k, n);
}

/* With b packed: its panels start BF16_PANEL * b.col elements apart, so that matrix_at finds the
 * panel of a column that begins one. */
static void from_panels(const struct gemm *g)
{
    const struct kernels_bf16 *bf16 = kernels_level()->bf16;
    _Alignas(64) uint16_t left[BF16_ROWS * BLOCK_K];
    _Alignas(64) real sums[BF16_ROWS * BLOCK_N];
    struct job o = job_of(g, left, sums);
    int most = g->k <= BLOCK_K ? g->n : BLOCK_N;
    for (int i = 0; i < g->m; i += bf16->rows) {
        int rows = part(i, g->m, bf16->rows);
        for (int j = 0; j < g->n; j += most) {
            int cols = part(j, g->n, most);
            const uint16_t *panels = matrix_at(g->b, 0, j).data;
            for (int p = 0; p < g->k; p += BLOCK_K)
                block(&o, i, j, p, rows, cols, part(p, g->k, BLOCK_K),
                      (struct right){panels, BF16_PANEL * g->b.col, p});
        }
    }
}

void kernel_gemm_packed(struct vec c, int beta, struct vec a, struct packed b, int m,
                        const struct epilogue *epilogue)
{
    static const struct epilogue nothing = {.bias = NULL};
    struct gemm g = {
        .c = c,
        .beta = beta,
        .alpha = 1,
        .a = matrix_of(a, PLAIN),
        .b = {b.data, TYPE_BF16, b.n, 1},
        .m = m,
        .n = b.n,
        .k = b.k,
        .epilogue = epilogue ? epilogue : &nothing,
        .compute = gemm_own_rounded,
    };
    if (m == 0 || b.n == 0)
        return;
    if (has_bf16() && b.k > 0) {
        g.b.col = (ptrdiff_t)bf16_padded(b.k, kernels_level()->bf16->depth);
        g.b_is_packed = true;
        g.compute = from_panels;
    }
    gemm_by_team(&g);
}
