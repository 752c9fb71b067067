/* graph.h - recording: models call ops, ops append nodes, nothing is computed.
 *
 * The first failure is kept, with scope, op and shapes; from then on every call returns the graph's
 * inert tensor, so that models need no error branches. graph_plan reports it. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "base/arena.h"
#include "graph/op.h"
#include "graph/params.h"

enum { GRAPH_MAX_INPUTS = 8 };

/* What runs when: forward or backward of a node. */
struct graph_step {
    int node;
    bool backward;
};

struct graph_options {
    int batch;        /* samples in one slice */
    int team;         /* threads that work on a slice at a time; 0: 1. More of them still may */
    enum type type;   /* how activations and their gradients are stored; 0: TYPE_REAL */
    bool gradients;   /* for training: plans a backward pass */
    bool noise;       /* as in training: dropout and drop path are active, batch norms use the batch */
    bool trace;       /* keeps the tensors that graph_trace names */
    uint64_t seed;    /* of the noise */
};

struct graph {
    struct graph_options options;
    struct params *params;
    struct arena memory;
    struct error error;      /* first failure; error.status is OK without one */
    struct tensor *inert;
    struct node **nodes;
    int node_count, node_capacity;
    struct tensor **tensors;
    int tensor_count, tensor_capacity;
    struct tensor *inputs[GRAPH_MAX_INPUTS];
    int input_count;
    struct tensor **outputs; /* in the order of graph_output and graph_trace */
    int output_count, output_capacity;
    int fused_outputs; /* those that graph_fuse took away: they stand behind the others */
    struct tensor *loss;     /* where backward starts; its gradient comes from outside */
    char scope[256];
    size_t scope_marks[16];
    int scope_depth;
    int segment;             /* of the nodes that are recorded now */
    bool whole_batch;        /* an op needs all samples at once: a batch has to be one slice */

    /* Set by graph_plan. */
    struct graph_step *steps;
    int step_count, forward_steps; /* the first ones are the forward pass */
    size_t block_bytes;      /* of one slice's values, gradients and scratch */
    size_t value_bytes;      /* the same without reuse: what a plan saves */
};

/* A new graph over `params`; NULL without memory. */
struct graph *graph_create(struct params *params, const struct graph_options *options);
void graph_free(struct graph *g);

/* Scope names, as in graph_scope_push(g, "blocks.%d", i); a pop undoes one push. */
void graph_scope_push(struct graph *g, const char *format, ...) PRINTF_LIKE(2, 3);
void graph_scope_pop(struct graph *g);

