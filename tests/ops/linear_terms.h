/* linear_terms.h - denominators, polynomials and regions that linear attention is tested with. */
#ifndef TESTS_OPS_LINEAR_TERMS_H
#define TESTS_OPS_LINEAR_TERMS_H

#include <string.h>

#include "ops/ops.h"

static inline struct linear_terms in_order(struct linear_terms terms, bool quadratic)
{
    terms.order = quadratic ? ORDER_QUADRATIC : ORDER_LINEAR;
    return terms;
}

static const struct linear_terms dens[] = {
    {.den = DEN_ADD, .eps = 0.3},   {.den = DEN_ADD, .eps = 0.05, .per_key = true},
    {.den = DEN_CLAMP, .eps = 1.2}, {.den = DEN_NONE},
    {.den = DEN_CONST, .eps = 3},   {.den = DEN_CONST, .eps = 0.7, .per_key = true},
};

enum { DENS = sizeof dens / sizeof *dens };

static const enum linear_basis bases[] = {BASIS_SYM, BASIS_FULL, BASIS_KRON};

/* Constant, linear and square terms, and without some of them. */
static const double polynomials[][3] = {{1, 0.5, 0.25}, {0, 0, 1.5}, {0.7, 0.4, 0}, {1, 0, 0.3}};

enum {
    BASES = sizeof bases / sizeof *bases,
    POLYNOMIALS = sizeof polynomials / sizeof *polynomials
};

static inline void set_polynomial(struct linear_terms *t, int basis, int polynomial)
{
    t->basis = bases[basis];
    memcpy(t->c, polynomials[polynomial], sizeof t->c);
}

enum { IMAGES = 2, WINDOWS = 3, HEADS = 3, TOKENS = 6 };

static const unsigned char region[WINDOWS * TOKENS] = {5, 5, 5, 5, 5, 5, 0, 1, 0,
                                                       2, 1, 0, 3, 4, 4, 4, 4, 4};
static const struct token_regions regions = {WINDOWS, TOKENS, region};

#endif
