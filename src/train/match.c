/* match.c - tensors of a file matched with parameters by name. */
#include "train/match.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "kernels/finite.h"
#include "train/experiment.h"

enum { NAMES_SHOWN = 3 };

static void names_add(struct names *n, const char *name, const char *what)
{
    size_t at = strlen(n->text);
    if (n->count < NAMES_SHOWN)
        snprintf(n->text + at, sizeof n->text - at, "%s%.100s%s", n->count ? ", " : "", name, what);
    else if (n->count == NAMES_SHOWN)
        snprintf(n->text + at, sizeof n->text - at, ", ...");
    n->count++;
}

static bool all_names_start_with(const struct st_file *f, const char *prefix)
{
    for (int i = 0; i < st_count(f); i++)
        if (strncmp(st_at(f, i)->name, prefix, strlen(prefix)) != 0)
            return false;
    return st_count(f) > 0;
}

static bool may_differ(const struct match *m, const char *name)
{
    return attn_owns(name) || model_is_head(m->model, name);
}

bool match_name(const struct match *m, const char *name, char theirs[MODEL_NAME_SIZE + 16])
{
    char renamed[MODEL_NAME_SIZE];
    if (m->layout)
        m->layout->rename(renamed, name);
    int length = snprintf(theirs, MODEL_NAME_SIZE + 16, "%s%s", m->prefix, m->layout ? renamed : name);
    return length > 0 && length < MODEL_NAME_SIZE + 16;
}

const struct st_tensor *match_find(const struct match *m, const char *name)
{
    char theirs[MODEL_NAME_SIZE + 16];
    return match_name(m, name, theirs) ? st_find(m->file, theirs) : NULL;
}

/* Takes the prefix that all names carry, and the layout that names the most tensors. */
static void choose_names(struct match *m)
{
    const struct params *p = m->params;
    static const char *const prefixes[] = {"module.", "model."};
    m->prefix = "";
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (all_names_start_with(m->file, prefixes[i]))
            m->prefix = prefixes[i];
    const struct model_layout *best = NULL, *next = m->model->layouts;
    int most = -1;
    for (m->layout = NULL;; m->layout = next++) {
        int count = 0;
        for (int i = 0; i < p->count; i++)
            count += match_find(m, p->list[i]->name) != NULL;
        if (count > most) {
            most = count;
            best = m->layout;
        }
        if (!next || !next->program)
            break;
    }
    m->layout = best;
}

bool match_shape(const struct st_tensor *t, const struct shape *shape)
{
    if (t->rank != shape->rank)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] != shape->dim[i])
            return false;
    return true;
}

/* Writes " (2, 3) instead of (3, 3)". */
static void shapes_text(char text[256], const struct st_tensor *t, const struct shape *shape)
{
    char wanted[64];
    int at = snprintf(text, 256, " (");
    for (int i = 0; i < t->rank && at < 150; i++)
        at += snprintf(text + at, (size_t)(256 - at), "%s%lld", i ? ", " : "",
                       (long long)t->shape[i]);
    snprintf(text + at, (size_t)(256 - at), ") instead of %s", shape_text(wanted, shape));
}

/* Asks the model what it means that a tensor has another shape. */
static void explain(struct match *m, const struct st_tensor *t, const char *name)
{
    struct shape theirs = {.rank = t->rank};
    if (*m->hint || !m->model->misfit || t->rank > MAX_RANK)
        return;
    for (int i = 0; i < t->rank; i++)
        theirs.dim[i] = t->shape[i] < INT_MAX ? (int)t->shape[i] : INT_MAX;
    if (!m->model->misfit(m->options, name, &theirs, m->hint))
        m->hint[0] = 0;
}

void match_misshapen(struct match *m, const struct st_tensor *t, const char *name,
                     const struct shape *wanted)
{
    char text[256];
    shapes_text(text, t, wanted);
    names_add(&m->shapes, name, text);
    m->other_backbone += !model_is_head(m->model, name);
    explain(m, t, name);
}

/* Whether a tensor of the file was found for a parameter. */
static bool is_claimed(const struct match *m, const struct st_tensor *t)
{
    for (int i = 0; i < m->params->count; i++)
        if (m->found[i] == t)
            return true;
    return false;
}

/* Of a tensor that only one of two models has: the file's tensor that is the other model's. */
static const struct st_tensor *find_twin(const struct match *m, const char *name)
{
    const char *const *twins = m->twins ? m->model->twins : NULL;
    for (int i = 0; twins && twins[i]; i++) {
        char other[MODEL_NAME_SIZE];
        size_t length = strlen(twins[i]);
        if (strncmp(name, twins[i], length) != 0)
            continue;
        snprintf(other, sizeof other, "%s%s", twins[i ^ 1], name + length);
        return params_find(m->params, other) ? NULL : match_find(m, other);
    }
    return NULL;
}

static bool is_aside(const struct match *m, const char *name, bool ours)
{
    return m->aside && m->aside(m->context, name, ours);
}

