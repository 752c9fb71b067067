/* source.h - operands that name a config, a run, a checkpoint or data. */
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include "train/experiment.h"

struct arguments;

enum source { SOURCE_CONFIG, SOURCE_CHECKPOINT, SOURCE_DIRECTORY };

/* What lies at the path, by its name (.json, .safetensors) or else its first bytes. ERR_INPUT where
 * there is nothing, or a device or pipe: reading one could wait for ever. */
MUST_USE enum status source_kind(enum source *kind, const char *path, struct error *err);

/* ERR_INPUT where the file's name says that it is a run's state for --resume, not weights alone. */
MUST_USE enum status source_check_weights(const char *path, struct error *err);

/* The experiment that a config, the directory of a run (its config.json), or a checkpoint
 * describes, with `count` settings "PATH=VALUE" laid upon it. */
MUST_USE enum status source_experiment(struct experiment *x, enum source kind, const char *path,
                                       const char *const *settings, int count, struct error *err);

/* What the model's options say about its images. */
struct model_shape source_shape(const struct experiment *x);

/* The same for the first operand, of that kind, with every --set and one more `setting` (NULL:
 * none). ERR_INPUT for --set with a checkpoint. */
MUST_USE enum status source_load(struct experiment *x, enum source kind, const struct arguments *a,
                                 const char *setting, struct error *err);

/* Threads to compute with: --threads, or else OMP_NUM_THREADS, or else the cores that may be
 * used. */
MUST_USE enum status source_threads(int *threads, const struct arguments *a, struct error *err);

#endif
