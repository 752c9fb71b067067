/* tables.h - what each instruction set provides: one table per isa_*.c file, with the functions of
 * kernels.h under their names without `kernel_`. Only dispatch.c reads the tables of all sets. */
#ifndef KERNELS_TABLES_H
#define KERNELS_TABLES_H

#include "kernels/kernels.h"
#include "kernels/product.h"
#include "kernels/sequence.h"
#include "kernels/tile.h"

struct kernels_elementwise {
    void (*accumulate)(struct vec y, int beta, struct vec x, double scale, size_t rows,
                       size_t cols);
    void (*add)(struct vec y, struct vec a, struct vec b, size_t rows, size_t cols);
    void (*multiply)(struct vec y, int beta, struct vec a, struct vec b, size_t rows, size_t cols);
    void (*add_rows)(struct vec y, struct vec x, const real *p, size_t rows, size_t cols,
                     size_t period);
    void (*scale_rows)(struct vec y, int beta, struct vec x, const real *factor, size_t rows,
                       size_t cols, size_t period);
    void (*scale_cols)(struct vec y, int beta, struct vec x, const real *gamma, size_t rows,
                       size_t cols);
    void (*dropout)(struct vec y, int beta, struct vec x, size_t rows, size_t cols, size_t period,
                    double p, uint64_t stream, uint64_t step, uint64_t sample);
};

struct kernels_map {
    void (*map)(struct vec y, struct vec x, size_t rows, size_t cols);
    void (*map_grad)(struct vec dx, int beta, struct vec x, struct vec dy, size_t rows,
                     size_t cols);
};

struct kernels_columns {
    void (*add_rows_grad)(real *dp, struct vec dy, size_t rows, size_t cols, size_t period);
    void (*scale_cols_grad)(real *dgamma, struct vec x, struct vec dy, size_t rows, size_t cols);
    void (*column_sums)(real *sums, struct vec x, size_t rows, size_t cols);
};

struct kernels_softmax {
    void (*softmax)(struct vec y, struct vec x, size_t rows, size_t cols);
    void (*softmax_grad)(struct vec dx, int beta, struct vec y, struct vec dy, size_t rows,
                         size_t cols);
    void (*cross_entropy)(real *loss, real *p, struct vec x, const int *label, double smoothing,
                          size_t rows, size_t cols);
    void (*cross_entropy_grad)(struct vec dx, int beta, const real *p, const real *dloss,
                               const int *label, double smoothing, size_t rows, size_t cols);
};

struct kernels_norm {
    void (*layer_norm)(struct vec y, real *mean, real *rstd, struct vec x, const real *weight,
                       const real *bias, double eps, size_t rows, size_t cols);
    void (*layer_norm_grad)(struct vec dx, int beta, real *dweight, real *dbias, struct vec x,
                            const real *mean, const real *rstd, const real *weight, struct vec dy,
                            size_t rows, size_t cols);
    void (*normalize)(struct vec y, real *norm, struct vec x, int groups, double eps, size_t rows,
                      size_t cols);
    void (*normalize_grad)(struct vec dx, int beta, struct vec y, const real *norm, struct vec dy,
                           int groups, double eps, size_t rows, size_t cols);
};

struct kernels_batch_norm {
    /* mean and sum of squared deviations of `seen` rows become those of `seen` + rows; 0: not read */
    void (*moments)(real *mean, real *squares, size_t seen, struct vec x, size_t rows, size_t cols);
    /* y = (x - mean) scale + bias */
    void (*normalize)(struct vec y, struct vec x, const real *mean, const real *scale,
                      const real *bias, size_t rows, size_t cols);
    /* sum += sum of dy, along += sum of dy (x - mean) */
    void (*sums)(real *sum, real *along, struct vec dy, struct vec x, const real *mean, size_t rows,
                 size_t cols);
    /* dx = beta dx + scale (dy - offset - (x - mean) slope) */
    void (*grad)(struct vec dx, int beta, struct vec dy, struct vec x, const real *mean,
                 const real *scale, const real *offset, const real *slope, size_t rows,
                 size_t cols);
};

struct kernels_tokens {
    void (*softmax)(struct vec y, struct vec x, const struct token_groups *groups, size_t rows,
                    size_t cols);
    void (*softmax_grad)(struct vec dx, int beta, struct vec y, struct vec dy,
                         const struct token_groups *groups, size_t rows, size_t cols);
    void (*mean)(struct vec y, int beta, double own, double share, struct vec x,
                 const struct token_groups *groups, size_t rows, size_t cols);
};

