/* sequence.h - kernels along maps and sequences: sums of rows that each row picks by a table, and
 * scans from row to row. As those of kernels.h. */
#ifndef KERNELS_SEQUENCE_H
#define KERNELS_SEQUENCE_H

#include <stddef.h>

#include "base/real.h"
#include "kernels/vec.h"

/* y[t] = beta y[t] + bias + sum over k of w[k] * x[from[t, k]], element by element; a tap that is
 * -1 reads nothing. w: (taps, cols)  bias: (cols) or NULL  from: (rows, taps), rows of x. */
void kernel_taps(struct vec y, int beta, struct vec x, const real *w, const real *bias,
                 const int *from, size_t rows, int taps, size_t cols);

/* dw[k] += sum over t of x[from[t, k]] * dy[t] */
void kernel_taps_grad(real *dw, struct vec x, struct vec dy, const int *from, size_t rows, int taps,
                      size_t cols);

/* y[t] = beta y[t] + sum over k of factor[t, k] x[from[t, k]]; factor NULL: 1. */
void kernel_tap_rows(struct vec y, int beta, struct vec x, const real *factor, const int *from,
                     size_t rows, int taps, size_t cols);

/* Some rows of a matrix, as they follow one another. */
struct row_sequence {
    const int *at;
    size_t count;
};

/* Scratch of both directions for sequences of so many rows, in reals. */
size_t kernel_bi_wkv_scratch(size_t rows);

/* Bi-WKV along a sequence of T rows, column by column: with w = decay / T and u = first / T
 *   y[t] = sum over i of P[t, i] v[i],  log P[t, i] = k[i] + (i == t ? u : - w (|t - i| - 1)) -
 * zeta[t], zeta[t] such that the sum of P[t, i] is 1; written, real. Duan et al., arXiv:2403.02308,
 * section 3.2, by two scans in time O(T) whose states are real. Finite for all finite numbers. */
void kernel_bi_wkv(struct vec y, struct vec zeta, struct vec k, struct vec v, const real *decay,
                   const real *first, const struct row_sequence *rows, size_t cols, real *scratch);

/* dk = beta_k dk + .., dv = beta_v dv + .. (each may have data NULL), ddecay += .., dfirst += .. */
void kernel_bi_wkv_grad(struct vec dk, int beta_k, struct vec dv, int beta_v, real *ddecay,
                        real *dfirst, struct vec k, struct vec v, struct vec y, struct vec zeta,
                        struct vec dy, const real *decay, const real *first,
                        const struct row_sequence *rows, size_t cols, real *scratch);

enum { SCAN_STATES = 256 }; /* of a channel, at most */

/* A selective scan along a sequence of rows: for each column, with `states` numbers h that start as
 * 0, h = exp(dt A) h + dt x B,  y = h . C + D x.  Gu and Dao, arXiv:2312.00752, eq. 2, algorithm 2.
 */
struct scan {
    struct vec x, dt;
    const real *A;     /* (states, cols) */
    const real *B, *C; /* (rows of x, states) */
    const real *D;     /* (cols) */
    int states;
    size_t cols;
    struct row_sequence rows;
};

void kernel_selective_scan(struct vec y, const struct scan *s);

/* dx = beta_x dx + .., ddt = beta_dt ddt + .. (each may have data NULL); the others are added to.
 */
struct scan_grad {
    struct vec dy, dx, ddt;
    int beta_x, beta_dt;
    real *dA, *dB, *dC, *dD;
};

/* Scratch, in reals. */
size_t kernel_selective_scan_scratch(size_t rows, int states);

void kernel_selective_scan_grad(const struct scan_grad *g, const struct scan *s, real *scratch);

#endif
