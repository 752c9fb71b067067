/* checkpoint_init.c - start values from a checkpoint: what has the same name and shape, positions of
 * another map, and attention layer by layer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/adapt.h"
#include "train/checkpoint.h"
#include "train/start.h"

/* Whether a tensor, by our name or by the file's without prefix, is the one that we call `own`. */
static bool is_tensor(const struct match *m, const char *name, bool ours, const char *own)
{
    char theirs[MODEL_NAME_SIZE + 16];
    if (ours)
        return strcmp(name, own) == 0;
    return match_name(m, own, theirs) && strcmp(name, theirs + strlen(m->prefix)) == 0;
}

/* Of a token before the map that one of both models has alone. */
static bool is_lone_token(const struct start *s, const char *name, bool ours)
{
    const struct match *m = &s->match;
    for (const char *const *token = m->model->tokens; token && *token; token++)
        if (is_tensor(m, name, ours, *token))
            return ours ? !match_find(m, *token) : !params_find(m->params, *token);
    return false;
}

static bool is_moved(const struct start *s, const char *name, bool ours)
{
    return s->position.param && is_tensor(&s->match, name, ours, s->position.param->name);
}

static bool is_aside(const void *context, const char *name, bool ours)
{
    const struct start *s = context;
    return start_layer_of(s, name, ours) || is_moved(s, name, ours) ||
           (!s->whole && is_lone_token(s, name, ours));
}

static enum status report_param(struct start *s, const struct param *p, struct error *err)
{
    const struct st_tensor *t = s->match.found[p->number];
    char how[128] = "as at the start", wanted[64], got[64];
    if (t && match_shape(t, &p->shape))
        return init_report_add(s->report, INIT_LOADED, p->name,
                               match_find(&s->match, p->name) == t ? "" : t->name, err);
    if (t && t->rank <= MAX_RANK) {
        struct shape shape = start_shape(t);
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
        if (!start_layer_of(s, s->params->list[i]->name, true) &&
            !is_moved(s, s->params->list[i]->name, true))
            status = report_param(s, s->params->list[i], err);
    for (int i = 0; i < st_count(m->file) && !status; i++) {
        const struct st_tensor *t = st_at(m->file, i);
        const char *name = t->name + strlen(m->prefix);
        if (model_is_derived(m->model, name))
            continue;
        s->report->tensors++;
        if (!start_layer_of(s, name, false) && !is_moved(s, name, false) && !is_used(s, t))
            status = init_report_add(s->report, INIT_UNUSED, t->name, "", err);
    }
    return status;
}

/* The names of the attentions, each once: "standard, eva". */
static const char *attentions(struct start *s, bool ours)
{
    const char *text = "";
    for (int i = 0; i < s->count && text; i++) {
        const struct start_layer *l = &s->layers[i];
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

static enum status fill_position(struct start *s, struct error *err)
{
    char how[MODEL_HINT_SIZE];
    if (!s->position.param)
        return OK;
    enum status status = position_fill(s->params->values, &s->position, &s->match, how, err);
    return status ? status
                  : init_report_add(s->report, INIT_RESIZED, s->position.param->name, how, err);
}

/* Refuses what cannot be used, before anything is changed. */
static enum status check_fit(struct start *s, struct error *err)
{
    struct match *m = &s->match;
    match_compare(m);
    start_check_tables(s);
    if (s->whole && (m->shapes.count || m->missing.count || m->unexpected.count))
        return match_refuse(m, "sizes of images and windows alone may differ", err);
    if (m->other_backbone)
        return match_refuse(m, "only tensors of attention and head may differ", err);
    bool adapts = s->position.param != NULL;
    for (int i = 0; i < s->count; i++)
        adapts = adapts || s->layers[i].adapts;
    if (!m->matched && !(s->whole && adapts))
        return match_refuse(m, "nothing of it can be used", err);
    return match_conflicts(m) ? match_refuse(m, "", err) : OK;
}

static enum status start_from(struct start *s, struct error *err)
{
    struct match *m = &s->match;
    enum status status = start_layers(s, err);
    if (status)
        return status;
    if (position_moves(&s->position, m, s->has_theirs ? s->theirs.model.options : NULL) &&
        s->whole && s->position.ours.prefix != s->position.theirs.prefix)
        s->position.param = NULL;
    m->aside = is_aside;
    m->context = s;
    status = check_fit(s, err);
    if (!status)
        status = report_begin(s, err);
    if (!status)
        status = match_copy(s->params->values, m, err);
    if (!status)
        status = fill_position(s, err);
    if (!status)
        status = start_adapt(s, err);
    return status ? status : report_rest(s, err);
}

static enum status open_start(struct start *s, const struct choice *model, const char *path,
                              struct st_file **f, struct error *err)
{
    struct error ignored;
    enum status status = st_open(f, path, err);
    if (status)
        return status;
    const char *config = st_metadata(*f, "config");
    s->has_theirs = config && !experiment_parse(&s->theirs, config, path, &ignored);
    status = match_begin(&s->match, s->params, model, *f, path, err);
    s->match.twins = !s->whole;
    s->match.resized = true;
    if (s->has_theirs && model_of(&s->theirs.model) != model_of(model)) {
        experiment_free(&s->theirs);
        s->has_theirs = false;
    }
    return status ? status : start_from(s, err);
}

static void close_start(struct start *s, struct st_file *f)
{
    if (s->has_theirs)
        experiment_free(&s->theirs);
    free(s->layers);
    match_end(&s->match);
    st_close(f);
}

enum status checkpoint_init(struct params *p, const struct choice *model, const char *path,
                            struct init_report *report, struct error *err)
{
    struct start s = {.params = p, .report = report};
    struct st_file *f = NULL;
    enum status status = open_start(&s, model, path, &f, err);
    close_start(&s, f);
    return status;
}

/* Of the same model: what neither fits nor can be resampled. */
static enum status check_whole(const struct start *s, struct error *err)
{
    static const enum init_list lists[] = {INIT_INITIALISED, INIT_PARTLY_USED, INIT_UNUSED};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (s->report->list[lists[i]].count)
            return error_set(err, ERR_INPUT,
                             "%s: %s was trained for the checkpoint's number of tokens and cannot be "
                             "resampled (image_size, patch_size and window_size must be the checkpoint's)",
                             s->match.path, s->report->list[lists[i]].at[0].name);
    return OK;
}

/* What matched, of files that are not our own, and what was resized. */
static enum status write_note(char **note, struct start *s, struct error *err)
{
    struct match *m = &s->match;
    char text[MATCH_TEXT];
    const char *line = init_report_line(s->report, INIT_RESIZED);
    *note = NULL;
    m->matched = s->report->list[INIT_LOADED].count;
    if (m->is_ours && !*m->prefix && !m->layout && !line)
        return OK;
    match_text(text, m);
    size_t size = strlen(m->path) + strlen(text) + (line ? strlen(line) : 0) + 5;
    if (!(*note = malloc(size)))
        return error_memory(err, size);
    snprintf(*note, size, "%s: %s%s%s", m->path, text, line ? "; " : "", line ? line : "");
    return OK;
}

enum status checkpoint_load_resized(struct params *p, const struct choice *model, const char *path,
                                    char **note, struct error *err)
{
    struct init_report report;
    init_report_begin(&report);
    struct start s = {.params = p, .report = &report, .whole = true};
    struct st_file *f = NULL;
    enum status status = open_start(&s, model, path, &f, err);
    if (!status)
        status = check_whole(&s, err);
    if (!status)
        status = write_note(note, &s, err);
    close_start(&s, f);
    init_report_free(&report);
    return status;
}
