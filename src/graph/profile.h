/* profile.h - how long each node takes while a runner runs, and what memory it must touch. */
#ifndef GRAPH_PROFILE_H
#define GRAPH_PROFILE_H

#include "graph/graph.h"

enum pass { PASS_FORWARD, PASS_BACKWARD, PASSES };

/* Sums over all that ran since profile_create or profile_clear. */
struct profile {
    int nodes, workers;
    double *seconds; /* (workers, nodes, PASSES): each worker adds to its own part */
};

/* For a runner of `g` with at most `workers` threads. NULL without memory. */
struct profile *profile_create(const struct graph *g, int workers);
void profile_destroy(struct profile *p);
void profile_clear(struct profile *p);

/* Seconds of node number `node`, summed over the workers. */
double profile_seconds(const struct profile *p, int node, enum pass pass);

/* Adds the time since *since to the node, and sets *since to now. */
void profile_add(struct profile *p, int worker, int node, enum pass pass, double *since);

/* Bytes that one pass over the node reads and writes at the least: each operand once, in its
 * storage type. Backward counts what backward_reads says, the gradients that it writes, and their
 * old values where it adds to them; it is 0 for a node without a backward pass. */
double node_bytes(const struct node *n, enum pass pass);

#endif
