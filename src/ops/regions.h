/* regions.h - token regions (struct token_regions) as ops keep them: numbered, in the graph's
 * arena. */
#ifndef OPS_REGIONS_H
#define OPS_REGIONS_H

#include "ops/ops.h"

/* number[0 .. tokens - 1]: the regions id[..] of a window, numbered from 0 in the order of their
 * first tokens. Returns how many there are. */
int region_numbers(unsigned char *number, const unsigned char *id, int tokens);

struct regions {
    int windows, tokens;
    unsigned char *number; /* (windows, tokens) */
    int *count;            /* (windows) */
};

/* A numbered copy; NULL for NULL, and where it fails (the graph keeps that). */
const struct regions *regions_copy(struct graph *g, const char *op, const struct token_regions *r);

/* Fails unless x is (B, .., N, d), and N and B are those of the regions (NULL: any). */
void infer_tokens(struct graph *g, struct node *n, const struct regions *o);

/* Those of the window that matrix i of x belongs to. */
struct token_groups regions_of(const struct regions *o, const struct tensor *x, size_t i);

#endif
