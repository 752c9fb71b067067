/* checkpoint_load.c - tensors of a file matched with parameters by name. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "io/safetensors.h"
#include "kernels/finite.h"
#include "train/checkpoint.h"
#include "train/experiment.h"

enum { NAMES_SHOWN = 3 };

/* Names that did not fit: how many, and the first ones as text. */
struct names {
    int count;
    char text[512];
};

/* A file beside the parameters, name by name. */
struct match {
    const struct model *model;
    const void *options;
    const char *prefix; /* that all names of the file carry: "", "module.", "model." */
    const struct model_layout *layout; /* whose names they are, NULL: ours */
    bool is_ours;                      /* written by attnbench */
    const struct st_tensor **found;    /* of each parameter, NULL: missing */
    int matched;
    struct names missing, unexpected, shapes;
    int other_backbone; /* of these, what is neither attention nor head */
    char hint[MODEL_HINT_SIZE]; /* what the model says to the first shape, or to the file's config */
};

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

/* The file's tensor for our `name`. */
static const struct st_tensor *find(const struct st_file *f, const struct match *m,
                                    const char *name)
{
    char whole[MODEL_NAME_SIZE + 16], theirs[MODEL_NAME_SIZE];
    if (m->layout)
        m->layout->rename(theirs, name);
    int length = snprintf(whole, sizeof whole, "%s%s", m->prefix, m->layout ? theirs : name);
    return length > 0 && (size_t)length < sizeof whole ? st_find(f, whole) : NULL;
}

/* Takes the prefix that all names carry, and the layout that names the most tensors. */
static void choose_names(struct match *m, const struct st_file *f, const struct params *p)
{
    static const char *const prefixes[] = {"module.", "model."};
    m->prefix = "";
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (all_names_start_with(f, prefixes[i]))
            m->prefix = prefixes[i];
    const struct model_layout *best = NULL, *next = m->model->layouts;
    int most = -1;
    for (m->layout = NULL;; m->layout = next++) {
        int count = 0;
        for (int i = 0; i < p->count; i++)
            count += find(f, m, p->list[i]->name) != NULL;
        if (count > most) {
            most = count;
            best = m->layout;
        }
        if (!next || !next->program)
            break;
    }
    m->layout = best;
}

static bool same_shape(const struct st_tensor *t, const struct param *param)
{
    if (t->rank != param->shape.rank)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] != param->shape.dim[i])
            return false;
    return true;
}

/* Writes " (2, 3) instead of (3, 3)". */
static void shapes_text(char text[256], const struct st_tensor *t, const struct param *param)
{
    char wanted[64];
    int at = snprintf(text, 256, " (");
    for (int i = 0; i < t->rank && at < 150; i++)
        at += snprintf(text + at, (size_t)(256 - at), "%s%lld", i ? ", " : "",
                       (long long)t->shape[i]);
    snprintf(text + at, (size_t)(256 - at), ") instead of %s", shape_text(wanted, &param->shape));
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

/* Whether a tensor of the file was found for a parameter. */
static bool is_claimed(const struct match *m, const struct params *p, const struct st_tensor *t)
{
    for (int i = 0; i < p->count; i++)
        if (m->found[i] == t)
            return true;
    return false;
}

static void compare(struct match *m, const struct st_file *f, const struct params *p)
{
    m->is_ours = st_metadata(f, "attnbench_version") != NULL;
    choose_names(m, f, p);
    for (int i = 0; i < p->count; i++) {
        const char *name = p->list[i]->name;
        const struct st_tensor *t = m->found[i] = find(f, m, name);
        if (!t) {
            names_add(&m->missing, name, "");
            m->other_backbone += !may_differ(m, name);
        } else if (!same_shape(t, p->list[i])) {
            char text[256];
            shapes_text(text, t, p->list[i]);
            names_add(&m->shapes, name, text);
            m->other_backbone += !model_is_head(m->model, name);
            explain(m, t, name);
        } else {
            m->matched++;
        }
    }
    for (int i = 0; i < st_count(f); i++) {
        const char *name = st_at(f, i)->name + strlen(m->prefix);
        if (!is_claimed(m, p, st_at(f, i)) && !model_is_derived(m->model, name)) {
            names_add(&m->unexpected, name, "");
            m->other_backbone += !may_differ(m, name);
        }
    }
}

/* "12 tensors match, 1 missing: norm.bias, ..."; `shapes` says what becomes of those. */
static const char *describe(char text[2048], const struct match *m, const char *shapes)
{
    const struct {
        const struct names *names;
        const char *what;
    } parts[] = {{&m->shapes, shapes}, {&m->missing, "missing"}, {&m->unexpected, "unexpected"}};
    int at = snprintf(text, 2048, "%d tensors match", m->matched);
    if (*m->prefix)
        at += snprintf(text + at, (size_t)(2048 - at), " (\"%s\" stripped from their names)",
                       m->prefix);
    if (m->layout)
        at += snprintf(text + at, (size_t)(2048 - at), " (named as in %s)", m->layout->program);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].names->count || i > 0)
            at += snprintf(text + at, (size_t)(2048 - at), ", %d %s%s%s", parts[i].names->count,
                           parts[i].what, parts[i].names->count ? ": " : "", parts[i].names->text);
    return text;
}

