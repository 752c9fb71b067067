/* mix.c - one small matrix times many groups of rows. The matrix is made a left operand once a call, one
 * for each pattern of regions, its zeros in place; a group's rows are packed a few columns at a time and
 * stay in L1; small products of real numbers are left to kernel_gemm. The matrix's gradient adds dy x^T
 * group after group: what groups without regions give goes where it belongs, each other pattern has a
 * sum of its own, and its mask is applied to that. */
#include <string.h>

#include "kernels/operand.h"

enum {
    COLS = 64,   /* columns of a group that are mixed at a time */
    ROWS = 64,   /* rows of a result that go through a buffer at a time, at most */
    DEPTH = 128, /* columns of a group that the matrix's gradient takes at a time */
    SMALL = 64,  /* rows up to which BLAS is faster, measured beside OpenBLAS's SkylakeX kernels */
};

/* The pieces of the scratch. */
struct plan {
    const struct kernels_bf16 *bf16; /* NULL: all products are real */
    int rows;                        /* of a result at a time */
    size_t operand;                  /* reals from one left operand to the next */
    real *operands;                  /* one for each pattern and part */
    real *copy;                      /* (N, N): a masked or transposed matrix */
    struct left left;                /* how a bf16 operand lies, but for its place */
    void *panels;                    /* packed: (N, COLS) or (DEPTH, N) */
    real *sums;                      /* (rows, COLS) */
    real *block;                     /* (rows, DEPTH): dy as a left operand */
    real *grads;                     /* (N, N) for each pattern but the plain one, and part */
    real *ones;                      /* (DEPTH) */
    real *row;                       /* (N): sums of rows */
};

/* Divides the scratch (NULL: only counts). Returns the number of reals. */
static size_t make_plan(struct plan *p, const struct mix *o, enum type type, real *scratch)
{
    size_t used = 0, square = (size_t)o->N * (size_t)o->N;
    size_t bf16_square = bf16_left_size(o->N, o->N) / 2;
    p->bf16 = type == TYPE_BF16 ? kernels_level()->bf16 : NULL;
    p->rows = p->bf16 ? p->bf16->rows : ROWS;
    p->operand = (size_most(square, bf16_square) + 15) / 16 * 16;
    p->operands = scratch_take(scratch, &used, (size_t)(o->patterns + 1) * (size_t)o->parts * p->operand);
    p->copy = scratch_take(scratch, &used, square);
    size_t panels = size_most(operand_size(o->N, COLS), operand_size(DEPTH, o->N));
    p->panels = scratch_take(scratch, &used, panels);
    p->sums = scratch_take(scratch, &used, ROWS * COLS);
    p->block = scratch_take(scratch, &used, size_most(ROWS * DEPTH, bf16_left_size(ROWS, DEPTH) / 2));
    p->grads = scratch_take(scratch, &used, (size_t)o->patterns * (size_t)o->parts * square);
    p->ones = scratch_take(scratch, &used, DEPTH);
    p->row = scratch_take(scratch, &used, (size_t)o->N);
    return used;
}

size_t kernel_mix_scratch(const struct mix *o)
{
    struct plan p;
    return make_plan(&p, o, TYPE_REAL, NULL) + SCRATCH_LINE;
}

static int pattern_of(const struct mix *o, int group)
{
    return o->patterns ? o->pattern[group % o->windows] : 0;
}

/* Whether tokens t and j mix under a pattern. */
static bool is_kept(const struct mix *o, int pattern, int t, int j)
{
    const unsigned char *region = pattern ? o->region + (ptrdiff_t)(pattern - 1) * o->N : NULL;
    return !region || region[t] == region[j];
}

static size_t square_at(const struct mix *o, int index)
{
    return (size_t)index * (size_t)o->N * (size_t)o->N;
}

static real *operand_at(const struct plan *p, const struct mix *o, int pattern, int part)
{
    return p->operands + (size_t)(pattern * o->parts + part) * p->operand;
}

