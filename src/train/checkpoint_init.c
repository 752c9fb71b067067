/* checkpoint_init.c - start values from a checkpoint: the backbone by name, attention of another kind
 * layer by layer (attention/adapt.h). */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/adapt.h"
#include "train/checkpoint.h"
#include "train/experiment.h"
#include "train/match.h"

/* An attention layer of the model, and what stands for it in the checkpoint. */
struct layer {
    struct model_layer ours, theirs;
    char name[MODEL_NAME_SIZE + 16];   /* what the file's names of it start with, a point at the end */
    char own_name[MODEL_SCOPE_SIZE + 1];
    bool adapts; /* to another attention, or to other options */
};

struct start {
    struct match match;
    struct params *params;
    struct experiment theirs; /* as the checkpoint says, where has_theirs */
    bool has_theirs;
    struct layer *layers;
    int count;
    struct init_report *report;
};

/* --- the layers --------------------------------------------------------------------------------- */

/* Files that say nothing of attention are from programs that have this one alone. */
static const struct choice *plain_attention(void)
{
    static struct choice plain;
    plain = (struct choice){attn_kinds(0), attn_kinds(0)->name, NULL};
    return &plain;
}

static bool same_choice(const struct choice *a, const struct choice *b)
{
    return a->kind->impl == b->kind->impl &&
           (!a->kind->size || memcmp(a->options, b->options, a->kind->size) == 0);
}

/* The layer of the checkpoint's model in that place. */
static struct model_layer their_layer(const struct start *s, int i, const struct model_layer *ours)
{
    struct model_layer theirs;
    if (s->has_theirs && s->match.model->layer(s->theirs.model.options, i, &theirs))
        return theirs;
    theirs = *ours;
    theirs.attention = plain_attention();
    return theirs;
}

static enum status find_layers(struct start *s, struct error *err)
{
    const struct match *m = &s->match;
    struct model_layer ours;
    while (m->model->layer(m->options, s->count, &ours))
        s->count++;
    s->layers = calloc((size_t)s->count + 1, sizeof *s->layers);
    if (!s->layers)
        return error_memory(err, (size_t)s->count * sizeof *s->layers);
    for (int i = 0; i < s->count; i++) {
        struct layer *l = &s->layers[i];
        if (!m->model->layer(m->options, i, &l->ours))
            break;
        l->theirs = their_layer(s, i, &l->ours);
        l->adapts = !same_choice(l->ours.attention, l->theirs.attention);
        snprintf(l->own_name, sizeof l->own_name, "%.63s.", l->ours.scope);
        if (!match_name(m, l->own_name, l->name))
            l->name[0] = 0;
    }
    return OK;
}

/* The adapting layer that a tensor belongs to, or NULL; `ours`: the name is our own, else the file's. */
static const struct layer *layer_of(const struct start *s, const char *name, bool ours)
{
    for (int i = 0; i < s->count; i++) {
        const struct layer *l = &s->layers[i];
        const char *start = ours ? l->own_name : l->name + strlen(s->match.prefix);
        if (l->adapts && strncmp(name, start, strlen(start)) == 0)
            return l;
    }
    return NULL;
}

static bool is_aside(const void *context, const char *name, bool ours)
{
    return layer_of(context, name, ours) != NULL;
}

/* --- adapting one layer ------------------------------------------------------------------------- */

static struct shape shape_of(const struct st_tensor *t)
{
    struct shape shape = {.rank = t->rank};
    for (int i = 0; i < t->rank; i++)
        shape.dim[i] = (int)t->shape[i];
    return shape;
}

/* The file's tensors of a layer, converted. */
static enum status read_layer(const struct start *s, const struct layer *l, struct arena *memory,
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
        *to = (struct adapt_tensor){.name = t->name + start, .shape = shape_of(t)};
        to->value = arena_alloc(memory, (t->count + 1) * sizeof *to->value);
        if (!to->value)
            return error_memory(err, t->count * sizeof *to->value);
        enum status status = match_read(to->value, &s->match, t, err);
        if (status)
            return status;
    }
    return OK;
}

