/* trainer.h - the epoch loop: updates, validation, metrics, checkpoints, stopping and resuming. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include <signal.h>

#include "train/evaluate.h"

/* What is told while training, for a progress line or a log. */
struct train_progress {
    int epoch, epochs;     /* epoch from 1 */
    long long step, steps; /* batches of the epoch, done and in all */
    double loss, lr;       /* running mean of the epoch; rate of the last update */
    double images_per_second, eta_seconds;
    bool epoch_done;
    double val_top1, val_loss; /* of a finished epoch; NAN without validation */
    double train_top1, seconds;
    double wait_share; /* of the time, waiting for data */
};

struct train_options {
    const char *output; /* the run directory */
    bool resume;
    int threads;
    const char *command_line; /* for the start event */
    void (*begin)(void *context); /* config, data and output are in order; memory is not taken yet */
    void (*progress)(void *context, const struct train_progress *p);
    void (*say)(void *context,
                const char *line); /* notes worth a line: resumed, one of 5 batches */
    void *context;
    volatile sig_atomic_t *stop; /* set by a signal: finish the step, save, ERR_INTERRUPTED */
};

struct train_result {
    long long params;
    double macs, seconds;
    struct {
        double val_top1, test_top1;
    } last, best; /* NAN where there is none */
};

/* Trains as the experiment says and writes the files of contract "Files of a run". Refuses a
 * directory that holds another run, or this one without resume. Resuming reads
 * last.state.safetensors alone, cuts metrics.jsonl, and ends with the bits of a run that was never
 * stopped. */
MUST_USE enum status train_run(const struct experiment *x, const struct train_options *options,
                               struct train_result *result, struct error *err);

#endif
