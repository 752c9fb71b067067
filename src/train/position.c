/* position.c - rows of position embeddings, from map to map. */
#include "train/position.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/interpolate.h"

/* A row for each token of the model's first layer. */
static bool model_rows(struct position_rows *r, const struct model *model, const void *options)
{
    struct model_layer first;
    if (!model->layer(options, 0, &first))
        return false;
    *r = (struct position_rows){first.site.prefix, first.site.prefix,
                                {first.site.grid[0], first.site.grid[1]}};
    return true;
}

/* Tokens before the map of which the file has a tensor. */
static int tokens_in_file(const struct match *m)
{
    int count = 0;
    for (const char *const *name = m->model->tokens; name && *name; name++)
        count += match_find(m, *name) != NULL;
    return count;
}

static bool square_rows(struct position_rows *r, int rows, int prefix, int tokens)
{
    int side = (int)lround(sqrt((double)(rows - prefix)));
    *r = (struct position_rows){prefix, tokens, {side, side}};
    return rows > prefix && side * side == rows - prefix;
}

/* Without a config: as many rows as ours are ours; tokens before the map may be without a row. */
static bool file_rows(struct position_rows *r, const struct match *m, int rows,
                      const struct position_rows *ours)
{
    int tokens = tokens_in_file(m);
    if (tokens == ours->prefix && rows == ours->prefix + ours->grid[0] * ours->grid[1]) {
        *r = *ours;
        return true;
    }
    return square_rows(r, rows, tokens, tokens) || square_rows(r, rows, 0, tokens);
}

static bool same_rows(const struct position_rows *a, const struct position_rows *b)
{
    return a->prefix == b->prefix && a->grid[0] == b->grid[0] && a->grid[1] == b->grid[1];
}

bool position_moves(struct position *p, const struct match *m, const void *theirs)
{
    *p = (struct position){NULL, NULL, {0}, {0}};
    const char *name = m->model->position;
    const struct param *param = name ? params_find(m->params, name) : NULL;
    const struct st_tensor *t = param ? match_find(m, name) : NULL;
    if (!t || t->rank != 3 || t->shape[0] != 1 || t->shape[1] > 1 << 30 ||
        t->shape[2] != param->shape.dim[2] || !model_rows(&p->ours, m->model, m->options))
        return false;
    int rows = (int)t->shape[1];
    bool known = theirs ? model_rows(&p->theirs, m->model, theirs)
                        : file_rows(&p->theirs, m, rows, &p->ours);
    if (!known || rows != p->theirs.prefix + p->theirs.grid[0] * p->theirs.grid[1] ||
        same_rows(&p->ours, &p->theirs))
        return false;
    p->param = param;
    p->tensor = t;
    return true;
}

static void tell(char how[MODEL_HINT_SIZE], const struct position *p)
{
    const struct position_rows *a = &p->ours, *b = &p->theirs;
    int at = snprintf(how, MODEL_HINT_SIZE, "%d x %d patches from %d x %d", a->grid[0], a->grid[1],
                      b->grid[0], b->grid[1]);
    if (a->prefix != b->prefix)
        snprintf(how + at, (size_t)(MODEL_HINT_SIZE - at), ", rows of %d token%s before them from %d%s",
                 a->prefix, a->prefix == 1 ? "" : "s", b->prefix,
                 b->prefix < b->tokens ? " (0: the checkpoint's have no position)" : "");
}

enum status position_fill(real *values, const struct position *p, const struct match *m,
                          char how[MODEL_HINT_SIZE], struct error *err)
{
    size_t D = (size_t)p->param->shape.dim[2];
    size_t ours = (size_t)p->ours.prefix * D, theirs = (size_t)p->theirs.prefix * D;
    real *read = malloc((p->tensor->count + 1) * sizeof *read), *to = values + p->param->at;
    if (!read)
        return error_memory(err, p->tensor->count * sizeof *read);
    enum status status = match_read(read, m, p->tensor, err);
    if (!status)
        status = nn_interpolate(to + ours, p->ours.grid, read + theirs, p->theirs.grid, (int)D,
                                INTERPOLATE_ANTIALIAS, err);
    if (!status) {
        if (p->theirs.prefix < p->theirs.tokens)
            memset(to, 0, ours * sizeof *to);
        memcpy(to, read, (ours < theirs ? ours : theirs) * sizeof *to);
        tell(how, p);
    }
    free(read);
    return status;
}
