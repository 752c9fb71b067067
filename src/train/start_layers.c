/* start_layers.c - attention of a checkpoint for the layers of a model, one by one (attention/adapt.h). */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/adapt.h"
#include "train/start.h"

/* Files that say nothing of attention are from programs that have this one alone. */
static const struct choice *plain_attention(void)
{
    static struct choice plain;
    plain = (struct choice){attn_kinds(0), attn_kinds(0)->name, NULL};
    return &plain;
}

/* Windows as a file shows them that does not say them: the model's, or squares. */
static void guess_window(const struct start *s, const char *own_name, struct model_layer *theirs)
{
    struct attn_site *site = &theirs->site;
    struct attn_offsets o;
    char name[MODEL_NAME_SIZE];
    snprintf(name, sizeof name, "%srelative_position_bias_table", own_name);
    const struct st_tensor *t = site->window[0] ? match_find(&s->match, name) : NULL;
    if (!t || t->rank != 2 || !attn_table_offsets(theirs->attention, site, &o) ||
        t->shape[0] == (2 * o.reach[0] - 1) * (2 * o.reach[1] - 1))
        return;
    int side = (int)lround(sqrt((double)t->shape[0]));
    if ((int64_t)side * side != t->shape[0] || side % 2 == 0)
        return;
    for (int axis = 0; axis < 2; axis++) {
        site->window[axis] = site->grid[axis] = (side + 1) / 2;
        site->shift[axis] = 0;
    }
    site->N = site->grid[0] * site->grid[1];
}

/* The layer of the checkpoint's model in that place. */
static struct model_layer their_layer(const struct start *s, int i, const struct start_layer *l)
{
    struct model_layer theirs;
    if (s->has_theirs && s->match.model->layer(s->theirs.model.options, i, &theirs))
        return theirs;
    theirs = l->ours;
    if (!s->whole)
        theirs.attention = plain_attention();
    guess_window(s, l->own_name, &theirs);
    return theirs;
}

static bool same_map(const struct attn_site *a, const struct attn_site *b)
{
    for (int axis = 0; axis < 2; axis++)
        if (a->grid[axis] != b->grid[axis] || a->window[axis] != b->window[axis])
            return false;
    return a->N == b->N;
}

static bool layer_adapts(const struct start *s, const struct start_layer *l)
{
    bool same = attn_same(l->ours.attention, l->theirs.attention);
    return s->whole ? same && !same_map(&l->ours.site, &l->theirs.site)
                    : !same || !same_map(&l->ours.site, &l->theirs.site);
}

enum status start_layers(struct start *s, struct error *err)
{
    const struct match *m = &s->match;
    struct model_layer ours;
    while (m->model->layer(m->options, s->count, &ours))
        s->count++;
    s->layers = calloc((size_t)s->count + 1, sizeof *s->layers);
    if (!s->layers)
        return error_memory(err, (size_t)s->count * sizeof *s->layers);
    for (int i = 0; i < s->count; i++) {
        struct start_layer *l = &s->layers[i];
        if (!m->model->layer(m->options, i, &l->ours))
            break;
        snprintf(l->own_name, sizeof l->own_name, "%.63s.", l->ours.scope);
        l->theirs = their_layer(s, i, l);
        l->adapts = layer_adapts(s, l);
        if (!match_name(m, l->own_name, l->name))
            l->name[0] = 0;
    }
    return OK;
}

const struct start_layer *start_layer_of(const struct start *s, const char *name, bool ours)
{
    for (int i = 0; i < s->count; i++) {
        const struct start_layer *l = &s->layers[i];
        const char *start = ours ? l->own_name : l->name + strlen(s->match.prefix);
        if (l->adapts && strncmp(name, start, strlen(start)) == 0)
            return l;
    }
    return NULL;
}

void start_check_tables(struct start *s)
{
    struct match *m = &s->match;
    for (int i = 0; i < s->count; i++) {
        const struct start_layer *l = &s->layers[i];
        struct attn_offsets o;
        char name[MODEL_NAME_SIZE + 48], theirs[MODEL_NAME_SIZE + 16];
        snprintf(name, sizeof name, "%srelative_position_bias_table", l->own_name);
        const struct st_tensor *t =
            l->adapts && match_name(m, name, theirs) ? st_find(m->file, theirs) : NULL;
        if (!t || !attn_table_offsets(l->theirs.attention, &l->theirs.site, &o))
            continue;
        struct shape wanted = SHAPE((2 * o.reach[0] - 1) * (2 * o.reach[1] - 1), l->ours.site.H);
        if (!match_shape(t, &wanted))
            match_misshapen(m, t, name, &wanted);
    }
}

/* --- adapting one layer ------------------------------------------------------------------------- */

struct shape start_shape(const struct st_tensor *t)
{
    struct shape shape = {.rank = t->rank};
    for (int i = 0; i < t->rank; i++)
        shape.dim[i] = (int)t->shape[i];
    return shape;
}

/* What we call a tensor of a layer, within it. */
static const char *own_tail(const struct start *s, const struct start_layer *l, const struct st_tensor *t)
{
    static const char *const tails[] = {"qkv.weight", "qkv.bias", "proj.weight", "proj.bias"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        char name[MODEL_NAME_SIZE], theirs[MODEL_NAME_SIZE + 16];
        snprintf(name, sizeof name, "%s%s", l->own_name, tails[i]);
        if (match_name(&s->match, name, theirs) && strcmp(theirs, t->name) == 0)
            return tails[i];
    }
    return t->name + strlen(l->name);
}

