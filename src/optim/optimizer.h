/* optimizer.h - updates of parameters from gradients. One optimizer: a file and a line in
 * optimizers.def. */
#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H

#include "base/status.h"
#include "config/field.h"
#include "graph/params.h"

/* Options that all share, first in each options struct. */
struct optimizer_base {
    double lr, weight_decay;
};

/* Name, summary and fields stand in the file's `const struct kind NAME_optimizer`. */
struct optimizer {
    int moments; /* blocks in params */
    bool whole;  /* an update has to see all elements of a parameter at once; else any part of them */

    /* What the ranges of single fields cannot say: ERR_INPUT with "KEY: WHAT (HINT)". NULL:
     * nothing. */
    enum status (*check)(const void *options, struct error *err);

    /* Updates `count` elements from `at` of all blocks; `update` counts from 1. scale multiplies
     * the gradient (clipping); decay is the weight decay of these elements. */
    void (*update)(const void *options, struct params *p, size_t at, size_t count, double lr,
                   double decay, double scale, long long update);
};

const struct kind *optimizer_kinds(int i); /* kind->impl is the struct optimizer */

/* The struct optimizer behind a choice that was read, and its shared options. */
const struct optimizer *optimizer_of(const struct choice *optimizer);
const struct optimizer_base *optimizer_base_of(const struct choice *optimizer);

/* ERR_INPUT with "KEY: WHAT (HINT)" where options do not fit together. */
MUST_USE enum status optimizer_check(const struct choice *optimizer, struct error *err);

/* L2 norm of all trained gradients in lane 0 (after graph_reduce); summed in double, in an order
 * that does not depend on the number of threads. */
double optimizer_grad_norm(const struct params *p, int threads);

/* One update of all trained parameters; weight decay where PARAM_DECAY is set. rates: a factor of the
 * learning rate for each parameter of the list, NULL: 1. The bits do not depend on the number of
 * threads. */
void optimizer_step(const struct choice *optimizer, struct params *p, const double *rates, double lr,
                    double scale, long long update, int threads);

/* p->average = decay average + (1 - decay) values; frozen parameters and buffers are copied. */
void optimizer_average(struct params *p, double decay, int threads);

#endif