static enum status own_layer(const struct start *s, const struct layer *l, struct arena *memory,
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

static enum status report_layer(struct start *s, const struct layer *l,
                                const struct adapt_layer *to, const struct adapt_layer *from,
                                struct error *err)
{
    enum status status = OK;
    char name[MODEL_NAME_SIZE + 16], text[32];
    for (int i = 0; i < to->count && !status; i++) {
        const struct adapt_tensor *t = &to->list[i];
        snprintf(name, sizeof name, "%s%s", l->own_name, t->name);
        status = t->loaded ? init_report_add(s->report, INIT_LOADED, name, t->how, err)
                           : init_report_add(s->report, INIT_INITIALISED, name,
                                             *t->how ? t->how : "as at the start", err);
    }
    for (int i = 0; i < from->count && !status; i++) {
        const struct adapt_tensor *t = &from->list[i];
        snprintf(name, sizeof name, "%s%s", l->name, t->name);
        if (!t->used)
            status = init_report_add(s->report, INIT_UNUSED, name, "", err);
        else if (t->used != (1u << t->parts) - 1)
            status = init_report_add(s->report, INIT_PARTLY_USED, name, unused_parts(text, t), err);
    }
    return status;
}

static enum status adapt_one(struct start *s, const struct layer *l, struct error *err)
{
    struct arena memory;
    struct adapt_layer to, from;
    arena_init(&memory);
    enum status status = own_layer(s, l, &memory, &to, err);
    if (!status)
        status = read_layer(s, l, &memory, &from, err);
    if (!status) {
        attn_adapt(&to, &from);
        status = report_layer(s, l, &to, &from, err);
    }
    arena_free(&memory);
    return status;
}

/* --- the rest ----------------------------------------------------------------------------------- */

static enum status report_param(struct start *s, const struct param *p, struct error *err)
{
    const struct st_tensor *t = s->match.found[p->number];
    char how[128] = "as at the start", wanted[64], got[64];
    if (t && match_shape(t, &p->shape))
        return init_report_add(s->report, INIT_LOADED, p->name, "", err);
    if (t && t->rank <= MAX_RANK) {
        struct shape shape = shape_of(t);
        snprintf(how, sizeof how, "as at the start, %s where the checkpoint has %s",
                 shape_text(wanted, &p->shape), shape_text(got, &shape));
    }
    return init_report_add(s->report, INIT_INITIALISED, p->name, how, err);
}

/* Whether a tensor of the file was loaded by its name. */
static bool is_used(const struct start *s, const struct st_tensor *t)
{
    for (int i = 0; i < s->params->count; i++)
        if (s->match.found[i] == t)
            return match_shape(t, &s->params->list[i]->shape);
    return false;
}

/* What is not in an adapting layer. */
static enum status report_rest(struct start *s, struct error *err)
{
    const struct match *m = &s->match;
    enum status status = OK;
    for (int i = 0; i < s->params->count && !status; i++)
        if (!layer_of(s, s->params->list[i]->name, true))
            status = report_param(s, s->params->list[i], err);
    for (int i = 0; i < st_count(m->file) && !status; i++) {
        const struct st_tensor *t = st_at(m->file, i);
        const char *name = t->name + strlen(m->prefix);
        if (model_is_derived(m->model, name))
            continue;
        s->report->tensors++;
        if (!layer_of(s, name, false) && !is_used(s, t))
            status = init_report_add(s->report, INIT_UNUSED, t->name, "", err);
    }
    return status;
}

/* The names of the attentions, each once: "standard, eva". */
static const char *attentions(struct start *s, bool ours)
{
    const char *text = "";
    for (int i = 0; i < s->count && text; i++) {
        const struct layer *l = &s->layers[i];
        const char *name = (ours ? l->ours : l->theirs).attention->kind->name;
        bool is_new = true;
        for (int k = 0; k < i; k++)
            is_new = is_new && strcmp(name, (ours ? s->layers[k].ours : s->layers[k].theirs)
                                                .attention->kind->name) != 0;
        if (is_new)
            text = arena_printf(&s->report->memory, "%s%s%s", text, *text ? ", " : "", name);
    }
    return text;
}

static enum status report_begin(struct start *s, struct error *err)
{
    struct init_report *r = s->report;
    const struct match *m = &s->match;
    r->path = arena_strdup(&r->memory, m->path);
    r->from = attentions(s, false);
    if (r->from && !s->has_theirs && st_metadata(m->file, "config"))
        r->from = arena_printf(&r->memory, "%s (by its names: its config cannot be read)", r->from);
    r->to = attentions(s, true);
    r->names = arena_printf(&r->memory, "%s%s%s%s%s", *m->prefix ? " (\"" : "", m->prefix,
                            *m->prefix ? "\" stripped from their names)" : "",
                            m->layout ? " named as in " : "", m->layout ? m->layout->program : "");
    return r->path && r->from && r->to && r->names ? OK : error_memory(err, 4096);
}

/* A table of relative positions that is not as large as the checkpoint's attention would have it is one
 * of other windows. */
static void check_tables(struct start *s)
{
    struct match *m = &s->match;
    for (int i = 0; i < s->count; i++) {
        const struct layer *l = &s->layers[i];
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

static enum status start_from(struct start *s, struct error *err)
{
    struct match *m = &s->match;
    enum status status = find_layers(s, err);
    if (status)
        return status;
    m->aside = is_aside;
    m->context = s;
    match_compare(m);
    check_tables(s);
    if (m->other_backbone)
        return match_refuse(m, "only tensors of attention and head may differ", err);
    if (!m->matched)
        return match_refuse(m, "nothing of it can be used", err);
    if (match_conflicts(m))
        return match_refuse(m, "", err);
    status = report_begin(s, err);
    if (!status)
        status = match_copy(s->params->values, m, err);
    for (int i = 0; i < s->count && !status; i++)
        if (s->layers[i].adapts)
            status = adapt_one(s, &s->layers[i], err);
    return status ? status : report_rest(s, err);
}

enum status checkpoint_init(struct params *p, const struct choice *model, const char *path,
                            struct init_report *report, struct error *err)
{
    struct start s = {.params = p, .report = report};
    struct error ignored;
    struct st_file *f = NULL;
    enum status status = st_open(&f, path, err);
    if (status)
        return status;
    const char *config = st_metadata(f, "config");
    s.has_theirs = config && !experiment_parse(&s.theirs, config, path, &ignored);
    status = match_begin(&s.match, p, model, f, path, err);
    if (s.has_theirs && model_of(&s.theirs.model) != model_of(model)) {
        experiment_free(&s.theirs);
        s.has_theirs = false;
    }
    if (!status)
        status = start_from(&s, err);
    if (s.has_theirs)
        experiment_free(&s.theirs);
    free(s.layers);
    match_end(&s.match);
    st_close(f);
    return status;
}