/* Keeps the first failure: "SCOPE: text". Returns the inert tensor. */
struct tensor *graph_fail(struct graph *g, enum status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* The i-th graph input of this shape; its first axis is the slice's samples. Fed by graph_run. */
struct tensor *graph_input(struct graph *g, const char *name, enum type type, struct shape shape,
                           bool needs_grad);

/* The parameter SCOPE.name, made if it is new. Weight decay applies to two or more axes. */
struct tensor *graph_param(struct graph *g, const char *name, struct shape shape, struct init init);

/* The same with flags added (PARAM_FROZEN, PARAM_BUFFER) and PARAM_DECAY only if given. */
struct tensor *graph_param_flags(struct graph *g, const char *name, struct shape shape,
                                 struct init init, unsigned flags);

/* A buffer that training draws again, by its init, after every `interval` updates (params_renew); 0: never. Its
 * init is called between updates and should need no memory. */
struct tensor *graph_param_renewed(struct graph *g, const char *name, struct shape shape,
                                   struct init init, int interval);

/* Numbers that never change and that nobody stores or trains; `values`, row-major, are copied. */
struct tensor *graph_constant(struct graph *g, struct shape shape, const real *values);

/* The parameter of that name and shape which another scope has made already, the first of them; made in
 * this scope where there is none. */
struct tensor *graph_param_shared(struct graph *g, const char *name, struct shape shape,
                                  struct init init);

/* Leaf with a gradient, in the graph's storage type, for op samples and checks: a graph input that
 * whoever runs the graph fills. */
struct tensor *graph_sample(struct graph *g, struct shape shape);

/* Labels for samples: 0, 1, 2, 0, 1, ... */
struct tensor *graph_sample_labels(struct graph *g, int count);

#define INPUTS(...)                                                                                \
    (struct tensor *[]){__VA_ARGS__},                                                              \
        (int)(sizeof((struct tensor *[]){__VA_ARGS__}) / sizeof(struct tensor *))

/* Appends a node. options: NULL, or a struct made by graph_copy. Returns its output. */
struct tensor *graph_record(struct graph *g, const struct op *op, const void *options,
                            struct tensor **in, int inputs);

/* The op's options in the graph's arena. */
void *graph_copy(struct graph *g, const void *options, size_t size);

/* For infer: the output, contiguous; a kept value of `count` elements; scratch for one call. */
void graph_out(struct graph *g, struct node *n, enum type type, struct shape shape);
void graph_saved(struct graph *g, struct node *n, int i, enum type type, size_t count);
void graph_scratch(struct graph *g, struct node *n, size_t forward, size_t backward);

/* Makes the tensor an output (its values can be fetched after a run); where the graph traces, under
 * the scope's name. graph_trace does nothing in a graph that does not trace. The first axis counts the
 * slice's samples, or equal parts of each (its windows): ERR_SHAPE for other tensors. */
void graph_output(struct graph *g, struct tensor *t);
void graph_trace(struct graph *g, struct tensor *t);

/* Backward starts here with a gradient given from outside. */
void graph_set_loss(struct graph *g, struct tensor *t);

/* --- views: no node, no copy -------------------------------------------------------------------- */

/* Columns first .. first + count - 1 of the last axis. */
struct tensor *graph_columns(struct graph *g, struct tensor *x, int first, int count);

/* (B, N, H d) seen as (B, H, N, d), head h in columns h d .. (h + 1) d - 1. */
struct tensor *graph_split_heads(struct graph *g, struct tensor *x, int H);

/* (B, H, N, d) seen as (B, N, H d) where memory lies so, as after graph_out_heads; else NULL. */
struct tensor *graph_merge_heads(struct graph *g, struct tensor *x);

/* For infer: the output (B, H, N, d) in memory laid out as (B, N, H d). */
void graph_out_heads(struct graph *g, struct node *n, enum type type, struct shape shape);

/* For infer: an output of x's shape, in memory (B, N, H d) where x is (B, H, N, d) and its heads lie
 * side by side, so that merging them stays a view; else contiguous. */
void graph_out_like(struct graph *g, struct node *n, enum type type, const struct tensor *x);

/* The same elements in another shape; x must be contiguous. */
struct tensor *graph_reshape(struct graph *g, struct tensor *x, struct shape shape);

/* --- after recording ---------------------------------------------------------------------------- */

/* A part of the model begins (a block): what graph_recompute may run twice. Nodes before the first call
 * and behind the last one are always kept. */
void graph_segment(struct graph *g);

/* Keeps only what enters each segment, and computes the rest again before its backward pass: the same
 * bits, for about half of the memory and a third more time. After graph_fuse. */
void graph_recompute(struct graph *g);

/* Lets ops absorb their only readers (struct op, absorb): fewer passes over memory, the same values up
 * to rounding. Traced outputs that are then never stored are no outputs any more. */
void graph_fuse(struct graph *g);

/* Finds the last reader of every value and gradient, gives each its place in one block (reused), and
 * sets beta. Reports the first failure of recording. */
MUST_USE enum status graph_plan(struct graph *g, struct error *err);

/* For graph_plan: puts the order in g->steps. False without memory. */
bool graph_schedule(struct graph *g);

/* For graph_recompute: appends a node that is complete; a tensor like t, at a place of its own. */
void graph_append(struct graph *g, struct node *n);
struct tensor *graph_tensor_copy(struct graph *g, const struct tensor *t);

/* Multiply-adds of one forward pass over the whole slice, by one node and by all. */
double node_macs(const struct node *n);
double graph_macs(const struct graph *g);

#endif
