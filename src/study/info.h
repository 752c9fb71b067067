/* info.h - sizes and costs of a model, computed from its recorded graph without data. */
#ifndef STUDY_INFO_H
#define STUDY_INFO_H

#include "graph/graph.h"
#include "train/experiment.h"

/* One part of the model: the parameters of one scope, and the products recorded in it. */
struct info_layer {
    const char *name; /* "blocks.0.attn.qkv"; a parameter outside any scope has its own name */
    size_t params;
    double macs;      /* of one image, forward */
};

struct info {
    size_t params;              /* without buffers */
    size_t params_attention;    /* of the mixers, with their projections */
    size_t params_standard;     /* the same with "standard" attention; 0 where it does not apply */
    double macs;                /* of one image, forward */
    double macs_attention;      /* of the mixers, with their projections */
    double macs_attention_core; /* of the mixers, without them */
    int batch;                  /* of the config */
    size_t activation_bytes_train, activation_bytes_infer; /* of a whole such batch */
    int threads;                /* that the next two are for */
    double memory_bytes_train, memory_bytes_infer; /* by which a process grows: network_bytes */
    int copies;                 /* inputs that planning had to copy */
    struct info_layer *layers;  /* in the order of the model */
    int layer_count;
    struct params list;         /* names, shapes and flags; no values */
};

/* Parameters are counted exactly, multiply-adds as the ops count them: products and convolutions,
 * and what the cost row of a variant's paper counts. Activation bytes are values, gradients and
 * scratch of a batch as planned, without inputs and parameters. ERR_INPUT where the model
 * cannot be recorded. Freed with info_free. */
MUST_USE enum status info_create(struct info *info, const struct experiment *x, int threads,
                                 struct error *err);
void info_free(struct info *info);

/* Whether the node belongs to a mixer (a scope "attn") and is none of its linear projections. */
bool info_is_mixing(const struct node *n);

#endif
