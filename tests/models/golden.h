/* golden.h - a case of tests/golden/cases: the model it names, run on inputs and weights made by
 * the formula of tests/golden/README.md, and compared with what was stored. */
#ifndef TESTS_MODELS_GOLDEN_H
#define TESTS_MODELS_GOLDEN_H

#include "config/config.h"
#include "config/json.h"
#include "graph/rig.h"
#include "models/model.h"

struct golden {
    const char *name; /* of the file, without ".json" */
    struct json_value *root;
    struct config *config;
    struct choice model;
    double smoothing; /* of the labels */
    int B;            /* images of the case */
    struct rig rig;   /* traces; outputs are the traced tensors, then logits, then loss */
    real *output[FEED_MAX_OUTPUTS]; /* of each graph output, whole batch */
};

/* Entry j of the formula's tensor `name` with this shape. */
double golden_entry(const char *name, const struct shape *shape, uint32_t j);

/* Paths of the cases of a kind ("vit"), sorted by name, NULL past the last; valid until the exit.
 */
const char *const *golden_cases(const char *kind);

/* Reads the case and runs forward and backward of its model. */
void golden_begin(struct golden *c, const char *path, int slice, int lanes, int threads);
void golden_end(struct golden *c);

/* Every stored quantity agrees, and there are no parameters beside those in the file. */
void golden_check(struct golden *c);

#endif
