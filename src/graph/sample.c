/* sample.c - leaves for the checks that every op and variant passes. */
#include "graph/graph.h"

/* Samples are graph inputs; whoever runs the graph fills them (study/gradcheck.c). */
struct tensor *graph_sample(struct graph *g, struct shape shape)
{
    return graph_input(g, "sample", g->options.type, shape, true);
}

struct tensor *graph_sample_labels(struct graph *g, int count)
{
    return graph_input(g, "labels", TYPE_INT, SHAPE(count), false);
}
