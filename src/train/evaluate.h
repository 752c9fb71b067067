/* evaluate.h - loss and accuracy over a set of records. Every sample counts once, whatever the
 * batch. */
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H

#include "data/loader.h"
#include "train/network.h"

struct evaluation {
    long long n, correct, correct5;
    double loss;       /* mean, nats */
    double top1, top5; /* percent; top5 is NAN with five classes or fewer */
    double ece;        /* expected calibration error, 15 equal bins of confidence, 0..1 */
    double seconds;
    int classes;
    long long *class_n, *class_correct; /* (classes) */
    long long *confusion;               /* (classes, classes): [label][prediction] */
};

/* Called for each sample in order; probabilities: (classes). */
typedef void evaluation_sample(void *context, size_t record, int label,
                               const double *probabilities);

/* Runs the loader's epoch 0 through the inference graph. values: NULL for the parameters, or the
 * average. A tie counts as right where fewer than k classes are strictly more likely, or equally
 * likely with a smaller index. visit may be NULL. ERR_INTERRUPTED where n->stop is set. On failure
 * nothing is left to free. */
MUST_USE enum status evaluate(struct evaluation *e, struct network *n, struct loader *loader,
                              const real *values, evaluation_sample *visit, void *context,
                              struct error *err);
void evaluation_free(struct evaluation *e);

#endif