static enum status refuse(const struct match *m, const char *path, const char *hint,
                          struct error *err)
{
    char text[2048];
    return error_set(err, ERR_INPUT, "%s: does not fit the model: %s (%s)", path,
                     describe(text, m, "of another shape"), *m->hint ? m->hint : hint);
}

static enum status to_reals(real *out, const struct st_tensor *t, struct error *err)
{
#ifdef ATTNBENCH_DOUBLE
    return st_to_double(out, t, err);
#else
    return st_to_float(out, t, err);
#endif
}

static enum status copy_values(real *values, const struct match *m, const struct params *p,
                               const char *path, struct error *err)
{
    for (int i = 0; i < p->count; i++) {
        const struct param *param = p->list[i];
        const struct st_tensor *t = m->found[i];
        if (!t || !same_shape(t, param))
            continue;
        enum status status = to_reals(values + param->at, t, err);
        if (status) {
            error_prefix(err, "%s: ", path);
            return status;
        }
        struct vec loaded = {values + param->at, TYPE_REAL, (ptrdiff_t)param->count};
        if (!kernel_all_finite(loaded, 1, param->count))
            return error_set(err, ERR_INPUT,
                             "%s: %s has values that are not finite (the file is damaged, or its "
                             "training diverged)",
                             path, t->name);
    }
    return OK;
}

/* What is said of our own whole checkpoints goes without saying. */
static enum status write_note(char **note, const struct match *m, const char *path, bool strict,
                              struct error *err)
{
    char text[2048];
    *note = NULL;
    if (strict && m->is_ours && !*m->prefix && !m->layout)
        return OK;
    describe(text, m, "of another shape keep their initial values");
    size_t size = strlen(path) + strlen(text) + 3;
    if (!(*note = malloc(size)))
        return error_memory(err, size);
    snprintf(*note, size, "%s: %s", path, text);
    return OK;
}

/* Whether the file comes from a model in which the same tensors mean something else. Where its config
 * cannot be read (another version wrote it) names and shapes alone decide. */
static bool conflicts(struct match *m, const struct st_file *f, const char *path)
{
    const char *config = st_metadata(f, "config");
    struct experiment theirs;
    struct error ignored;
    if (!m->model->conflict || !config || experiment_parse(&theirs, config, path, &ignored))
        return false;
    bool found = model_of(&theirs.model) == m->model &&
                 m->model->conflict(m->options, theirs.model.options, m->hint);
    experiment_free(&theirs);
    return found;
}

/* Loads what the file f has; `strict`: which must then be everything, and nothing else. */
static enum status load_from(struct match *m, const struct st_file *f, const struct params *p,
                             const char *path, real *values, bool strict, struct error *err)
{
    compare(m, f, p);
    if (strict && (m->shapes.count || m->missing.count || m->unexpected.count))
        return refuse(m, path, "the checkpoint must come from this very model", err);
    if (m->other_backbone)
        return refuse(m, path, "only tensors of attention and head may differ", err);
    if (!m->matched)
        return refuse(m, path, "nothing of it can be used", err);
    if (conflicts(m, f, path))
        return refuse(m, path, "", err);
    return copy_values(values, m, p, path, err);
}

static enum status load(const struct params *p, const struct choice *model, const char *path,
                        real *values, bool strict, char **note, struct error *err)
{
    struct st_file *f = NULL;
    enum status status = st_open(&f, path, err);
    if (status)
        return status;
    struct match m = {.model = model_of(model), .options = model->options};
    m.found = calloc((size_t)p->count + 1, sizeof *m.found);
    status = m.found ? load_from(&m, f, p, path, values, strict, err)
                     : error_memory(err, (size_t)p->count * sizeof *m.found);
    if (!status && note)
        status = write_note(note, &m, path, strict, err);
    free(m.found);
    st_close(f);
    return status;
}

enum status checkpoint_load_values(const struct params *p, const struct choice *model,
                                   const char *path, real *values, char **note, struct error *err)
{
    return load(p, model, path, values, true, note, err);
}

enum status checkpoint_load(struct params *p, const struct choice *model, const char *path,
                            char **note, struct error *err)
{
    return load(p, model, path, p->values, true, note, err);
}

enum status checkpoint_init(struct params *p, const struct choice *model, const char *path,
                            char **note, struct error *err)
{
    return load(p, model, path, p->values, false, note, err);
}
