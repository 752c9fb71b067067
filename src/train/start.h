/* start.h - a model that starts from a checkpoint, for the files that checkpoint_init consists of. */
#ifndef TRAIN_START_H
#define TRAIN_START_H

#include "train/experiment.h"
#include "train/init_report.h"
#include "train/position.h"

/* An attention layer of the model, and what stands for it in the checkpoint. */
struct start_layer {
    struct model_layer ours, theirs;
    char name[MODEL_NAME_SIZE + 16];   /* what the file's names of it start with, a point at the end */
    char own_name[MODEL_SCOPE_SIZE + 1];
    bool adapts; /* to another attention, to other options, or to another map or window */
};

struct start {
    struct match match;
    struct params *params;
    struct experiment theirs; /* as the checkpoint says, where has_theirs */
    bool has_theirs;
    struct start_layer *layers;
    int count;
    struct position position;
    bool whole; /* the same model: sizes of image and windows alone may differ */
    struct init_report *report;
};

/* start_layers.c: lists the attention layers of both models. */
MUST_USE enum status start_layers(struct start *s, struct error *err);

/* The adapting layer that a tensor belongs to, or NULL; `ours`: the name is our own, else the file's. */
const struct start_layer *start_layer_of(const struct start *s, const char *name, bool ours);

/* A table of relative positions that is not as large as the checkpoint's attention would have it counts
 * as misshapen. */
void start_check_tables(struct start *s);

/* Fills all adapting layers and reports their tensors. */
MUST_USE enum status start_adapt(struct start *s, struct error *err);

/* The shape of a tensor of at most MAX_RANK axes. */
struct shape start_shape(const struct st_tensor *t);

#endif