void match_compare(struct match *m)
{
    const struct params *p = m->params;
    for (int i = 0; i < p->count; i++) {
        const char *name = p->list[i]->name;
        if (is_aside(m, name, true))
            continue;
        const struct st_tensor *t = match_find(m, name);
        t = m->found[i] = t ? t : find_twin(m, name);
        if (!t) {
            names_add(&m->missing, name, "");
            m->other_backbone += !may_differ(m, name);
        } else if (!match_shape(t, &p->list[i]->shape)) {
            match_misshapen(m, t, name, &p->list[i]->shape);
        } else {
            m->matched++;
        }
    }
    for (int i = 0; i < st_count(m->file); i++) {
        const struct st_tensor *t = st_at(m->file, i);
        const char *name = t->name + strlen(m->prefix);
        if (!is_aside(m, name, false) && !is_claimed(m, t) && !model_is_derived(m->model, name)) {
            names_add(&m->unexpected, name, "");
            m->other_backbone += !may_differ(m, name);
        }
    }
}

const char *match_text(char text[MATCH_TEXT], const struct match *m)
{
    const struct {
        const struct names *names;
        const char *what;
    } parts[] = {
        {&m->shapes, "of another shape"}, {&m->missing, "missing"}, {&m->unexpected, "unexpected"}};
    int at = snprintf(text, MATCH_TEXT, "%d tensors match", m->matched);
    if (*m->prefix)
        at += snprintf(text + at, (size_t)(MATCH_TEXT - at), " (\"%s\" stripped from their names)",
                       m->prefix);
    if (m->layout)
        at += snprintf(text + at, (size_t)(MATCH_TEXT - at), " (named as in %s)",
                       m->layout->program);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].names->count || i > 0)
            at += snprintf(text + at, (size_t)(MATCH_TEXT - at), ", %d %s%s%s",
                           parts[i].names->count, parts[i].what, parts[i].names->count ? ": " : "",
                           parts[i].names->text);
    return text;
}

static enum status to_reals(real *out, const struct st_tensor *t, struct error *err)
{
#ifdef ATTNBENCH_DOUBLE
    return st_to_double(out, t, err);
#else
    return st_to_float(out, t, err);
#endif
}

enum status match_read(real *values, const struct match *m, const struct st_tensor *t,
                       struct error *err)
{
    enum status status = to_reals(values, t, err);
    if (status) {
        error_prefix(err, "%s: ", m->path);
        return status;
    }
    struct vec loaded = {values, TYPE_REAL, (ptrdiff_t)t->count};
    if (!kernel_all_finite(loaded, 1, t->count))
        return error_set(err, ERR_INPUT,
                         "%s: %s has values that are not finite (the file is damaged, or its "
                         "training diverged)",
                         m->path, t->name);
    return OK;
}

enum status match_copy(real *values, const struct match *m, struct error *err)
{
    for (int i = 0; i < m->params->count; i++) {
        const struct param *param = m->params->list[i];
        const struct st_tensor *t = m->found[i];
        enum status status = OK;
        if (t && match_shape(t, &param->shape))
            status = match_read(values + param->at, m, t, err);
        if (status)
            return status;
    }
    return OK;
}

/* Asks about the models of both, where the file says what its model is: `ask` writes the hint. */
static bool compare_models(struct match *m, bool (*ask)(struct match *m, const void *theirs))
{
    const char *config = st_metadata(m->file, "config");
    struct experiment theirs;
    struct error ignored;
    if (!config || experiment_parse(&theirs, config, m->path, &ignored))
        return false;
    bool found = model_of(&theirs.model) == m->model && ask(m, theirs.model.options);
    experiment_free(&theirs);
    return found;
}

static bool ask_conflict(struct match *m, const void *theirs)
{
    return m->model->conflict && m->model->conflict(m->options, theirs, m->resized, m->hint);
}

static bool ask_differences(struct match *m, const void *theirs)
{
    return model_differences(m->model, m->options, theirs, m->hint) > 0;
}

bool match_conflicts(struct match *m)
{
    return compare_models(m, ask_conflict);
}

enum status match_refuse(struct match *m, const char *hint, struct error *err)
{
    char text[MATCH_TEXT];
    if (!*m->hint && !compare_models(m, ask_differences))
        m->hint[0] = 0;
    return error_set(err, ERR_INPUT, "%s: does not fit the model: %s (%s)", m->path,
                     match_text(text, m), *m->hint ? m->hint : hint);
}

enum status match_begin(struct match *m, const struct params *p, const struct choice *model,
                        const struct st_file *f, const char *path, struct error *err)
{
    *m = (struct match){.params = p, .file = f, .path = path, .model = model_of(model),
                        .options = model->options};
    m->found = calloc((size_t)p->count + 1, sizeof *m->found);
    if (!m->found)
        return error_memory(err, (size_t)p->count * sizeof *m->found);
    m->is_ours = st_metadata(f, "attnbench_version") != NULL;
    choose_names(m);
    return OK;
}

void match_end(struct match *m)
{
    free(m->found);
}
