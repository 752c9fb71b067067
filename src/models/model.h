/* model.h - backbones. To add one: a file in models/ that defines `const struct model NAME_model`, and
 * the line MODEL(NAME) in models.def. Presets are JSON texts in presets.def. */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "config/field.h"
#include "graph/graph.h"

/* What data, trainer and commands need to know of any model. */
struct model_shape {
    int channels, height, width; /* of the images */
    int classes;
    int tokens;                  /* rows of the widest activation per image: sets the slice size */
};

struct model {
    const char *name, *summary;
    const struct field *fields; /* of its options struct, "attention" among them */
    size_t options_size;

    /* Sizes that do not fit together: ERR_INPUT with "KEY: WHAT (HINT)", KEY relative to "model". */
    enum status (*check)(const void *options, struct error *err);

    struct model_shape (*shape)(const void *options);

    /* Records the model. x: (B, C, H, W) normalised. Returns the logits (B, classes). */
    struct tensor *(*record)(struct graph *g, const void *options, struct tensor *x);
};

/* The i-th model or preset as a kind for configs; kind->impl is its struct model. */
const struct kind *model_kinds(int i);

/* The struct model behind a choice that was read. */
const struct model *model_of(const struct choice *choice);

#endif
