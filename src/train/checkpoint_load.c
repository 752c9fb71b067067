/* checkpoint_load.c - tensors of a file matched with parameters by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"
#include "train/checkpoint.h"

enum { NAMES_SHOWN = 3 };

/* Names that did not fit: how many, and the first ones as text. */
struct names {
    int count;
    char text[512];
};

/* A file beside a network, name by name. */
struct match {
    const char *prefix; /* that all names of the file carry: "", "module.", "model." */
    int matched;
    struct names missing, unexpected, shapes;
    int foreign; /* missing or unexpected, and neither attention nor head */
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

static bool may_differ(const char *name)
{
    return strstr(name, ".attn.") || strncmp(name, "head.", 5) == 0;
}

static const struct st_tensor *find(const struct st_file *f, const char *prefix, const char *name)
{
    char whole[512];
    int length = snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return length > 0 && (size_t)length < sizeof whole ? st_find(f, whole) : NULL;
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

static void compare(struct match *m, const struct st_file *f, const struct params *p)
{
    static const char *const prefixes[] = {"module.", "model."};
    *m = (struct match){.prefix = ""};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (all_names_start_with(f, prefixes[i]))
            m->prefix = prefixes[i];
    for (int i = 0; i < p->count; i++) {
        const struct st_tensor *t = find(f, m->prefix, p->list[i]->name);
        if (!t) {
            names_add(&m->missing, p->list[i]->name, "");
            m->foreign += !may_differ(p->list[i]->name);
        } else if (!same_shape(t, p->list[i])) {
            char text[256];
            shapes_text(text, t, p->list[i]);
            names_add(&m->shapes, p->list[i]->name, text);
        } else {
            m->matched++;
        }
    }
    for (int i = 0; i < st_count(f); i++) {
        const char *name = st_at(f, i)->name + strlen(m->prefix);
        if (!params_find(p, name)) {
            names_add(&m->unexpected, name, "");
            m->foreign += !may_differ(name);
        }
    }
}

static enum status refuse(const struct match *m, const char *path, const char *hint,
                          struct error *err)
{
    enum status status =
        error_set(err, ERR_INPUT, "%s: does not fit the model: %d tensors match", path, m->matched);
    if (m->shapes.count)
        error_append(err, ", %d of another shape: %s", m->shapes.count, m->shapes.text);
    if (m->missing.count)
        error_append(err, ", %d missing: %s", m->missing.count, m->missing.text);
    if (m->unexpected.count)
        error_append(err, ", %d unexpected: %s", m->unexpected.count, m->unexpected.text);
    error_append(err, " (%s)", hint);
    return status;
}

static enum status to_reals(real *out, const struct st_tensor *t, struct error *err)
{
#ifdef ATTNBENCH_DOUBLE
    return st_to_double(out, t, err);
#else
    return st_to_float(out, t, err);
#endif
}

static enum status copy_values(real *values, const struct match *m, const struct st_file *f,
                               const struct params *p, struct error *err)
{
    for (int i = 0; i < p->count; i++) {
        const struct st_tensor *t = find(f, m->prefix, p->list[i]->name);
        enum status status = t ? to_reals(values + p->list[i]->at, t, err) : OK;
        if (status)
            return status;
    }
    return OK;
}

static enum status write_note(char **note, const struct match *m, const char *path, bool strict,
                              struct error *err)
{
    *note = NULL;
    bool complete = !m->missing.count && !m->unexpected.count;
    if (strict && !*m->prefix)
        return OK;
    char text[2048];
    int at = snprintf(text, sizeof text, "%s: %d tensors match", path, m->matched);
    size_t room = sizeof text;
    if (*m->prefix && (size_t)at < room)
        at +=
            snprintf(text + at, room - (size_t)at, ", \"%s\" stripped from their names", m->prefix);
    if (!complete && (size_t)at < room)
        snprintf(text + at, room - (size_t)at, ", %d missing%s%s, %d unexpected%s%s",
                 m->missing.count, m->missing.count ? ": " : "", m->missing.text,
                 m->unexpected.count, m->unexpected.count ? ": " : "", m->unexpected.text);
    *note = strdup(text);
    return *note ? OK : error_memory(err, sizeof text);
}

static enum status load(const struct network *n, const char *path, real *values, bool strict,
                        char **note, struct error *err)
{
    struct st_file *f = NULL;
    enum status status = st_open(&f, path, err);
    if (status)
        return status;
    struct match m;
    compare(&m, f, &n->params);
    if (m.shapes.count || m.foreign || (strict && (m.missing.count || m.unexpected.count)))
        status = refuse(&m, path,
                        strict ? "the checkpoint must come from this very model"
                               : "only tensors of attention and head may differ",
                        err);
    else if (!m.matched)
        status = refuse(&m, path, "nothing of it can be used", err);
    if (!status)
        status = copy_values(values, &m, f, &n->params, err);
    if (!status && note)
        status = write_note(note, &m, path, strict, err);
    st_close(f);
    return status;
}

enum status checkpoint_load_values(const struct network *n, const char *path, real *values,
                                   char **note, struct error *err)
{
    return load(n, path, values, true, note, err);
}

enum status checkpoint_load(struct network *n, const char *path, char **note, struct error *err)
{
    return load(n, path, n->params.values, true, note, err);
}

enum status checkpoint_init(struct network *n, const char *path, char **note, struct error *err)
{
    return load(n, path, n->params.values, false, note, err);
}
