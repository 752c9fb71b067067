/* bench.h - how fast steps are on random images that are already in memory. */
#ifndef STUDY_BENCH_H
#define STUDY_BENCH_H

#include "train/network.h"

struct bench_options {
    enum network_mode mode;
    int batch; /* images in a step */
    int threads;
    double seconds; /* of measuring, after a warm-up of two steps and a quarter of it at least */
    bool profile;        /* also times every node */
    const char *weights; /* a checkpoint; NULL for initial values */
};

/* All nodes of one op, in one step of the whole batch. */
struct bench_op {
    const char *name;
    int nodes;
    double seconds[PASSES]; /* mean, summed over the workers and divided by their number */
    double flops[PASSES];   /* 2 x MACs forward, 4 x MACs backward */
    double bytes[PASSES];   /* of node_bytes */
};

struct bench {
    int batch, slice; /* images in a step, and in one slice of it */
    int lanes;        /* 0 without training */
    size_t params;
    double macs;  /* of one image, forward */
    double flops; /* of a step: 6 x MACs an image in training, else 2 x MACs */
    int steps;    /* measured */
    struct {
        double median, p10, p90, best, mean; /* seconds */
    } step;
    long long peak_rss_bytes;
    double block_bytes; /* step blocks of all threads */

    /* With a profile; the slowest op comes first. A step is ops, update and rest. */
    struct bench_op *ops;
    int op_count;
    struct bench_op mixing; /* those of attention, without its linear projections */
    double update_seconds; /* mean: sum of the lanes, clipping, optimizer; 0 without training */
    double update_bytes;   /* that it reads and writes at the least */
    double rest_seconds;   /* mean: binding slices, copying results, waiting for the last thread */
};

/* A training step is a whole update: forward, backward, sum of the lanes, clipping, optimizer,
 * average. Labels are random too. Errors are those of network_create, checkpoint_load and
 * step_update. Freed with bench_free. */
MUST_USE enum status bench_run(struct bench *b, const struct experiment *x,
                               const struct bench_options *options, struct error *err);
void bench_free(struct bench *b);

#endif
