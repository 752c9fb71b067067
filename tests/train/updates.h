/* updates.h - a network of the tiny experiment (rig.h), and updates of it on a fixed set of drawn
 * samples. */
#ifndef TRAIN_UPDATES_H
#define TRAIN_UPDATES_H

#include "rig.h"
#include "train/step.h"

enum { SAMPLES = 24, CLASSES = 6 };

struct updates {
    struct experiment x;
    struct network *n;
    struct step step;
};

/* A network for batches of `batch` samples with these settings (rig_load), ready to train. */
void updates_begin(struct updates *u, const char *const *settings, int batch, int threads);
void updates_end(struct updates *u);

/* The samples first .. first + count - 1 of SAMPLES drawn ones. */
struct batch updates_batch(int first, int count);

/* One update over the samples first .. first + total - 1 in batches of at most `size`. */
void updates_run(struct updates *u, int first, int total, int size, double lr, long long update);

#endif
