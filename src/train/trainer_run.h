/* trainer_run.h - one run in progress, for the files that train_run consists of. */
#ifndef TRAIN_TRAINER_RUN_H
#define TRAIN_TRAINER_RUN_H

#include "data/splits.h"
#include "train/checkpoint.h"
#include "train/run_files.h"
#include "train/step.h"
#include "train/trainer.h"

struct trainer {
    const struct experiment *x;
    const struct train_options *options;
    struct run_files files;
    int lock; /* on the directory, -1: none */
    struct splits splits;
    const char **class_names; /* (classes), the names are the dataset's */
    struct network *network;
    struct loader *train, *val, *test; /* val, test: NULL where there is no such part */
    struct step step;
    struct train_state state;
    struct init_report init; /* of train.init_from, where this process started from it */
    long long batches, epoch_updates, total_updates; /* an epoch, an epoch, the run */

    double loss; /* of the last update: mean over its samples, nats */

    double started;         /* timer when this process began to train */
    long long first_update; /* updates done by then */
    double waited_before;   /* seconds that earlier processes waited for data in this epoch */
};

/* A test of the final weights: "last", "best", "last.ema", "best.ema". */
struct final_test {
    const char *weights;
    int epoch; /* from 1 */
    bool done;
    double loss, top1, top5;
    long long n;
};

enum { FINAL_LAST, FINAL_BEST, FINAL_LAST_EMA, FINAL_BEST_EMA, FINAL_COUNT };

/* trainer_epoch.c: all epochs from t->state on. */
MUST_USE enum status trainer_epochs(struct trainer *t, struct error *err);

/* trainer_state.c: reads the state that a run goes on from. ERR_INPUT where it cannot be one of this
 * run, or where metrics.jsonl does not begin with what belongs to it. */
MUST_USE enum status trainer_read_state(struct trainer *t, struct error *err);

/* trainer_save.c: last weights and state, where all values are finite; best weights (kind 0) or
 * best average (1). */
MUST_USE enum status trainer_save(struct trainer *t, struct error *err);
MUST_USE enum status trainer_save_best(struct trainer *t, int kind, struct error *err);

/* trainer_finish.c: the official test set, summary.json, and the state of a complete run. */
MUST_USE enum status trainer_finish(struct trainer *t, struct error *err);

/* trainer_events.c: lines of metrics.jsonl. `start` makes the file anew. */
MUST_USE enum status event_start(struct trainer *t, struct error *err);
MUST_USE enum status event_init(struct trainer *t, struct error *err);
MUST_USE enum status event_resume(struct trainer *t, struct error *err);
MUST_USE enum status event_check(struct trainer *t, struct error *err);
MUST_USE enum status event_test(struct trainer *t, const struct final_test *f, struct error *err);

/* Validation of the weights (0) and of their average (1), where `done` says so. */
struct validation_result {
    bool done[2];
    double loss[2], top1[2], top5[2];
    double seconds;
};
MUST_USE enum status event_epoch(struct trainer *t, const struct validation_result *v,
                                 struct error *err);

/* Learning rate of the update that is next. */
double trainer_lr(const struct trainer *t);

/* Top-1 of the epoch's training images so far; NaN where images are mixed, and have no one label. */
double trainer_top1(const struct trainer *t);

/* Where validation comes from: "holdout", "test", "val", or NULL without it. */
const char *trainer_validation(const struct trainer *t);

/* Hands a note to the caller. */
void trainer_say(const struct trainer *t, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
