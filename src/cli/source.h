/* source.h - operands that name a config, a run, a checkpoint or data. */
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include "train/experiment.h"

enum source { SOURCE_CONFIG, SOURCE_CHECKPOINT, SOURCE_DIRECTORY };

/* What lies at the path, by its name (.json, .safetensors) or else its first bytes. ERR_INPUT where
 * there is nothing. */
MUST_USE enum status source_kind(enum source *kind, const char *path, struct error *err);

/* The experiment that a config, the directory of a run (its config.json), or a checkpoint
 * describes. */
MUST_USE enum status source_experiment(struct experiment *x, enum source kind, const char *path,
                                       const char *const *settings, int count, struct error *err);

/* The model's options, and what they say about its images. */
struct model_shape source_shape(const struct experiment *x);

/* Threads to compute with: --threads, or else OMP_NUM_THREADS, or else the cores that may be
 * used. */
struct arguments;
MUST_USE enum status source_threads(int *threads, const struct arguments *a, struct error *err);

#endif
