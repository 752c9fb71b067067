/* adapt.c - what two attention layers share, found by the names of their tensors. */
#include "attention/adapt.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/interpolate.h"

static const char table_name[] = "relative_position_bias_table";

struct adapt_tensor *adapt_find(const struct adapt_layer *l, const char *name)
{
    for (int i = 0; i < l->count; i++)
        if (strcmp(l->list[i].name, name) == 0)
            return &l->list[i];
    return NULL;
}

void adapt_say(struct adapt_tensor *t, const char *format, ...)
{
    size_t at = strlen(t->how);
    if (at && at + 2 < sizeof t->how)
        at += (size_t)snprintf(t->how + at, sizeof t->how - at, ", ");
    va_list args;
    va_start(args, format);
    vsnprintf(t->how + at, sizeof t->how - at, format, args);
    va_end(args);
}

/* --- maps of tokens ----------------------------------------------------------------------------- */

/* How many maps a tensor holds by its name: 3 where it is "qkv.weight", 0 in others. */
static int maps_in(const struct adapt_tensor *t)
{
    static const char *const names[] = {"qkv", "qk", "q", "k", "v"};
    static const char *const tails[] = {"", ".bias", ".weight"}; /* by rank */
    size_t length = strcspn(t->name, ".");
    if (t->shape.rank < 1 || t->shape.rank > 2 || strcmp(t->name + length, tails[t->shape.rank]))
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && strncmp(names[i], t->name, length) == 0)
            return (int)length;
    return 0;
}

static struct adapt_part part_at(struct adapt_tensor *t, int maps, int index)
{
    int rows = t->shape.dim[0] / maps, columns = t->shape.rank > 1 ? t->shape.dim[1] : 1;
    real *value = t->value + (size_t)index * (size_t)rows * (size_t)columns;
    return (struct adapt_part){value, rows, columns, t, index};
}

/* rank: 2 of weights, 1 of biases. */
static struct adapt_part find_part(const struct adapt_layer *l, char map, int rank)
{
    for (int i = 0; i < l->count; i++) {
        struct adapt_tensor *t = &l->list[i];
        int maps = t->shape.rank == rank ? maps_in(t) : 0;
        const char *at = maps ? memchr(t->name, map, (size_t)maps) : NULL;
        if (at)
            return part_at(t, maps, (int)(at - t->name));
    }
    return (struct adapt_part){.value = NULL};
}

struct adapt_part adapt_weight(const struct adapt_layer *l, char map)
{
    return find_part(l, map, 2);
}

struct adapt_part adapt_bias(const struct adapt_layer *l, char map)
{
    return find_part(l, map, 1);
}

void adapt_use(const struct adapt_part *part)
{
    if (part->tensor)
        part->tensor->used |= 1u << part->index;
}

/* One map of a tensor to fill, `to`, of the layer `from`. */
static void adapt_part(struct adapt_part *to, const struct adapt_layer *from)
{
    char map = to->tensor->name[to->index];
    size_t count = (size_t)to->rows * (size_t)to->columns;
    struct adapt_part theirs = find_part(from, map, to->tensor->shape.rank);
    if (theirs.value && theirs.rows == to->rows && theirs.columns == to->columns) {
        memcpy(to->value, theirs.value, count * sizeof *to->value);
        to->tensor->loaded = true;
        adapt_use(&theirs);
        if (strcmp(theirs.tensor->name, to->tensor->name) != 0)
            adapt_say(to->tensor, "%c of %s", map, theirs.tensor->name);
        return;
    }
    if (theirs.value || !adapt_weight(from, 'q').value)
        return;
    memset(to->value, 0, count * sizeof *to->value);
    if (to->tensor->shape.rank == 1) {
        adapt_say(to->tensor, "%c 0", map);
        return;
    }
    for (int i = 0; i < to->rows; i++)
        to->value[(size_t)i * (size_t)to->columns + (size_t)(i % to->columns)] = 1;
    adapt_say(to->tensor, "%c the identity", map);
}

