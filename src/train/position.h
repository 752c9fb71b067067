/* position.h - position embeddings of a checkpoint for a model with another map of patches, or other
 * tokens before it. */
#ifndef TRAIN_POSITION_H
#define TRAIN_POSITION_H

#include "train/match.h"

/* What the rows of a position embedding belong to. */
struct position_rows {
    int prefix;  /* tokens before the map that have a row */
    int tokens;  /* tokens before the map */
    int grid[2]; /* rows and columns of the map */
};

struct position {
    const struct param *param;      /* NULL: there is nothing to move */
    const struct st_tensor *tensor; /* the checkpoint's */
    struct position_rows ours, theirs;
};

/* Whether the model has a position embedding that lies on other rows than the file's, of the same
 * width. theirs: options of the checkpoint's model, or NULL where the file does not say them: its map
 * is a square then, unless both have as many rows. */
bool position_moves(struct position *p, const struct match *m, const void *theirs);

/* The map is resampled as timm does (interpolate.h, antialias). Rows of tokens before it are those of
 * the checkpoint; 0 where its token has none; as they are where it has no such token. Writes to
 * values[p->param->at ..] and, for the reader, into how. */
MUST_USE enum status position_fill(real *values, const struct position *p, const struct match *m,
                                   char how[MODEL_HINT_SIZE], struct error *err);

#endif
