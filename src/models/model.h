/* model.h - backbones. To add one: a file in models/ that defines `const struct model
 * NAME_model`, and the line MODEL(NAME) in models.def. Presets are JSON texts in presets.def. */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "attention/attention.h"
#include "graph/graph.h"

/* What data, trainer and commands need to know of any model. */
struct model_shape {
    int channels, height, width; /* of the images */
    int classes;
    int tokens;                  /* per image, on average over the blocks: sets the slice size */
};

/* One attention layer of a model. */
enum { MODEL_SCOPE_SIZE = 64 };
struct model_layer {
    char scope[MODEL_SCOPE_SIZE]; /* "blocks.0.attn": its tensors are called so and a point */
    const struct choice *attention;
    struct attn_site site; /* for one image */
};

/* Names that another program gives the tensors of a model. */
enum { MODEL_NAME_SIZE = 256, MODEL_HINT_SIZE = 256 };
struct model_layout {
    const char *program;
    void (*rename)(char theirs[MODEL_NAME_SIZE], const char *ours);
};

struct model {
    const char *name, *summary;
    const struct field *fields; /* of its options struct, "attention" among them */
    size_t options_size;

    /* Sizes that do not fit together: ERR_INPUT with "KEY: WHAT (HINT)", KEY relative to "model". */
    enum status (*check)(const void *options, struct error *err);

    struct model_shape (*shape)(const void *options);

    /* Records the model. x: (B, C, H, W) normalised. Returns the logits (B, classes). taught, unless it
     * is NULL, becomes the logits that a teacher is to shape: those of a head for that purpose, which then
     * are no part of what is returned, or where the options have none, NULL. */
    struct tensor *(*record)(struct graph *g, const void *options, struct tensor *x,
                             struct tensor **taught);

    /* The i-th attention layer; false past the last. */
    bool (*layer)(const void *options, int i, struct model_layer *layer);

    /* What is known of files with its weights. Lists end with NULL, and may be NULL. */
    const char *const *heads;             /* first parts of the names of its classifiers */
    const char *const *derived;           /* last parts of names of tensors that follow from the
                                             options: others store them, and reading ignores them */
    const struct model_layout *layouts;   /* other names, apart from our own */
    const char *position;       /* of (1, tokens, D): a row for each token before the map of the first
                                   layer, then one for each of the map; NULL: none */
    const char *const *tokens;  /* those before the map, in their order, where the options want them */
    const char *const *twins;   /* pairs of first parts of names, of which the options want one */

    /* Writes what it means that a file has tensor `name` in another shape; false: nothing to add. */
    bool (*misfit)(const void *options, const char *name, const struct shape *theirs,
                   char hint[MODEL_HINT_SIZE]);

    /* Writes why tensors of the same shapes mean something else in this model with the options `theirs`;
     * false: they do not. resized: what depends on the sizes of image and windows is made to fit. */
    bool (*conflict)(const void *options, const void *theirs, bool resized,
                     char hint[MODEL_HINT_SIZE]);
};

/* The i-th model or preset as a kind for configs; kind->impl is its struct model. */
const struct kind *model_kinds(int i);

/* The struct model behind a choice that was read. */
const struct model *model_of(const struct choice *choice);

/* Writes which fields of two models of this kind differ of those that tensors depend on, as far as there
 * is room: "model.dim is 24, the checkpoint's 48; ...". Attention and classes are left out. Returns how
 * many differ. */
int model_differences(const struct model *m, const void *ours, const void *theirs,
                      char text[MODEL_HINT_SIZE]);

/* Whether the attention layers of two models of this kind have the same options one by one; else writes
 * in what the first pair differs: "model.attention is eva, the checkpoint's standard". */
bool model_same_attention(const struct model *m, const void *ours, const void *theirs,
                          char text[MODEL_HINT_SIZE]);

/* For misfit: the same from the shape of patch_embed.proj.weight; has: dim, channels, patch rows and
 * columns of the model. False for other tensors. */
bool model_patches_misfit(const char *name, const int has[4], const struct shape *theirs,
                          char hint[MODEL_HINT_SIZE]);

/* Whether the tensor of that name belongs to a classifier, and so depends on the classes. */
bool model_is_head(const struct model *m, const char *name);

/* Whether a file's tensor of that name says nothing new. */
bool model_is_derived(const struct model *m, const char *name);

#endif