/* Whether the tensor holds such maps; they are filled then. */
static bool adapt_maps(struct adapt_tensor *t, const struct adapt_layer *from)
{
    int maps = maps_in(t);
    for (int i = 0; i < maps; i++) {
        struct adapt_part part = part_at(t, maps, i);
        adapt_part(&part, from);
    }
    return maps > 0;
}

/* --- tables of relative positions --------------------------------------------------------------- */

static int table_row(const struct attn_offsets *o, int dy, int dx)
{
    return (dy + o->reach[0] - 1) * (2 * o->reach[1] - 1) + dx + o->reach[1] - 1;
}

static bool is_table(const struct adapt_tensor *t, const struct attn_offsets *o)
{
    return t->shape.rank == 2 &&
           t->shape.dim[0] == (2 * o->reach[0] - 1) * (2 * o->reach[1] - 1);
}

/* Row by row from the old layer's table, 0 for offsets that it does not have. */
static void copy_table(struct adapt_tensor *to, const struct attn_offsets *ours,
                       struct adapt_tensor *from, const struct attn_offsets *theirs)
{
    size_t H = (size_t)to->shape.dim[1];
    int sign = ours->sign * theirs->sign, missing = 0;
    for (int dy = 1 - ours->reach[0]; dy < ours->reach[0]; dy++)
        for (int dx = 1 - ours->reach[1]; dx < ours->reach[1]; dx++) {
            real *row = to->value + (size_t)table_row(ours, dy, dx) * H;
            bool has = dy > -theirs->reach[0] && dy < theirs->reach[0] &&
                       dx > -theirs->reach[1] && dx < theirs->reach[1];
            if (has)
                memcpy(row, from->value + (size_t)table_row(theirs, sign * dy, sign * dx) * H,
                       H * sizeof *row);
            else
                memset(row, 0, H * sizeof *row);
            missing += !has;
        }
    to->loaded = true;
    from->used = 1;
    if (missing)
        adapt_say(to, "%d of %d offsets 0", missing, to->shape.dim[0]);
    else if (sign < 0)
        adapt_say(to, "offsets turned round");
    else if (to->shape.dim[0] != from->shape.dim[0])
        adapt_say(to, "as many offsets as there are");
}

/* The number of offsets along both axes. */
static void table_grid(int grid[2], const struct attn_offsets *o)
{
    for (int axis = 0; axis < 2; axis++)
        grid[axis] = 2 * o->reach[axis] - 1;
}

/* The old layer's table as its attention would have it in the new layer's windows. */
static enum status resample_table(struct adapt_tensor *to, const struct attn_offsets *ours,
                                  struct adapt_tensor *from, const struct attn_offsets *theirs,
                                  const struct attn_offsets *scaled, struct error *err)
{
    int old[2], wanted[2], H = to->shape.dim[1];
    table_grid(old, theirs);
    table_grid(wanted, scaled);
    struct adapt_tensor middle = *from;
    middle.shape = SHAPE(wanted[0] * wanted[1], H);
    middle.value = malloc(shape_count(&middle.shape) * sizeof *middle.value);
    if (!middle.value)
        return error_memory(err, shape_count(&middle.shape) * sizeof *middle.value);
    enum status status =
        nn_interpolate(middle.value, wanted, from->value, old, H, INTERPOLATE_PLAIN, err);
    if (!status) {
        adapt_say(to, "%d x %d offsets from %d x %d", wanted[0], wanted[1], old[0], old[1]);
        copy_table(to, ours, &middle, scaled);
        from->used = 1;
        to->resized = true;
    }
    free(middle.value);
    return status;
}

