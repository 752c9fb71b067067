/* permute_tokens.h - an order of tokens, for the op and for those that absorb it. */
#ifndef OPS_PERMUTE_TOKENS_H
#define OPS_PERMUTE_TOKENS_H

#include "kernels/kernels.h"

/* Row t of a sample's output is row from.at[t] of its input, and to.at[from.at[t]] = t. */
struct permutation {
    struct row_order from, to;
};

#endif