struct kernels_outer {
    void (*outer)(struct vec y, struct vec x, bool symmetric, int groups, size_t rows,
                  size_t cols);
    void (*outer_grad)(struct vec dx, int beta, struct vec x, struct vec dy, bool symmetric,
                       int groups, size_t rows, size_t cols);
};

/* Of one head of one image; token_sets and set_softmax as in kernels.h. */
struct kernels_sets {
    void (*mean)(struct vec y, struct vec x, const struct token_sets *sets, double divisor, int d);
    /* dx (N, d) += the gradient */
    void (*mean_grad)(real *dx, struct vec dy, const struct token_sets *sets, double divisor, int d);
    void (*softmax)(struct vec y, real *weight, struct vec q, struct vec k, struct vec v,
                    const struct set_softmax *o);
    /* dk (N, d), dv (N, e) += the gradients, NULL: left out; da: room for the largest set */
    void (*softmax_grad)(struct vec dq, int beta, real *dk, real *dv, struct vec q, struct vec k,
                         struct vec v, struct vec dy, const real *weight, real *da,
                         const struct set_softmax *o);
};

struct kernels_taps {
    void (*taps)(struct vec y, int beta, struct vec x, const real *w, const real *bias,
                 const int *from, size_t rows, int taps, size_t cols);
    void (*taps_grad)(real *dw, struct vec x, struct vec dy, const int *from, size_t rows,
                      int taps, size_t cols);
    void (*tap_rows)(struct vec y, int beta, struct vec x, const real *factor, const int *from,
                     size_t rows, int taps, size_t cols);
};

enum { WKV_COLS = 32 }; /* columns of a block, at most */

struct kernels_wkv {
    void (*bi_wkv)(struct vec y, struct vec zeta, struct vec k, struct vec v, const real *decay,
                   const real *first, const struct row_sequence *rows, size_t cols, real *scratch);
    void (*bi_wkv_grad)(struct vec dk, int beta_k, struct vec dv, int beta_v, real *ddecay,
                        real *dfirst, struct vec k, struct vec v, struct vec y, struct vec zeta,
                        struct vec dy, const real *decay, const real *first,
                        const struct row_sequence *rows, size_t cols, real *scratch);
};

enum { SCAN_COLS = 16, SCAN_TILE = 16 }; /* channels of a lane, at most; rows of a tile */

struct kernels_scan {
    void (*selective_scan)(struct vec y, const struct scan *s);
    void (*selective_scan_grad)(const struct scan_grad *g, const struct scan *s, real *scratch);
};

struct kernels_optim {
    void (*sum_into)(real *sum, const real *x, size_t n);
    double (*sum_squares)(const real *x, size_t n);
    void (*adamw)(real *w, real *m, real *v, const real *g, size_t n, const struct adamw *o);
    void (*sgd)(real *w, real *m, const real *g, size_t n, const struct sgd *o);
    void (*average)(real *y, const real *x, size_t n, double decay);
};

struct kernels_epilogue {
    /* Rows and columns of c from (row, col) on: c = the epilogue of x, (rows, cols), rows `stride`
     * apart. x may be that part of c. */
    void (*finish)(struct vec c, const real *x, ptrdiff_t stride, const struct epilogue *e,
                   size_t row, size_t col, int rows, int cols);
};

#define KERNELS_TABLES_OF(isa)                                                                     \
    extern const struct kernels_elementwise elementwise_##isa;                                     \
    extern const struct kernels_map map_##isa[MAP_COUNT], gelu_##isa;                              \
    extern const struct kernels_columns columns_##isa;                                             \
    extern const struct kernels_softmax softmax_##isa;                                             \
    extern const struct kernels_norm norm_##isa;                                                   \
    extern const struct kernels_batch_norm batch_norm_##isa;                                       \
    extern const struct kernels_tokens tokens_##isa;                                               \
    extern const struct kernels_outer outer_##isa;                                                 \
    extern const struct kernels_sets sets_##isa;                                                   \
    extern const struct kernels_taps taps_##isa;                                                   \
    extern const struct kernels_wkv wkv_##isa;                                                     \
    extern const struct kernels_scan scan_##isa;                                                   \
    extern const struct kernels_optim optim_##isa;                                                 \
    extern const struct kernels_product product_##isa;                                             \
    extern const struct kernels_epilogue epilogue_##isa;                                           \
    extern const struct kernels_tile tile_##isa

KERNELS_TABLES_OF(portable);
#ifndef ISA_ONLY_PORTABLE
KERNELS_TABLES_OF(avx2);
KERNELS_TABLES_OF(avx512);
KERNELS_TABLES_OF(avx512bf16);
extern const struct kernels_bf16 bf16_avx512bf16;
extern const struct kernels_bf16 bf16_amx;
#endif

#endif
