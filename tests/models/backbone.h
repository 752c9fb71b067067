/* backbone.h - a model read from the JSON of a config and recorded, for tests of its sizes and
 * names. */
#ifndef TESTS_MODELS_BACKBONE_H
#define TESTS_MODELS_BACKBONE_H

#include "config/config.h"
#include "graph/rig.h"
#include "models/model.h"

struct backbone {
    struct rig rig;
    struct config *config;
    struct choice model;
};

/* Reads the model of a config {"model": json} and begins a graph. */
void backbone_choose(struct backbone *n, const char *json, int batch, bool noise);

/* Checks and records it. Returns the logits. */
struct tensor *backbone_record(struct backbone *n);

void backbone_end(struct backbone *n);

/* The i-th node of the graph with an op of that name, NULL past the last one. */
const struct node *backbone_node(const struct backbone *n, const char *op, int i);

#endif
