/* checkpoint.h - weights and training state as safetensors files. Names and shapes are timm's. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "train/init_report.h"
#include "train/network.h"

/* Weights for anybody: F32 tensors by name; metadata "config" (without paths), "class_names"
 * (JSON), "normalize", "epoch", "attnbench_version". `values`: the block to write (values or
 * average). */
MUST_USE enum status checkpoint_write(const char *path, const struct network *n, const real *values,
                                      const char *const *class_names, int epoch, struct error *err);

/* Opens `path` as a checkpoint of attnbench, or a training state: *config_text (malloc'd) is its
 * effective config. Foreign files give ERR_INPUT with a hint on `--data CONFIG`. */
MUST_USE enum status checkpoint_config(char **config_text, const char *path, struct error *err);

/* The class names that a checkpoint carries, one malloc'd block ending with NULL (free the block
 * alone); *out is NULL with OK where it has none. */
MUST_USE enum status checkpoint_class_names(char ***out, const char *path, struct error *err);

/* Loads every parameter and buffer of the model by name into p->values; names may be those of
 * another program that the model knows (struct model_layout). Missing, unexpected tensors and
 * other shapes are ERR_INPUT with counts and the first names, and nothing is changed; so are
 * values that are not finite, with the first tensor's name, but p->values are then not to be
 * used. A prefix "module." or "model." on all names is stripped. *note (unless note is NULL)
 * becomes a malloc'd line on what matched where the file is foreign or had a prefix, else NULL. */
MUST_USE enum status checkpoint_load(struct params *p, const struct choice *model,
                                     const char *path, char **note, struct error *err);

/* The same into `values` (p->total of them). */
MUST_USE enum status checkpoint_load_values(const struct params *p, const struct choice *model,
                                            const char *path, real *values, char **note,
                                            struct error *err);

/* As checkpoint_load, but for images or windows of another size than the checkpoint's: position
 * embeddings (train/position.h) and tables of relative positions (attention/adapt.h) are resampled, and
 * *note, as far as there is one, says which. ERR_INPUT too where attention has other tensors that depend
 * on the number of tokens. After an error p->values are not to be used. */
MUST_USE enum status checkpoint_load_resized(struct params *p, const struct choice *model,
                                             const char *path, char **note, struct error *err);

/* Start values for training, of a model with the same backbone. Tensors of attention (attn_owns) and
 * of classifiers (model_is_head) may be missing or unexpected; those of classifiers may have another
 * shape, as with other classes, and so may those of attention where it is another one than the
 * checkpoint's, has other options, or another map or window: such layers are filled by attn_adapt,
 * where a file that does not say its attention counts as the first variant. Tokens before the map may
 * be there in one of both models alone, position embeddings are resampled, and where both models have
 * one of two twins (struct model) the other's is taken. What is missing elsewhere keeps its values.
 * Anything else is ERR_INPUT as above: another backbone. *report, which the caller has begun, tells
 * what became of every tensor. */
MUST_USE enum status checkpoint_init(struct params *p, const struct choice *model,
                                     const char *path, struct init_report *report,
                                     struct error *err);

/* What resume needs beyond the blocks of params. */
struct train_state {
    long long update;        /* updates done */
    int epoch;               /* epoch in progress, from 0; the number of epochs when all are done */
    long long position;      /* batches of it that are done */
    long long metrics_bytes; /* length of metrics.jsonl that belongs to this state */
    long long metrics_crc32; /* of these bytes; -1: written by a version that did not keep it */
    uint64_t fingerprint;    /* of the data */
    long long teacher_crc32; /* of the teacher's weights; 0: there is none, -1: not kept */
    double total_seconds;    /* of training so far, the running epoch apart */
    long long total_samples; /* images trained on in that time */
    double train_seconds;    /* the part of total_seconds without validation */

    /* Best and last validation; NAN where there is none. Index 0: weights, 1: their average. */
    struct score {
        double val_top1, val_loss;
        int epoch; /* from 1; 0: none */
    } best[2], last[2];

    struct schedule_memory plateau;

    /* Sums of the running epoch. */
    double loss_sum, grad_norm_sum, seconds, waited;
    long long correct, samples, updates;
    double lr; /* of the last update */

    bool complete;       /* the final tests are done, the summary is written */
    double test_top1[2]; /* then: of last and best weights, for the result; else NAN */
};

/* All of training: values, moments, average, state, effective config; F64 in the double build. */
MUST_USE enum status state_write(const char *path, const struct network *n,
                                 const struct train_state *s, struct error *err);

/* Reads it into a network of the same config. ERR_INPUT where tensors or the state are not whole,
 * not finite, or other than the checksum of the file says;
 * the network's values are then not to be used. */
MUST_USE enum status state_read(const char *path, struct network *n, struct train_state *s,
                                struct error *err);

#endif
