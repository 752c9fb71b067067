/* lara_sequence.h - one sequence of one head of op_lara: what it reads, and room for what lies between. */
#ifndef OPS_LARA_SEQUENCE_H
#define OPS_LARA_SEQUENCE_H

#include "ops/ops.h"

/* Matrices over proposals and tokens are (C, n). */
struct lara_sequence {
    enum lara_mis mis;
    double alpha, scale;
    int n, C, d, e;
    struct row_order order;                /* of its tokens; at NULL: as they lie */
    struct vec q, k, v, q_bar, mu, omega;  /* q_bar: with LARA_OPT */
    real *tokens[4];                       /* (n, .): q, k, v and gradients, gathered */
    real *r, *t, *w, *M, *P, *f;           /* (C, n) three times, (C, C) twice, (C, e) */
    real *kappa, *eta;                     /* (C) */
    real *half, *mean;                     /* (n or C): s/2 |k|^2, s/2 |mu|^2; (n): mean of t */
    real *row;                             /* (max of d and e) */
    real *dw, *dl, *dM, *df, *db, *sum_dl; /* backward: as w, w, M, f, kappa, kappa */
};

/* Inputs of the op. */
enum { LARA_Q, LARA_K, LARA_V, LARA_Q_BAR, LARA_MU, LARA_OMEGA };

struct lara_grads {
    struct vec q, k, v, q_bar, mu, omega; /* data NULL: none is wanted */
    const int *beta;                      /* of each input */
};

/* Computes all but the gradients: w, (C, n), and f, (C, e), make the output w^T f. */
void lara_weigh(struct lara_sequence *k);

/* Gradients from dy, (n, e), behind lara_weigh; dy may be tokens[3]. Those of mu are written before those of
 * omega, so that they may be the same memory. */
void lara_sequence_grads(struct lara_sequence *k, const struct lara_grads *to, struct vec dy);

static inline struct vec lara_rows(real *data, int cols)
{
    return (struct vec){data, TYPE_REAL, cols};
}

#endif
