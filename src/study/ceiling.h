/* ceiling.h - the rate at which this machine does a model's products, with nothing around them.
 *
 * The products of a step are taken from the recorded graph, and each is timed as the step does it:
 * on real operands, or in bf16 with weights packed beforehand. Each is timed by itself on every
 * thread at once, with operands of the thread's own that stay where caches hold them, over the rows
 * of one slice and, where rows of several images make one product, over those of the whole batch;
 * the faster one counts. What a whole step reaches of that rate says how much the rest of it costs.
 */
#ifndef STUDY_CEILING_H
#define STUDY_CEILING_H

#include "kernels/kernels.h"
#include "train/network.h"

/* c = beta c + op(a) op(b), op(a): (m, k), op(b): (k, n). */
struct ceiling_product {
    int m, n, k;
    enum trans ta, tb;
    enum type type, out; /* of a and b, of c */
    bool packed;         /* b is a weight, packed for kernel_gemm_packed */
    int beta;
    enum { ROWS_FIXED, ROWS_ARE_M, ROWS_ARE_K } rows; /* which of them grows with the images */
    double count; /* in a step; a fraction where the last slice is padded */
    double flops_per_second, flops_per_second_alone; /* with all threads, with one */
};

struct ceiling {
    struct ceiling_product *products; /* each one once, in the order of the graph */
    int count, capacity;
    int slice;    /* images whose rows they have */
    double flops; /* of all of them in a step */
    double share; /* of the graph's MACs that they stand for, forward */
    double other; /* of the graph's MACs, done by ops without products: poolings, convolutions */
    double flops_per_second, flops_per_second_alone; /* all FLOPs by the time that they take */
};

/* The products of a step of `batch` images, without rates. The gradients of a product are products
 * too (not what is computed a second time to save memory). Errors are those of network_create.
 * Freed with ceiling_free. */
MUST_USE enum status ceiling_list(struct ceiling *c, const struct experiment *x,
                                  enum network_mode mode, int batch, struct error *err);

/* Fills in the rates, in about `seconds`. */
MUST_USE enum status ceiling_measure(struct ceiling *c, int batch, int threads, double seconds,
                                     struct error *err);
void ceiling_free(struct ceiling *c);

#endif
