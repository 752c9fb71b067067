/* checkpoint_load.c - all weights of a model from a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/checkpoint.h"
#include "train/match.h"

/* What is said of our own whole checkpoints goes without saying. */
static enum status write_note(char **note, const struct match *m, struct error *err)
{
    char text[MATCH_TEXT];
    *note = NULL;
    if (m->is_ours && !*m->prefix && !m->layout)
        return OK;
    match_text(text, m);
    size_t size = strlen(m->path) + strlen(text) + 3;
    if (!(*note = malloc(size)))
        return error_memory(err, size);
    snprintf(*note, size, "%s: %s", m->path, text);
    return OK;
}

static enum status load_from(struct match *m, real *values, struct error *err)
{
    match_compare(m);
    if (m->shapes.count || m->missing.count || m->unexpected.count)
        return match_refuse(m, "the checkpoint must come from this very model", err);
    if (!m->matched)
        return match_refuse(m, "nothing of it can be used", err);
    if (match_conflicts(m))
        return match_refuse(m, "", err);
    return match_copy(values, m, err);
}

enum status checkpoint_load_values(const struct params *p, const struct choice *model,
                                   const char *path, real *values, char **note, struct error *err)
{
    struct st_file *f = NULL;
    struct match m;
    enum status status = st_open(&f, path, err);
    if (status)
        return status;
    status = match_begin(&m, p, model, f, path, err);
    if (!status)
        status = load_from(&m, values, err);
    if (!status && note)
        status = write_note(note, &m, err);
    match_end(&m);
    st_close(f);
    return status;
}

enum status checkpoint_load(struct params *p, const struct choice *model, const char *path,
                            char **note, struct error *err)
{
    return checkpoint_load_values(p, model, path, p->values, note, err);
}
