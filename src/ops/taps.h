/* taps.h - which tokens each token reads, tap by tap, and which read it: what convolutions, means
 * and shifts of maps and sequences have in common. In the graph's arena. */
#ifndef OPS_TAPS_H
#define OPS_TAPS_H

#include "ops/ops.h"

struct taps {
    int windows, tokens, count; /* windows of an image, 1 without regions; taps of each token */
    int first;                  /* tokens before this one have no taps */
    int *from;                  /* (windows, tokens, count): the token read, -1: none */
    int *to;                    /* (windows, tokens, count): the token that reads this one with the
                                   same tap, -1: none */
    int alike;                  /* neighbouring channels that share a filter */
};

/* No tap reads anything yet. regions NULL: one window. NULL where it fails (the graph keeps that).
 */
struct taps *taps_create(struct graph *g, const char *op, int tokens, int count,
                         const struct token_regions *regions);

/* Lets tap k of token t read token `from`, which no other token reads with that tap. */
void taps_set(struct taps *o, int window, int t, int k, int from);

/* Tap k of each patch reads the patch offset[k][0] rows below and offset[k][1] columns to the right
 * of it, where that is on the map and of the same region; the tokens before the map have no taps.
 * ERR_SHAPE where the map has not this number of tokens. */
struct taps *taps_of_map(struct graph *g, const char *op, int tokens, const struct token_map *map,
                         int (*offset)[2], int count);

/* The offsets of the rows x columns patches around one, row by row, in the graph's arena. */
int (*taps_around(struct graph *g, int rows, int columns))[2];

/* Fails unless x is (B, N, C) with N and B as the taps have them. */
void infer_taps(struct graph *g, struct node *n, const struct taps *o);

/* The table of sample b: from, or to, its first tokens' taps first. */
const int *taps_from(const struct taps *o, int b);
const int *taps_to(const struct taps *o, int b);

/* --- a convolution along the taps, each channel by itself --------------------------------------
 */

/* Inputs x, weight (F, .., taps), a parameter, and bias (F) or NULL; channel c has filter
 * f = (c div alike) mod F, F alike divides C:
 *   y[t, c] = bias[f] + sum over k of weight[f, k] x[from[t, k], c], 0 for tokens without taps
 *   dx[j, c] = sum over k of weight[f, k] dy[to[j, k], c],  dweight[f, k] = sum over t and the
 *   channels of f of x[from[t, k], c] dy[t, c],  dbias[f] = that sum of dy[t, c]
 * The node's options are the taps. */
void taps_conv_infer(struct graph *g, struct node *n);
double taps_conv_macs(const struct node *n);
void taps_conv_forward(const struct node *n);
void taps_conv_backward(const struct node *n);

#endif
