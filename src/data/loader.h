/* loader.h - batches of listed records, augmented and normalised by worker threads ahead of need.
 *
 * What a batch holds depends on (seed, epoch, position) alone: never on the number of workers, on
 * timing, or on where reading started. Training draws the order of an epoch from the stream
 * "shuffle", each position's change of the image from "augment" and those below it, so that copies
 * of an image differ, and how a batch is mixed, by its number, from "mix". */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include <stdbool.h>

#include "base/real.h"
#include "data/dataset.h"

struct batch {
    int count;     /* samples in it; the last batch of an epoch may be shorter than `capacity` */
    int capacity;  /* batch size; rows from `count` on are zero */
    real *images;  /* (capacity, channels, height, width), normalised */
    int *labels;   /* (capacity), -1 from `count` on */
    size_t *index; /* (capacity) record numbers in the dataset, 0 from `count` on */
    /* Where images are mixed (data/mix.h), else NULL: image i is `share` of the image with
     * labels[i] and `rest` of the one with partners[i], which add up to 1. */
    int *partners;      /* (capacity), -1 from `count` on */
    real *share, *rest; /* (capacity), 0 from `count` on */
};

struct loader_options {
    int batch_size; /* at least 1 */
    bool train;     /* shuffled each epoch and augmented; else in the order given, plain */
    uint64_t seed;
    int workers; /* threads; 0: batches are made by the caller of loader_next */
    int ahead;   /* batches prepared ahead, at least 1 */
};

/* Batches that such a loader holds in memory. */
int loader_slots(const struct loader_options *options);

struct loader;

/* `records` (count of them, copied) are the dataset's records that this loader serves. The dataset
 * is borrowed, and so is what pointers of `config` lead to. ERR_INPUT for what view_init refuses,
 * ERR_IO where a thread cannot be started. loader_start comes before the first loader_next. */
MUST_USE enum status loader_create(struct loader **out, const struct dataset *d,
                                   const struct data_config *config, const size_t *records,
                                   size_t count, const struct loader_options *options,
                                   struct error *err);
void loader_destroy(struct loader *l);

size_t loader_batches(const struct loader *l); /* batches an epoch: ceil(count / batch_size) */
size_t loader_samples(const struct loader *l); /* samples an epoch, repeated ones counted */

/* Starts the epoch (counted from 0) at batch `first`: what lies ahead is dropped, and so is the
 * batch last handed out. ERR_INPUT where the epoch has fewer batches than `first`. */
MUST_USE enum status loader_start(struct loader *l, int epoch, size_t first, struct error *err);

/* The next batch of the epoch, or NULL with OK after the last one. It stays valid until the next
 * call. The error of a worker comes with the batch that it was making, and again from then on. */
MUST_USE enum status loader_next(struct loader *l, const struct batch **out, struct error *err);

/* Seconds that loader_next waited for a batch (or made one) since the last loader_start. */
double loader_waited(const struct loader *l);

#endif