static enum status fill_table(struct adapt_tensor *t, const struct attn_offsets *ours,
                              const struct adapt_layer *to, const struct adapt_layer *from,
                              struct error *err)
{
    struct attn_offsets theirs, scaled;
    struct adapt_tensor *old = adapt_find(from, table_name);
    if (!old || !attn_table_offsets(from->attention, &from->site, &theirs) ||
        !is_table(old, &theirs) || old->shape.dim[1] != t->shape.dim[1]) {
        memset(t->value, 0, shape_count(&t->shape) * sizeof *t->value);
        adapt_say(t, "0");
        return OK;
    }
    if (attn_table_offsets(from->attention, &to->site, &scaled) &&
        (scaled.reach[0] != theirs.reach[0] || scaled.reach[1] != theirs.reach[1]))
        return resample_table(t, ours, old, &theirs, &scaled, err);
    copy_table(t, ours, old, &theirs);
    return OK;
}

/* Whether the tensor is the layer's table, and where that has which offset. */
static bool is_own_table(const struct adapt_tensor *t, const struct adapt_layer *to,
                         struct attn_offsets *ours)
{
    return strcmp(t->name, table_name) == 0 && attn_table_offsets(to->attention, &to->site, ours) &&
           is_table(t, ours);
}

/* --- the layer ---------------------------------------------------------------------------------- */

static void adapt_same(struct adapt_tensor *t, const struct adapt_layer *from)
{
    struct adapt_tensor *old = adapt_find(from, t->name);
    if (!old || !shape_equal(&old->shape, &t->shape))
        return;
    memcpy(t->value, old->value, shape_count(&t->shape) * sizeof *t->value);
    t->loaded = true;
    old->used = 1;
}

bool attn_same(const struct choice *a, const struct choice *b)
{
    return a->kind->impl == b->kind->impl &&
           (!a->kind->size || memcmp(a->options, b->options, a->kind->size) == 0);
}

enum status attn_adapt(struct adapt_layer *to, struct adapt_layer *from, struct error *err)
{
    struct attn_offsets offsets;
    enum status status = OK;
    for (int i = 0; i < from->count; i++) {
        struct adapt_tensor *t = &from->list[i];
        int maps = maps_in(t);
        t->parts = maps ? maps : 1;
    }
    for (int i = 0; i < to->count && !status; i++) {
        struct adapt_tensor *t = &to->list[i];
        if (is_own_table(t, to, &offsets))
            status = fill_table(t, &offsets, to, from, err);
        else if (!adapt_maps(t, from))
            adapt_same(t, from);
    }
    const struct attn_variant *v = to->attention->kind->impl;
    const struct attn_site site = attn_seen(to->attention, &to->site);
    const struct adapt a = {to, from, &site};
    if (!status && v->adapt && !attn_same(to->attention, from->attention))
        v->adapt(&a, to->attention->options);
    return status;
}

/* --- for hooks ---------------------------------------------------------------------------------- */

struct adapt_tensor *adapt_open(const struct adapt *a, const char *name)
{
    struct adapt_tensor *t = adapt_find(a->to, name);
    return t && !t->loaded ? t : NULL;
}

void adapt_constant(const struct adapt *a, const char *name, double value)
{
    struct adapt_tensor *t = adapt_open(a, name);
    size_t count = t ? shape_count(&t->shape) : 0;
    for (size_t i = 0; i < count; i++)
        t->value[i] = (real)value;
    if (t)
        adapt_say(t, "%g", value);
}

void adapt_identity(const struct adapt *a, const char *name, double factor)
{
    struct adapt_tensor *t = adapt_open(a, name);
    if (!t)
        return;
    int n = t->shape.dim[t->shape.rank - 1];
    size_t count = shape_count(&t->shape), square = (size_t)n * (size_t)n;
    for (size_t i = 0; i < count; i++)
        t->value[i] = (real)(i % square % (size_t)(n + 1) == 0 ? factor : 0);
    if (factor == 1)
        adapt_say(t, "the identity");
    else
        adapt_say(t, "%.4g times the identity", factor);
}
