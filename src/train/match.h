/* match.h - the tensors of a file beside the parameters of a model, name by name: for the files that
 * read checkpoints. */
#ifndef TRAIN_MATCH_H
#define TRAIN_MATCH_H

#include "graph/params.h"
#include "io/safetensors.h"
#include "models/model.h"

enum { MATCH_TEXT = 2048 };

/* Names that did not fit: how many, and the first ones as text. */
struct names {
    int count;
    char text[512];
};

struct match {
    const struct params *params;
    const struct st_file *file;
    const char *path;
    const struct model *model;
    const void *options;
    const char *prefix; /* that all names of the file carry: "", "module.", "model." */
    const struct model_layout *layout; /* whose names they are, NULL: ours */
    bool is_ours;                      /* written by attnbench */
    const struct st_tensor **found;    /* of each parameter, NULL: missing, or left aside */
    bool (*aside)(const void *context, const char *name, bool ours); /* whether a tensor, by our name
        or by the file's without prefix, is the caller's affair; NULL: none is */
    const void *context;
    bool twins;                        /* tensors may be those of twins (struct model) */
    bool resized;                      /* sizes of image and windows may differ */
    int matched;
    struct names missing, unexpected, shapes;
    int other_backbone; /* of these, what is neither attention nor head */
    char hint[MODEL_HINT_SIZE]; /* what the model says to the first shape, or to the file's config */
};

/* A match of the open file, with prefix and layout of its names; nothing is compared yet. */
MUST_USE enum status match_begin(struct match *m, const struct params *p, const struct choice *model,
                                 const struct st_file *f, const char *path, struct error *err);
void match_end(struct match *m);

/* Writes what the file calls our `name`; false where that is too long. */
bool match_name(const struct match *m, const char *name, char theirs[MODEL_NAME_SIZE + 16]);

/* The file's tensor for our `name`, or NULL. */
const struct st_tensor *match_find(const struct match *m, const char *name);

/* Compares what is not left aside. */
void match_compare(struct match *m);

/* Counts a tensor that has not the shape wanted of `name`. */
void match_misshapen(struct match *m, const struct st_tensor *t, const char *name,
                     const struct shape *wanted);

/* Whether the file's config is that of a model in which the same tensors mean something else; the hint
 * says what. Where it cannot be read (another version wrote it) names and shapes alone decide. */
bool match_conflicts(struct match *m);

/* Whether a tensor of the file has this shape. */
bool match_shape(const struct st_tensor *t, const struct shape *shape);

/* "12 tensors match, 1 missing: norm.bias, ..." */
const char *match_text(char text[MATCH_TEXT], const struct match *m);

/* ERR_INPUT with all of this, and what the model says to it, or else in what it differs from that of the
 * file, or else the caller's hint. */
enum status match_refuse(struct match *m, const char *hint, struct error *err);

/* Converts a tensor. ERR_INPUT for values that are no finite numbers. */
MUST_USE enum status match_read(real *values, const struct match *m, const struct st_tensor *t,
                                struct error *err);

/* The same for all that was found and has the right shape: into the block `values` of the params. */
MUST_USE enum status match_copy(real *values, const struct match *m, struct error *err);

#endif
