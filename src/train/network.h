/* network.h - a model ready to run: parameters, graphs and runners for training and for evaluation.
 */
#ifndef TRAIN_NETWORK_H
#define TRAIN_NETWORK_H

#include <signal.h>

#include "graph/run.h"
#include "train/experiment.h"

enum network_mode { NETWORK_INFER, NETWORK_TRAIN };

/* Graph inputs and outputs, in the order of feed. */
enum { NETWORK_INPUT_IMAGES = 0, NETWORK_INPUT_LABELS = 1 };
enum { NETWORK_OUTPUT_LOGITS = 0, NETWORK_OUTPUT_LOSS = 1 };

struct network {
    const struct experiment *experiment;
    struct model_shape shape;
    struct params params;
    struct graph *train, *infer; /* train is NULL under NETWORK_INFER */
    struct runner *train_run, *infer_run;
    int threads, slice;
    int train_threads; /* of an update: never more than lanes, so that the team keeps its size */
    double macs;       /* of one image, forward */
    const volatile sig_atomic_t *stop; /* where this is set and becomes 1, evaluate gives up */
};

/* Records, plans and allocates, with initial values from the seed. In both graphs the inputs are
 * images (B, C, H, W) and labels (B); the outputs are logits (B, classes) and loss (B). The
 * training graph has dropout, drop path and label smoothing, the other one none. Parameters that a
 * pattern of train.freeze matches are not trained. ERR_INPUT where a pattern matches nothing,
 * everything is frozen, sizes do not fit, or all of it needs more memory than the machine has. */
MUST_USE enum status network_create(struct network **out, const struct experiment *x,
                                    enum network_mode mode, int batch, int threads,
                                    struct error *err);
void network_destroy(struct network *n);

#endif