/* The file's tensors of a layer, converted. */
static enum status read_layer(const struct start *s, const struct start_layer *l, struct arena *memory,
                              struct adapt_layer *from, struct error *err)
{
    const struct st_file *f = s->match.file;
    size_t start = strlen(l->name);
    *from = (struct adapt_layer){.attention = l->theirs.attention, .site = l->theirs.site};
    from->list = arena_alloc(memory, ((size_t)st_count(f) + 1) * sizeof *from->list);
    if (!from->list)
        return error_memory(err, (size_t)st_count(f) * sizeof *from->list);
    for (int i = 0; i < st_count(f); i++) {
        const struct st_tensor *t = st_at(f, i);
        if (strncmp(t->name, l->name, start) != 0 || t->rank > MAX_RANK || t->count > INT_MAX ||
            model_is_derived(s->match.model, t->name))
            continue;
        struct adapt_tensor *to = &from->list[from->count++];
        *to = (struct adapt_tensor){.name = own_tail(s, l, t), .shape = start_shape(t)};
        to->value = arena_alloc(memory, (t->count + 1) * sizeof *to->value);
        if (!to->value)
            return error_memory(err, t->count * sizeof *to->value);
        enum status status = match_read(to->value, &s->match, t, err);
        if (status)
            return status;
    }
    return OK;
}

static enum status own_layer(const struct start *s, const struct start_layer *l, struct arena *memory,
                             struct adapt_layer *to, struct error *err)
{
    const struct params *p = s->params;
    size_t start = strlen(l->own_name);
    *to = (struct adapt_layer){.attention = l->ours.attention, .site = l->ours.site};
    to->list = arena_alloc(memory, ((size_t)p->count + 1) * sizeof *to->list);
    if (!to->list)
        return error_memory(err, (size_t)p->count * sizeof *to->list);
    for (int i = 0; i < p->count; i++)
        if (strncmp(p->list[i]->name, l->own_name, start) == 0)
            to->list[to->count++] = (struct adapt_tensor){
                .name = p->list[i]->name + start,
                .shape = p->list[i]->shape,
                .value = p->values + p->list[i]->at,
            };
    return OK;
}

/* Parts of a tensor that are left, by the letters of its name: "v" of "qkv.weight". */
static const char *unused_parts(char text[32], const struct adapt_tensor *t)
{
    size_t at = 0;
    for (int i = 0; i < t->parts && i < 16; i++)
        if (!(t->used & 1u << i))
            text[at++] = t->name[i];
    strcpy(text + at, " unused");
    return text;
}

/* Why a tensor starts anew that the old layer has too. */
static const char *start_text(char text[256], const struct adapt_tensor *t,
                              const struct adapt_layer *from)
{
    const struct adapt_tensor *old = adapt_find(from, t->name);
    char wanted[64], got[64];
    if (old && !old->used)
        snprintf(text, 256, "as at the start, %s where the checkpoint has %s",
                 shape_text(wanted, &t->shape), shape_text(got, &old->shape));
    else
        strcpy(text, "as at the start");
    return text;
}

static enum status report_layer(struct start *s, const struct start_layer *l,
                                const struct adapt_layer *to, const struct adapt_layer *from,
                                struct error *err)
{
    enum status status = OK;
    char name[MODEL_NAME_SIZE + 16], text[32], anew[256];
    for (int i = 0; i < to->count && !status; i++) {
        const struct adapt_tensor *t = &to->list[i];
        enum init_list list = t->resized ? INIT_RESIZED : t->loaded ? INIT_LOADED : INIT_INITIALISED;
        snprintf(name, sizeof name, "%s%s", l->own_name, t->name);
        status = init_report_add(s->report, list, name,
                                 t->loaded || *t->how ? t->how : start_text(anew, t, from), err);
    }
    for (int i = 0; i < from->count && !status; i++) {
        const struct adapt_tensor *t = &from->list[i];
        char own[MODEL_NAME_SIZE];
        snprintf(own, sizeof own, "%s%s", l->own_name, t->name);
        if (!match_name(&s->match, own, name))
            name[0] = 0;
        if (!t->used)
            status = init_report_add(s->report, INIT_UNUSED, name, "", err);
        else if (t->used != (1u << t->parts) - 1)
            status = init_report_add(s->report, INIT_PARTLY_USED, name, unused_parts(text, t), err);
    }
    return status;
}

static enum status adapt_one(struct start *s, const struct start_layer *l, struct error *err)
{
    struct arena memory;
    struct adapt_layer to, from;
    arena_init(&memory);
    enum status status = own_layer(s, l, &memory, &to, err);
    if (!status)
        status = read_layer(s, l, &memory, &from, err);
    if (!status)
        status = attn_adapt(&to, &from, err);
    if (!status)
        status = report_layer(s, l, &to, &from, err);
    arena_free(&memory);
    return status;
}

enum status start_adapt(struct start *s, struct error *err)
{
    enum status status = OK;
    for (int i = 0; i < s->count && !status; i++)
        if (s->layers[i].adapts)
            status = adapt_one(s, &s->layers[i], err);
    return status;
}