/* Makes the left operand of a pattern and part. */
static void make_operand(struct plan *p, const struct mix *o, enum trans trans, int pattern,
                         int part)
{
    const real *W = o->W + square_at(o, part);
    real *operand = operand_at(p, o, pattern, part), *to = p->bf16 ? p->copy : operand;
    for (int t = 0; t < o->N; t++)
        for (int j = 0; j < o->N; j++) {
            real w = trans == PLAIN ? W[t * o->N + j] : W[j * o->N + t];
            to[t * o->N + j] = is_kept(o, pattern, t, j) ? w : 0;
        }
    if (p->bf16)
        p->left = p->bf16->left((uint16_t *)operand, (struct matrix){to, TYPE_REAL, o->N, 1}, o->N,
                                o->N);
}

/* c = beta c + rows i.. of an operand times the packed columns of a group. */
static void multiply(const struct plan *p, const struct mix *o, struct vec c, int beta,
                     const real *operand, int i, int rows, int cols)
{
    if (p->bf16) {
        struct left left = p->left;
        left.data = (const uint16_t *)operand + i * left.row;
        p->bf16->multiply(c.data, c.stride, beta, 1, left,
                          operand_right(p->bf16, p->panels, o->N), rows, cols, o->N);
    } else {
        struct matrix left = {operand + (ptrdiff_t)i * o->N, TYPE_REAL, o->N, 1};
        kernels_level()->product->multiply(c.data, c.stride, beta, 1, left, p->panels, rows, cols,
                                           o->N);
    }
}

static int part_of(int at, int n, int size)
{
    return n - at < size ? n - at : size;
}

/* y = beta y + operand x + bias for `cols` columns of a group. */
static void mix_columns(const struct plan *p, const struct mix *o, struct vec y, int beta,
                        struct vec x, const real *operand, const real *bias, int cols)
{
    operand_pack(p->bf16, p->panels, (struct matrix){x.data, x.type, x.stride, 1}, o->N, cols);
    for (int i = 0; i < o->N; i += p->rows) {
        int rows = part_of(i, o->N, p->rows);
        struct vec to = vec_at(y, (size_t)i, 0), sums = {p->sums, TYPE_REAL, COLS};
        bool direct = y.type == TYPE_REAL, add = direct && beta;
        if (direct)
            sums = to;
        for (int r = 0; r < rows && bias; r++)
            for (int c = 0; c < cols; c++)
                ((real *)sums.data)[r * sums.stride + c] = bias[i + r];
        multiply(p, o, sums, add || bias, operand, i, rows, cols);
        if (direct)
            continue;
        struct epilogue e = {.bias = NULL};
        if (beta)
            e.residual = to;
        kernels_level()->epilogue->finish(to, sums.data, sums.stride, &e, 0, 0, rows, cols);
    }
}

/* The same for all columns of a part, by kernel_gemm. */
static void mix_small(const struct mix *o, struct vec y, int beta, struct vec x,
                      const real *operand, const real *bias)
{
    int width = o->D / o->parts;
    struct vec W = {(void *)(uintptr_t)operand, TYPE_REAL, o->N};
    for (int t = 0; t < o->N && bias; t++)
        for (int c = 0; c < width; c++)
            ((real *)y.data)[t * y.stride + c] = bias[t];
    kernel_gemm(y, beta || bias, 1, PLAIN, W, PLAIN, x, o->N, width, o->N, NULL);
}

void kernel_mix(struct vec y, int beta, enum trans trans, struct vec x, const real *bias,
                const struct mix *o, real *scratch)
{
    struct plan p;
    make_plan(&p, o, x.type, scratch_aligned(scratch));
    for (int pattern = 0; pattern <= o->patterns; pattern++)
        for (int part = 0; part < o->parts; part++)
            make_operand(&p, o, trans, pattern, part);
    int width = o->D / o->parts;
    bool small = o->N <= SMALL && x.type == TYPE_REAL && y.type == TYPE_REAL;
    for (int g = 0; g < o->groups; g++)
        for (int part = 0; part < o->parts; part++) {
            const real *operand = operand_at(&p, o, pattern_of(o, g), part);
            size_t row = (size_t)g * (size_t)o->N, col = (size_t)(part * width);
            struct vec to = vec_at(y, row, col), from = vec_at(x, row, col);
            if (small)
                mix_small(o, to, beta, from, operand, bias);
            for (int c = 0; c < width && !small; c += COLS)
                mix_columns(&p, o, vec_at(to, 0, (size_t)c), beta, vec_at(from, 0, (size_t)c),
                            operand, bias, part_of(c, width, COLS));
        }
}

