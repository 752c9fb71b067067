/* sequences.h - token sequences (struct token_sequence) as ops keep them: lists of rows, in the
 * graph's arena. */
#ifndef OPS_SEQUENCES_H
#define OPS_SEQUENCES_H

#include "kernels/sequence.h"
#include "ops/ops.h"

struct sequences {
    int windows, tokens; /* windows of an image: 1 without regions */
    int *at;             /* (windows, tokens): tokens as they follow one another, sequence behind
                            sequence */
    int *length;         /* (windows, tokens): of the sequences of a window; 0 behind the last */
    int longest;
};

/* NULL where it fails (the graph keeps that). */
const struct sequences *sequences_create(struct graph *g, const char *op, int tokens,
                                         const struct token_sequence *sequence);

/* Fails unless input i is (B, N, ..) of rank 3 with N and B as the sequences have them. */
void infer_sequences(struct graph *g, struct node *n, const struct sequences *o, int i);

/* Goes on to the next sequence of sample b, from an empty one to the first; false behind the last.
 */
bool sequences_next(const struct sequences *o, int b, struct row_sequence *at);

#endif
