/* run.h - running a planned graph over a batch, slice by slice, on several threads.
 *
 * Every thread owns a copy of the nodes whose tensors point into its own step block, so that slices
 * do not meet. A training batch is cut into lanes: lane l runs a fixed, consecutive part of the slices
 * in order and adds weight gradients to its own block (params->grads). Which thread runs a lane does
 * not matter to the result, and graph_reduce adds the lanes up in their order: the bits depend
 * neither on the number of threads nor on timing. Forward alone each slice is a lane. Where there
 * are few lanes, all threads work together on one after another, inside the kernels. A graph with
 * whole_batch is made for the largest batch and runs each as one slice, where the team is all there is. */
#ifndef GRAPH_RUN_H
#define GRAPH_RUN_H

#include "graph/graph.h"
#include "graph/profile.h"

enum { FEED_MAX_OUTPUTS = 4096 };

/* One batch: whole arrays, the sample axis first, `rows` samples each. */
struct feed {
    int rows;
    const void *input[GRAPH_MAX_INPUTS];   /* one for each graph input, of its storage type */
    real *output[FEED_MAX_OUTPUTS];        /* contiguous, one for each graph output; NULL: not wanted */
    const real *seed;                      /* gradient of the loss tensor; NULL: forward alone */
    real *input_grad[GRAPH_MAX_INPUTS];    /* where wanted and planned */
    const real *values;                    /* parameters to use; NULL: params->values */
    uint64_t step, sample;                 /* update, and number of the first sample in it */
    double progress;                       /* of the training, 0 to 1 */
    bool updates;                          /* ops renew their buffers, once (struct op, update) */
    bool keep_grads;                       /* add to the lanes' gradients: accumulation */
    bool same_values; /* the parameters are those of the last run: packed copies still hold */
};

struct runner;

/* How many threads take lanes at a time, each with a step block of its own; 1 where all `threads` work
 * together on a lane. */
int runner_workers(int lanes, int threads);

/* For runs of at most `lanes` lanes on at most `threads` threads; each of runner_workers gets a block
 * of g->block_bytes. The graph is planned and stays with the caller. */
MUST_USE enum status runner_create(struct runner **out, const struct graph *g, int lanes,
                                   int threads, struct error *err);
void runner_destroy(struct runner *r);

/* Where the graph has whole_batch, the batch is one slice of it at most.
 * Forward over the batch, and backward where a seed is given: lanes' gradients are then to be summed
 * with graph_reduce, once an update. Allocates nothing. */
void runner_run(struct runner *r, const struct feed *feed);

/* Adds the gradients of all lanes into lane 0, in their order. */
void graph_reduce(struct params *p, int threads);

/* Runs the batch again on one thread and looks at every value: writes "SCOPE: op" of the first node
 * whose output (or of the first parameter whose gradient) is not finite into text, "" without one. */
void runner_find_bad(struct runner *r, const struct feed *feed, char text[256]);

/* From now on adds the time of each node to `p` (borrowed, for at least as many workers as the runner
 * has); NULL ends it. */
void runner_profile(struct runner *r, struct profile *p);

/* Bytes of all step blocks. */
size_t runner_bytes(const struct runner *r);

#endif
