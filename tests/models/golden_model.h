/* golden_model.h - a case of tests/golden/cases that holds a model: run on the formula's inputs and
 * weights, and compared with what was stored. */
#ifndef TESTS_MODELS_GOLDEN_MODEL_H
#define TESTS_MODELS_GOLDEN_MODEL_H

#include "config/config.h"
#include "golden.h"
#include "graph/rig.h"
#include "models/model.h"

/* How the graph is made and run. */
struct golden_how {
    int slice, lanes, threads;
    bool fused, bf16;
};

struct golden {
    const char *name; /* of the file, without ".json" */
    struct golden_how how;
    struct json_value *root;
    struct config *config;
    struct choice model;
    double smoothing; /* of the labels */
    int B;            /* images of the case */
    struct rig rig;   /* traces; outputs are the traced tensors, then logits, then loss */
    real *output[FEED_MAX_OUTPUTS]; /* of each graph output, whole batch */
};

/* Reads the case and runs forward and backward of its model. */
void golden_begin(struct golden *c, const char *path, const struct golden_how *how);
void golden_end(struct golden *c);

/* Every stored quantity agrees, and there are no parameters beside those in the file. */
void golden_check(struct golden *c);

#endif