/* Rows of dy as a left operand of real numbers. */
static struct matrix real_rows(const struct plan *p, struct vec dy, int rows, int cols)
{
    struct vec to = {p->block, TYPE_REAL, DEPTH};
    if (dy.type == TYPE_REAL)
        to = dy;
    else
        kernel_accumulate(to, 0, dy, 1, (size_t)rows, (size_t)cols);
    return (struct matrix){to.data, TYPE_REAL, to.stride, 1};
}

/* Where the products of a pattern and part are added up. */
static real *weight_sum(const struct plan *p, const struct mix *o, real *dW, int pattern, int part)
{
    return pattern ? p->grads + square_at(o, (pattern - 1) * o->parts + part)
                   : dW + square_at(o, part);
}

/* sum (N, N) += dy x^T for `cols` columns of a group. */
static void weight_grad(const struct plan *p, const struct mix *o, real *sum, struct vec dy,
                         struct vec x, int cols)
{
    operand_pack(p->bf16, p->panels, (struct matrix){x.data, x.type, 1, x.stride}, cols, o->N);
    for (int i = 0; i < o->N; i += p->rows) {
        int rows = part_of(i, o->N, p->rows);
        struct vec from = vec_at(dy, (size_t)i, 0);
        real *to = sum + (ptrdiff_t)i * o->N;
        if (p->bf16) {
            struct matrix a = {from.data, from.type, from.stride, 1};
            p->bf16->multiply(to, o->N, 1, 1, p->bf16->left((uint16_t *)p->block, a, rows, cols),
                              operand_right(p->bf16, p->panels, cols), rows, o->N, cols);
        } else {
            kernels_level()->product->multiply(to, o->N, 1, 1, real_rows(p, from, rows, cols),
                                               p->panels, rows, o->N, cols);
        }
    }
}

/* dbias (N) += the rows' sums over `cols` columns of a group. */
static void bias_grad(const struct plan *p, const struct mix *o, real *dbias, struct vec dy,
                      int cols)
{
    const struct vec ones = {p->ones, TYPE_REAL, 0};
    kernels_level()->tile->dots(p->row, dy, ones, o->N, cols);
    for (int t = 0; t < o->N; t++)
        dbias[t] += p->row[t];
}

/* dW += the sum of a pattern where tokens mix. */
static void add_masked(const struct mix *o, real *dW, const real *sum, int pattern)
{
    for (int t = 0; t < o->N; t++)
        for (int j = 0; j < o->N; j++)
            if (is_kept(o, pattern, t, j))
                dW[t * o->N + j] += sum[t * o->N + j];
}

void kernel_mix_grad(real *dW, real *dbias, struct vec dy, struct vec x, const struct mix *o,
                     real *scratch)
{
    struct plan p;
    make_plan(&p, o, x.type, scratch_aligned(scratch));
    int width = o->D / o->parts, sums = o->patterns * o->parts;
    memset(p.grads, 0, square_at(o, sums) * sizeof *p.grads);
    for (int i = 0; i < DEPTH; i++)
        p.ones[i] = 1;
    for (int g = 0; g < o->groups; g++)
        for (int part = 0; part < o->parts; part++) {
            for (int c = 0; c < width; c += DEPTH) {
                size_t row = (size_t)g * (size_t)o->N, col = (size_t)(part * width + c);
                struct vec dy_part = vec_at(dy, row, col), x_part = vec_at(x, row, col);
                int cols = part_of(c, width, DEPTH);
                if (dW)
                    weight_grad(&p, o, weight_sum(&p, o, dW, pattern_of(o, g), part), dy_part,
                                x_part, cols);
                if (dbias)
                    bias_grad(&p, o, dbias, dy_part, cols);
            }
        }
    for (int i = 0; i < sums && dW; i++)
        add_masked(o, dW + square_at(o, i % o->parts), p.grads + square_at(o, i),
                   i / o->parts + 1);
}
