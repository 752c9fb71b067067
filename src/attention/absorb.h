/* absorb.h - layers without projections of keys or values that start from a layer which has them:
 * Hosseini and Hosseini, arXiv:2403.01643. With one head the product of two projections is one
 * projection, and the layer computes what the old one did. With several heads no projection left can
 * stand for two, and nothing is merged. */
#ifndef ATTENTION_ABSORB_H
#define ATTENTION_ABSORB_H

#include "attention/adapt.h"

/* For layers whose keys are the tokens: (W_q x + b_q) . (W_k x') = (W_k^T W_q x + W_k^T b_q) . x', and
 * b_k adds the same number to all scores of a query. */
void absorb_keys(const struct adapt *a);

/* For layers whose values are the tokens, mixed with weights that sum to 1:
 * W_o (W_v x + b_v) + b_o = W_o W_v x + (W_o b_v + b_o). */
void absorb_values(const struct adapt *a);

#endif
