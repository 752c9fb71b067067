/* absorb.h - layers without projections of keys or values that start from a layer which has them:
 * Hosseini and Hosseini, arXiv:2403.01643. With one head the product of two projections is one
 * projection, and the layer computes what the old one did. With several heads no projection left can
 * stand for two, and what is nearest is taken. */
#ifndef ATTENTION_ABSORB_H
#define ATTENTION_ABSORB_H

#include "attention/adapt.h"

/* For layers whose keys are the tokens: with one head (W_q x + b_q) . (W_k x') = (W_k^T W_q x +
 * W_k^T b_q) . x', and b_k adds the same number to all scores of a query. Head h sees the columns h of x'
 * alone: W_q and b_q of each head times the transposed part of W_k that maps these columns to the head.
 * No other map of the head is nearer in squared scores where the columns of the tokens are uncorrelated. */
void absorb_keys(const struct adapt *a);

/* For layers whose values are the tokens, mixed with weights that sum to 1:
 * W_o (W_v x + b_v) + b_o = W_o W_v x + (W_o b_v + b_o). With several heads the columns h of x are mixed
 * with the weights of head h in place of those of each head: exact where all heads weigh alike, and for
 * what all tokens have in common. */
void absorb_values(const struct adapt *a);

#endif
