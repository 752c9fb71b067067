/* step.h - one update: forward and backward over the batches of its window, clipping, optimizer. */
#ifndef TRAIN_STEP_H
#define TRAIN_STEP_H

#include "data/loader.h"
#include "train/network.h"

struct step {
    struct network *network;
    real *logits, *loss, *seed; /* (batch, classes), (batch), (batch) */
    real *teacher;              /* (batch, classes): logits of the network's teacher, NULL without one */
    int batch;
    double progress; /* of the training, 0 to 1: set by the caller before a window; 0 at first */

    /* Of the window in progress, or the one that was finished last. */
    int filled;        /* samples so far */
    double loss_sum;   /* over samples, nats */
    long long correct; /* top-1; of mixed images by their own label */
    double grad_norm;  /* before clipping; set by step_update */
    char bad[256];     /* where the first value that is not finite was found, "" if it was not */
};

/* For batches of at most `batch` samples. */
MUST_USE enum status step_create(struct step *s, struct network *n, int batch, struct error *err);
void step_free(struct step *s);

/* Forward and backward over one batch of update `update` (from 0), whose window has `window`
 * samples in all: each of them counts 1 / window. A window begins with what is drawn again before its
 * update (params_renew). Batch norms take statistics of each batch of the window by itself, and their
 * running statistics follow batch by batch. ERR_NUMERIC "the loss is not finite ..." with
 * s->bad. */
MUST_USE enum status step_batch(struct step *s, const struct batch *b, int window, long long update,
                                struct error *err);

/* Ends the window: sums the lanes, clips (torch.nn.utils.clip_grad_norm_), updates the parameters
 * and their average. `last` is the window's last batch. ERR_NUMERIC where the gradient is not
 * finite: the parameters are then untouched, but for buffers. */
MUST_USE enum status step_update(struct step *s, const struct batch *last, double lr,
                                 long long update, struct error *err);

/* True where all parameters and buffers are finite. */
bool step_values_finite(const struct network *n);

#endif
