/* layer_norm.h - what the op does for those that it is merged with by graph_fuse. */
#ifndef OPS_LAYER_NORM_H
#define OPS_LAYER_NORM_H

#include "graph/graph.h"
#include "ops/permute_tokens.h"

/* Makes n, which puts tokens into an order, the layer norm that reads them: it will gather its rows, of
 * one or more tokens each, itself. False where it cannot. */
bool layer_norm_gathers(struct graph *g, struct node *n, const struct node *norm,
                        const struct permutation *order);

#endif
