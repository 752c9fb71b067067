/* permute_tokens.h - an order of tokens, for the op and for those that absorb it. */
#ifndef OPS_PERMUTE_TOKENS_H
#define OPS_PERMUTE_TOKENS_H

/* Row t of each sample's output is row from[t] of its input, which goes to row to[from[t]] = t. */
struct permutation {
    int N; /* tokens of a sample */
    const int *from, *to;
};

#endif
