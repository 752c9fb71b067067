/* linear_head.h - linear attention of one image and head, or of one region of its tokens: what the
 * two orders of evaluation share. For linear_attention.c, linear_order.c and quadratic_order.c.
 *
 *   n = a (f^T 1),  y = a f^T v / den(n)
 *   dp = dy / den(n),  dn = -den'(n) (dy . y) / den(n),  dp v^T + dn 1^T = d(a f^T) */
#ifndef KERNELS_LINEAR_HEAD_H
#define KERNELS_LINEAR_HEAD_H

#include <stdbool.h>

#include "kernels/operand.h"

/* Gradients with data NULL are not wanted. */
struct linear_head {
    const struct linear_attention *o; /* sizes of the scratch, d, D, e, den */
    int N, M;                         /* of this region: at most those of o */
    real eps;                         /* or the constant */
    struct vec a, f, v, y;            /* (N, d), (M, d), (M, e), (N, e); a and f are real */
    real *n;                          /* (N): written forward; not read where den is constant */
    real *state;                      /* linear order: f^T [v, 1], (D, linear_width) */
    bool state_is_known;              /* by backward, from forward */
    struct vec dy, da, df, dv;
    int beta_a, beta_f, beta_v;
};

/* Whether the denominator depends on the features. */
static inline bool linear_is_normalised(const struct linear_attention *o)
{
    return o->den == DEN_ADD || o->den == DEN_CLAMP;
}

/* Columns of [v, 1], or of v where the ones are not needed. */
static inline int linear_width(const struct linear_attention *o)
{
    return o->e + linear_is_normalised(o);
}

/* Reals of the state of one head. */
static inline size_t linear_state_size(const struct linear_attention *o)
{
    return (size_t)o->D * (size_t)linear_width(o);
}

/* 1 / den where that is constant; else 1. */
static inline real linear_factor(const struct linear_head *h)
{
    return h->o->den == DEN_CONST ? 1 / h->eps : 1;
}

/* inverse = 1 / den(n) for `rows` rows. */
static inline void linear_inverse(real *inverse, const struct linear_head *h, const real *n,
                                  int rows)
{
    for (int i = 0; i < rows; i++) {
        real den = h->o->den == DEN_ADD ? n[i] + h->eps : n[i] > h->eps ? n[i] : h->eps;
        inverse[i] = 1 / den;
    }
}

static inline struct matrix linear_rows(struct vec x)
{
    return (struct matrix){x.data, x.type, x.stride, 1};
}

static inline struct matrix linear_transposed(struct vec x)
{
    return (struct matrix){x.data, x.type, 1, x.stride};
}

/* y (rows, D) = the features of x (rows, d), where there is a basis; dx (rows, d) = beta dx + the
 * gradient through them, g (rows, D) being that of the features. */
void linear_expand(struct vec y, const struct linear_attention *o, struct vec x, int rows);
void linear_expand_grad(struct vec dx, int beta, const struct linear_attention *o, struct vec x,
                        struct vec g, int rows);

/* Rows i.. of dp to dp (rows, linear_width), and 1 / den to `inverse` where that depends on n. */
void linear_row_grads(real *dp, real *inverse, const struct linear_head *h, int i, int rows);

/* Behind them dn, where there is one. dots: dy . y, which is the product of a row of weights with
 * its gradient. */
void linear_den_grads(real *dp, const real *inverse, const real *dots, const struct linear_head *h,
                      int i, int rows);

/* y = a (f^T v) / den; state is written. */
size_t linear_order_scratch(const struct linear_attention *o);
void linear_order(const struct linear_head *h, real *scratch);
void linear_order_grad(const struct linear_head *h, real *scratch);

/* y = (a f^T) v / den, some rows at a time. */
size_t quadratic_order_scratch(const struct linear_attention *o);
void quadratic_order(const struct linear_head *h, real *scratch);
void quadratic_order_grad(const struct linear_head *h, real *scratch);

#endif
