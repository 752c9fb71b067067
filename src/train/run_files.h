/* run_files.h - the files of a run's directory, and whether they may be written. */
#ifndef TRAIN_RUN_FILES_H
#define TRAIN_RUN_FILES_H

#include <stdint.h>

#include "train/experiment.h"

struct run_files {
    struct arena memory;
    const char *directory;
    const char *config, *metrics, *summary;
    const char *state;             /* last.state.safetensors */
    const char *last[2], *best[2]; /* weights, and their average (.ema) */
};

enum run_kind {
    RUN_NEW,      /* nothing is there */
    RUN_RESTART,  /* to be resumed, but it was ended before it saved anything */
    RUN_CONTINUE, /* to be resumed from its state */
};

MUST_USE enum status run_files_init(struct run_files *f, const char *directory, struct error *err);
void run_files_free(struct run_files *f);

/* Decides what a start in this directory means. ERR_INPUT where it holds a run and resume is false,
 * holds none and resume is true, holds one whose state was removed, one of another config (with the keys that differ, old and
 * new value), or may not be written. Nothing is changed. */
MUST_USE enum status run_files_check(enum run_kind *out, const struct run_files *f,
                                     const struct experiment *x, bool resume, struct error *err);

#endif
