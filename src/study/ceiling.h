/* ceiling.h - the rate at which this machine does a model's products, with nothing around them.
 *
 * The products of a step are taken from the recorded graph. Each is timed by itself on every thread
 * at once, with operands of the thread's own that stay where caches hold them, over the rows of one
 * slice and, where rows of several images make one product, over those of the whole batch; the
 * faster one counts. What a whole step reaches of that rate says how much the rest of it costs. */
#ifndef STUDY_CEILING_H
#define STUDY_CEILING_H

#include "kernels/kernels.h"
#include "train/network.h"

/* c = op(a) op(b), op(a): (m, k), op(b): (k, n). */
struct product {
    int m, n, k;
    enum trans ta, tb;
    int beta;                                         /* 1: added to c */
    enum { ROWS_FIXED, ROWS_ARE_M, ROWS_ARE_K } rows; /* which of them grows with the images */
    double count; /* in a step; a fraction where the last slice is padded */
    double flops_per_second, flops_per_second_alone; /* with all threads, with one */
};

struct ceiling {
    struct product *products; /* each one once, in the order of the graph */
    int count, capacity;
    int slice;    /* images whose rows they have */
    double flops; /* of all of them in a step */
    double share; /* of the graph's MACs that they stand for, forward */
    double flops_per_second, flops_per_second_alone; /* all FLOPs by the time that they take */
};

/* The products of a step of `batch` images, without rates. The gradients of a product are products
 * too (not what a fused op computes again). Errors are those of network_create. Freed with
 * ceiling_free. */
MUST_USE enum status ceiling_list(struct ceiling *c, const struct experiment *x,
                                  enum network_mode mode, int batch, struct error *err);

/* Fills in the rates, in about `seconds`. */
MUST_USE enum status ceiling_measure(struct ceiling *c, int batch, int threads, double seconds,
                                     struct error *err);
void ceiling_free(struct ceiling *c);

#endif
