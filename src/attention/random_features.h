/* random_features.h - random projections that attentions with random features share: a matrix for each
 * head that is not trained, drawn from the seed of the config and stored with the parameters. */
#ifndef ATTENTION_RANDOM_FEATURES_H
#define ATTENTION_RANDOM_FEATURES_H

#include "attention/linear.h"

/* The options m (int), orthogonal, scaling (bool) and redraw (int) of a struct of options. */
#define FIELDS_RANDOM_MATRIX(T)                                                                    \
    FIELD_INT(T, m, 64, 1, 4096, "rows of the random matrix of each head"),                        \
        FIELD_BOOL(T, orthogonal, true, "rows of a block of D / heads are orthogonal"),            \
        FIELD_BOOL(T, scaling, false, "all rows are sqrt(D / heads) long, else of drawn lengths"), \
        FIELD_INT(T, redraw, 1000, 0, 1 << 30,                                                     \
                  "updates after which the matrix is drawn again; 0: never")

struct random_matrix {
    int m; /* rows in each head */
    bool orthogonal, scaling;
    int redraw; /* updates after which training draws it again; 0: never */
};

/* The buffer `omega`, (H, m, d): rows of a normal distribution. orthogonal: those of each block of d rows
 * (the last block may have fewer) are a random orthogonal matrix, each of the length of a row of its own
 * that is drawn anew; scaling: all of length sqrt d. Choromanski et al., arXiv:2009.14794, section 2.4.
 * Stream "init:SCOPE.omega", for the n-th time "init:SCOPE.omega:n". Evaluation takes it as it is. */
struct tensor *random_matrix(struct graph *g, const struct attn_site *s, struct random_matrix o);

/* Products of heads (B, H, N, d) with the rows: (B, H, N, m), real. */
struct tensor *random_project(struct graph *g, struct tensor *x, struct tensor *omega);

/* d^(-1/4), by which queries and keys are multiplied before their features are taken. */
double random_scale(const struct attn_site *s);

#endif
