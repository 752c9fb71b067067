/* metrics.h - what is counted over predictions. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include "base/real.h"

/* Position of the label among the classes by falling logit, from 0: classes that are strictly more
 * likely, or equally likely with a smaller index, come before it. A logit that is NaN comes last.
 * The sample is a top-k hit where the rank is below k. */
int metrics_rank(const real *logits, int classes, int label);

/* The class of rank 0. */
int metrics_prediction(const real *logits, int classes);

/* p = softmax(logits), in double. */
void metrics_softmax(double *p, const real *logits, int classes);

enum { ECE_BINS = 15 };

/* Expected calibration error (Guo et al., arXiv:1706.04599, eq. 3) with equal bins of confidence,
 * bin i over (i / 15, (i + 1) / 15]. */
struct calibration {
    long long n[ECE_BINS], correct[ECE_BINS];
    double confidence[ECE_BINS]; /* sums */
};
void calibration_add(struct calibration *c, double confidence, int correct);
double calibration_error(const struct calibration *c); /* NAN without samples */

#endif
