/* experiment.h - a whole config, read and checked: data, model, training, output. */
#ifndef TRAIN_EXPERIMENT_H
#define TRAIN_EXPERIMENT_H

#include "config/config.h"
#include "data/loader.h"
#include "models/model.h"
#include "ops/ops.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

enum precision { PRECISION_FP32, PRECISION_BF16 };

/* Moving average of the weights. At update t (from 0) its decay is decay (1 - exp(-t / warmup)). */
struct ema_config {
    double decay, warmup; /* warmup in updates; 0: none */
};

/* Learning from another model beside the labels: (1 - weight) loss + weight distance (op_distill). */
struct distill_config {
    const char *teacher; /* a checkpoint of attnbench; NULL in files that travel */
    int kind;            /* enum distill_kind */
    double temperature, weight;
};

struct train_config {
    int epochs, batch_size, accumulate;
    int precision;
    bool recompute;                  /* blocks run again before their backward pass */
    struct choice optimizer, schedule;
    double layer_decay;              /* of the learning rate, from the head down; 1: none */
    double label_smoothing;
    struct number_or_name clip_norm; /* null: none */
    struct ema_config *ema;          /* NULL: none */
    const char *init_from;           /* a checkpoint to start from, or NULL */
    struct strings freeze;           /* patterns of parameter names, as in a shell */
    struct distill_config *distill;  /* NULL: labels alone */
    int checkpoint_every;            /* epochs */
};

struct experiment {
    const char *recipe; /* see recipes.h; NULL: none */
    uint64_t seed;
    struct data_config data;
    struct choice model;
    struct train_config train;
    const char
        *output; /* as it was written: against the working directory; NULL where it is left out */
    struct config *config; /* the effective document; owned */
    struct arena memory;   /* strings and options; owned */
};

extern const struct field experiment_fields[];

/* Reads the file, applies --set, checks everything that needs no data. Nothing is written. */
MUST_USE enum status experiment_load(struct experiment *x, const char *path,
                                     const char *const *settings, int count, struct error *err);

/* The same from the JSON text of an effective config (of a checkpoint or a run). */
MUST_USE enum status experiment_parse(struct experiment *x, const char *text, const char *name,
                                      struct error *err);

/* The same with settings as --set. */
MUST_USE enum status experiment_parse_with(struct experiment *x, const char *text, const char *name,
                                           const char *const *settings, int count, struct error *err);
void experiment_free(struct experiment *x);

/* Puts the config file in front of an ERR_INPUT message that starts with a JSON path ("data.path:
 * ..."), for parts that know no files. Returns the status of *err. */
enum status experiment_locate(const struct experiment *x, struct error *err);

/* The effective config as JSON text with every default, malloc'd; NULL without memory. The second
 * form is for files that travel: paths (data, output, init_from) are null in it. */
char *experiment_text(const struct experiment *x);
char *experiment_text_without_paths(const struct experiment *x);

/* The effective config with another `output`, as experiment_text. */
char *experiment_text_with_output(const struct experiment *x, const char *output);

/* Updates of one epoch of `batches` batches: the last one may take fewer batches than `accumulate`.
 */
long long experiment_epoch_updates(const struct experiment *x, long long batches);

/* How activations and their gradients are stored: by train.precision. */
enum type experiment_type(const struct experiment *x);

/* "fp32", "bf16", or in the double build "fp64" instead of the first. */
const char *precision_name(const struct experiment *x);

/* How a run reads a part of its data: shuffled and augmented to train, plain to evaluate. */
struct loader_options experiment_loader(const struct experiment *x, bool train);

/* Images in one slice, and lanes, for a batch of this model: functions of model and batch alone. A
 * slice has about 400 rows of tokens, at least one image and at most the batch, and rather a size
 * that spreads the slices evenly over the lanes. There are 8 lanes, 4 above 2 million parameters, 2
 * above 40 million, and never more than slices. */
int experiment_slice(const struct experiment *x, int batch);
int experiment_lanes(const struct experiment *x, int batch, size_t parameters);

#endif
