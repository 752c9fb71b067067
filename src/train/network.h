/* network.h - a model ready to run: parameters, graphs and runners for training and for evaluation.
 */
#ifndef TRAIN_NETWORK_H
#define TRAIN_NETWORK_H

#include <signal.h>

#include "graph/run.h"
#include "train/experiment.h"

enum network_mode { NETWORK_INFER, NETWORK_TRAIN };

/* Graph inputs and outputs, in the order of feed; a teacher's logits are the last input. */
enum {
    NETWORK_INPUT_IMAGES,
    NETWORK_INPUT_LABELS,
    NETWORK_INPUT_PARTNERS, /* these three as in struct batch, where the recording is mixed */
    NETWORK_INPUT_SHARE,
    NETWORK_INPUT_REST,
};
enum { NETWORK_OUTPUT_LOGITS = 0, NETWORK_OUTPUT_LOSS = 1 };

/* How one graph is recorded. */
struct recording {
    const void *model; /* options of the model; NULL: those of the experiment */
    int batch;         /* images in the graph */
    int team;          /* as in struct graph_options */
    bool gradients;    /* of all parameters, from the loss; where it traces, of the images too */
    bool noise;        /* dropout and drop path are active */
    bool trace;        /* keeps the outputs that the model names */
    bool fused;        /* as runs have it; else node by node */
    bool unlabelled;   /* no labels and no loss: backward starts from the logits */
    bool mixed;        /* images have two labels each, with a share and the rest */
    double smoothing;  /* of the labels */
    const struct distill_config *distill; /* one more input, (B, classes): a teacher's logits; NULL: none */
};

/* Records one graph over `params`, new ones added, and plans it: images x (B, C, H, W), labels y
 * (B); logits (B, classes), loss (B): the cross entropy, or share times that of the one label and
 * rest times that of the other. ERR_INPUT "FILE: model: WHAT" where parts of the model do not
 * fit together. *out is NULL after an error. */
MUST_USE enum status network_record(struct graph **out, struct params *params,
                                    const struct experiment *x, const struct recording *how,
                                    struct error *err);

struct network {
    const struct experiment *experiment;
    struct model_shape shape;
    struct params params;
    struct graph *train, *infer; /* train is NULL under NETWORK_INFER */
    struct runner *train_run, *infer_run;
    int batch, slice; /* images in a batch at most; in a slice of infer, and of train as well unless it
                         needs the whole batch (train->options.batch) */
    int lanes, moments; /* 0 under NETWORK_INFER */
    struct teacher *teacher; /* of train.distill, under NETWORK_TRAIN and where it is named; or NULL */
    double *rates; /* factors of the learning rate, one a parameter; NULL: all are 1 */
    int threads;        /* at most as many as can be of use */
    int infer_workers, train_workers; /* threads with a step block: see runner_workers */
    int train_threads;  /* of an update: as many as run its lanes, so that the team keeps its size */
    double macs;        /* of one image, forward */
    const volatile sig_atomic_t *stop; /* where this is set and becomes 1, evaluate gives up */
};

/* Records and plans the graphs for batches of at most `batch` images, slice by slice. Parameters
 * have names and shapes, nothing has memory. The training graph has dropout, drop path and label
 * smoothing, the other one none. Parameters that a pattern of train.freeze matches are not trained.
 * A teacher is planned with it. Reads no data. ERR_INPUT as network_record, or where a pattern matches nothing or everything is
 * frozen. */
MUST_USE enum status network_plan(struct network **out, const struct experiment *x,
                                  enum network_mode mode, int batch, int threads,
                                  struct error *err);

/* Bytes by which a process grows that trains (with validation and test) or evaluates the planned
 * network: parameters and all that belongs to them, step blocks, and the batches that loaders
 * prepare from data that has as many. The records of a dataset, where they are kept in memory, come
 * on top. */
double network_bytes(const struct network *n);

/* ERR_INPUT where that is more than the machine, its control group or ulimit -v leaves: with the largest batch
 * that fits. */
MUST_USE enum status network_check_memory(const struct network *n, struct error *err);

/* Gives a planned network its memory, and initial values from the seed; a teacher its weights. */
MUST_USE enum status network_allocate(struct network *n, struct error *err);

/* All of it: plans, checks and allocates. */
MUST_USE enum status network_create(struct network **out, const struct experiment *x,
                                    enum network_mode mode, int batch, int threads,
                                    struct error *err);
void network_destroy(struct network *n);

#endif
