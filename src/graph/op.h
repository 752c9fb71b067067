/* op.h - what an op is, and a use of it in a graph. An op is one file in ops/ and one line in ops.def. */
#ifndef GRAPH_OP_H
#define GRAPH_OP_H

#include <stdint.h>

#include "graph/tensor.h"
#include "kernels/kernels.h"

struct graph;
struct node;
struct params;

enum { OP_MAX_INPUTS = 6, OP_MAX_SAVED = 3 };

/* What backward reads beside the output's gradient; the planner keeps these alive. */
#define READS_IN(i) (1u << (i))
#define READS_OUT (1u << 16)

/* `takes`: storage types (TYPE_REAL | TYPE_BF16), and which inputs may be strided. Where an input does
 * not suit, recording inserts a copy. */
#define TAKES_ROWS (1u << 8)  /* inputs may have one stride between rows */
#define TAKES_HEADS (1u << 9) /* inputs (B, H, N, d) may have any outer strides */

/* Products of one size that a node's forward does: op(a) (m, k) times op(b) (k, n), `count` times.
 * Those of backward follow: the gradient's with the other operand, where an operand needs its own. */
struct product {
    int m, n, k;
    enum trans ta, tb;
    int a, b;      /* the operands: inputs of the node, or PRODUCT_BETWEEN */
    bool real;     /* whatever the operands are stored as */
    bool all_rows; /* m counts rows of all samples: more of these give more rows, not more products */
    double count;
};
enum { PRODUCT_BETWEEN = -1 }; /* a value that exists only while the node runs */

typedef void product_visit(const struct product *p, void *context);

struct op {
    const char *name;

    /* Checks the inputs (graph_fail), sets the output (graph_out), saved values and scratch. */
    void (*infer)(struct graph *g, struct node *n);

    /* Visits the products of one forward, in their order. NULL: none. */
    void (*products)(const struct node *n, product_visit *visit, void *context);

    /* Multiply-adds of one forward, as the paper counts them. NULL: those of its products. */
    double (*macs)(const struct node *n);

    /* Computes out, and saved. */
    void (*forward)(const struct node *n);

    /* Writes the gradient of every input whose grad is not NULL, honouring beta[i], in the order of
     * the inputs. */
    void (*backward)(const struct node *n);

    /* Renews the buffers among its inputs by what forward has just found. Called once behind the
     * forward of a batch that is trained on (feed->updates), never where forward is run again; the op
     * sets g->whole_batch. NULL: no buffer changes. */
    void (*update)(const struct node *n);

    unsigned backward_reads;
    unsigned takes;

    /* Lets n compute its only reader's output as well (graph_fuse). False: not possible. NULL: never.
     * The reader's output, options and saved values then belong to n. */
    bool (*absorb)(struct graph *g, struct node *n, const struct node *reader);

    /* The smallest graph worth checking. */
    struct tensor *(*sample)(struct graph *g);
};

/* Where in training a node runs: what random numbers may depend on, and what is there. */
struct run {
    uint64_t step;   /* update, counted from 0 */
    double progress; /* of the training, 0 to 1; 0 where it has no end */
    uint64_t sample; /* number of the slice's first sample in the global batch */
    int present;     /* samples of the slice; padding follows them */
    int batch;       /* of how many */
    const struct params *params;
};

struct node {
    const struct op *op;
    const void *options; /* the op's own struct */
    const char *scope;   /* where it was recorded: "blocks.3.attn" */
    struct tensor *in[OP_MAX_INPUTS]; /* NULL where an optional input is absent */
    int inputs;
    struct tensor *out;
    struct tensor *saved[OP_MAX_SAVED];      /* written by forward, kept for backward */
    struct tensor *scratch, *scratch_backward; /* during the call alone */
    int beta[OP_MAX_INPUTS];                 /* 0: first writer of that gradient, 1: add to it */
    bool clear[OP_MAX_INPUTS];               /* the whole gradient is zeroed before backward runs */
    bool runs_backward;
    int segment;                             /* of the model: see graph_segment */
    bool once, again;                        /* recomputed: the original, its copy */
    const struct run *run;
};

#endif
