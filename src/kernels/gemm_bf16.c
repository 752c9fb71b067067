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
    struct vec c;
    int beta;
    real alpha;
    struct matrix a;
    const struct epilogue *epilogue; /* never NULL */
    bool direct;                     /* sums go to c as they are */
    int m, n, k;
    uint16_t *left; /* bf16_left_size(BF16_ROWS, BLOCK_K) */
    real *sums;     /* BF16_ROWS x BLOCK_N */
};

static const struct epilogue nothing = {.bias = NULL};

static struct job job_of(struct vec c, int beta, real alpha, struct matrix a, int m, int n, int k,
                         const struct epilogue *epilogue)
{
    return (struct job){
        .c = c,
        .beta = beta,
        .alpha = alpha,
        .a = a,
        .epilogue = epilogue ? epilogue : &nothing,
        .direct = c.type == TYPE_REAL && !has_epilogue(epilogue),
        .m = m,
        .n = n,
        .k = k,
    };
}

/* c from (i, j) on, (rows, cols), with elements p.. of the sums, `depth` of them; cols <= BLOCK_N
 * unless this is all of k or c takes the sums directly. b holds the columns from j on. */
static void block(const struct job *o, int i, int j, int p, int rows, int cols, int depth,
                  struct right b)
{
    const struct kernels_level *level = kernels_level();
    struct left left = level->bf16->left(o->left, matrix_at(o->a, i, p), rows, depth);
    for (int at = 0; at < cols; at += BLOCK_N) {
        int width = cols - at < BLOCK_N ? cols - at : BLOCK_N;
        struct vec to = vec_at(o->c, (size_t)i, (size_t)(j + at));
        struct vec sums = o->direct ? to : (struct vec){o->sums, TYPE_REAL, BLOCK_N};
        if (!o->direct && o->beta && p == 0)
            kernel_accumulate(sums, 0, to, 1, (size_t)rows, (size_t)width);
        level->bf16->multiply(sums.data, sums.stride, p ? 1 : o->beta, o->alpha, left, b, rows,
                              width, depth);
        b.data += BLOCK_N / BF16_PANEL * b.panel;
        if (!o->direct && p + depth == o->k)
            level->epilogue->finish(o->c, sums.data, sums.stride, o->epilogue, (size_t)i,
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
    bool once = o->direct || o->k <= BLOCK_K; /* else sums stay with us until they are complete */
    int rows = once ? o->m : bf16->rows;
    for (int first = 0; first < o->m; first += rows) {
        int last = first + part(first, o->m, rows);
        for (int p = 0; p < o->k; p += BLOCK_K) {
            int depth = part(p, o->k, BLOCK_K);
            ptrdiff_t panel = BF16_PANEL * (ptrdiff_t)bf16_padded(depth, bf16->depth);
            bf16->pack(panels, panel, matrix_at(b, p, j), depth, cols);
            for (int i = first; i < last; i += bf16->rows)
                block(o, i, j, p, part(i, last, bf16->rows), cols, depth,
                      (struct right){panels, panel, 0});
        }
    }
}

void gemm_bf16(struct vec c, int beta, real alpha, struct matrix a, struct matrix b, int m, int n,
               int k, const struct epilogue *epilogue)
{
    _Alignas(64) uint16_t panels[PANELS], left[BF16_ROWS * BLOCK_K];
    _Alignas(64) real sums[BF16_ROWS * BLOCK_N];
    struct job o = job_of(c, beta, alpha, a, m, n, k, epilogue);
    o.left = left;
    o.sums = sums;
    int padded = (int)bf16_padded(k < BLOCK_K ? k : BLOCK_K, BF16_DEPTH);
    int most = PANELS / padded / BF16_PANEL * BF16_PANEL;
    if (k > BLOCK_K && !o.direct && most > BLOCK_N)
        most = BLOCK_N;
    for (int j = 0; j < n; j += most)
        columns(&o, b, j, part(j, n, most), panels);
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

void kernel_gemm_packed(struct vec c, int beta, struct vec a, struct packed b, int m,
                        const struct epilogue *epilogue)
{
    if (m == 0 || b.n == 0)
        return;
    if (!has_bf16() || b.k == 0) {
        struct matrix plain = {b.data, TYPE_BF16, b.n, 1};
        gemm_own(c, beta, 1, matrix_of(a, PLAIN), plain, m, b.n, b.k, epilogue, true);
        return;
    }
    const struct kernels_bf16 *bf16 = kernels_level()->bf16;
    _Alignas(64) uint16_t left[BF16_ROWS * BLOCK_K];
    _Alignas(64) real sums[BF16_ROWS * BLOCK_N];
    struct job o = job_of(c, beta, 1, matrix_of(a, PLAIN), m, b.n, b.k, epilogue);
    o.left = left;
    o.sums = sums;
    ptrdiff_t panel = BF16_PANEL * (ptrdiff_t)bf16_padded(b.k, bf16->depth);
    int most = b.k <= BLOCK_K ? b.n : BLOCK_N;
    for (int i = 0; i < m; i += bf16->rows) {
        int rows = part(i, m, bf16->rows);
        for (int j = 0; j < b.n; j += most) {
            int cols = part(j, b.n, most);
            const uint16_t *panels = (const uint16_t *)b.data + j / BF16_PANEL * panel;
            for (int p = 0; p < b.k; p += BLOCK_K)
                block(&o, i, j, p, rows, cols, part(p, b.k, BLOCK_K),
                      (struct right){panels, panel, p});
        }
    }
}
