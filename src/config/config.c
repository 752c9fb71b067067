/* config.c - files, the chain of "extends", and where each value stands. */
#include "config/config.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "config/document.h"

enum { MAX_FILE = 4 << 20, MAX_CHAIN = 32 };

/* The files that are being read, from the innermost "extends" outwards. */
struct chain {
    const char *absolute, *name;
    int length;
    const struct chain *outer;
};

/* Adds an origin, takes both strings. Returns its number, 0 without memory. */
static int add_origin(struct config *c, char *name, char *directory)
{
    struct origin *origins = NULL;
    if (name)
        origins = realloc(c->origins, ((size_t)c->origin_count + 1) * sizeof *origins);
    if (!origins) {
        free(name);
        free(directory);
        return 0;
    }
    c->origins = origins;
    origins[c->origin_count] = (struct origin){name, directory};
    return ++c->origin_count;
}

/* The text as an object that stands in origin `origin`. */
static enum status parse_object(struct json_value **out, const char *text, size_t length,
                                const char *name, int origin, struct error *err)
{
    enum status status = json_parse(out, text, length, err);
    if (status) {
        error_prefix(err, "%s: ", name);
        return status;
    }
    json_set_origin_all(*out, origin);
    if (json_type(*out) == JSON_OBJECT)
        return OK;
    json_free(*out);
    *out = NULL;
    return error_set(err, ERR_INPUT, "%s: expected an object {...} as the whole config", name);
}

static enum status load_file(struct config *c, struct json_value **out, const char *path,
                             const struct chain *outer, struct error *err);

/* Replaces *object by the config it extends with *object laid upon it. */
static enum status follow_extends(struct config *c, struct json_value **object,
                                  const struct chain *chain, const char *directory,
                                  struct error *err)
{
    struct json_value *extends = json_child(*object, "extends");
    if (!extends)
        return OK;
    const char *text = json_to_string(extends);
    if (!text || !*text)
        return error_set(err, ERR_INPUT, "%s: extends: expected the path of a config file",
                         chain->name);
    if (chain->length == MAX_CHAIN)
        return error_set(err, ERR_INPUT, "%s: extends: more than %d files in a chain", chain->name,
                         MAX_CHAIN);
    char *path = strcmp(directory, ".") == 0 ? strdup(text) : file_join(directory, text);
    if (!path)
        return error_memory(err, strlen(text));
    struct json_value *base = NULL;
    enum status status = load_file(c, &base, path, chain, err);
    free(path);
    if (status)
        return status;
    json_drop(*object, extends);
    status = config_merge(base, *object, err);
    json_free(*object);
    *object = base;
    return status;
}

static enum status load_file(struct config *c, struct json_value **out, const char *path,
                             const struct chain *outer, struct error *err)
{
    enum status status = OK;
    char *text = NULL, *absolute = file_absolute(path);
    size_t length = 0;
    int origin = add_origin(c, strdup(path), file_directory(path));
    if (!absolute || !origin || !c->origins[origin - 1].directory) {
        status = error_memory(err, strlen(path));
        goto out;
    }
    for (const struct chain *link = outer; link; link = link->outer) {
        if (strcmp(link->absolute, absolute) == 0) {
            status = error_set(err, ERR_INPUT, "%s: extends: \"%s\" leads back to itself",
                               outer->name, path);
            goto out;
        }
    }
    status = file_read(&text, &length, path, MAX_FILE, err);
    if (status) {
        if (outer)
            error_prefix(err, "%s: extends: ", outer->name);
        goto out;
    }
    status = parse_object(out, text, length, path, origin, err);
    if (status)
        goto out;
    struct chain chain = {absolute, path, outer ? outer->length + 1 : 1, outer};
    status = follow_extends(c, out, &chain, c->origins[origin - 1].directory, err);
    if (status) {
        json_free(*out);
        *out = NULL;
    }
out:
    free(text);
    free(absolute);
    return status;
}

enum status config_load(struct config **out, const char *path, const char *const *settings,
                        int count, struct error *err)
{
    *out = NULL;
    struct config *c = calloc(1, sizeof *c);
    if (!c)
        return error_memory(err, sizeof *c);
    enum status status = load_file(c, &c->document, path, NULL, err);
    if (!status)
        status = config_override(c, settings, count, err);
    if (status) {
        config_destroy(c);
        return status;
    }
    *out = c;
    return OK;
}

enum status config_override(struct config *c, const char *const *settings, int count,
                            struct error *err)
{
    if (count == 0)
        return OK;
    int origin = add_origin(c, strdup("--set"), NULL);
    return origin ? config_apply_settings(c->document, settings, count, origin, err)
                  : error_memory(err, sizeof *c->origins);
}

enum status config_parse(struct config **out, const char *text, const char *name, struct error *err)
{
    *out = NULL;
    struct config *c = calloc(1, sizeof *c);
    if (!c)
        return error_memory(err, sizeof *c);
    int origin = add_origin(c, strdup(name), NULL);
    enum status status = origin ? parse_object(&c->document, text, strlen(text), name, origin, err)
                                : error_memory(err, strlen(name));
    if (status) {
        config_destroy(c);
        return status;
    }
    *out = c;
    return OK;
}

enum status config_underlay(struct config *c, const char *text, const char *name,
                            struct error *err)
{
    struct json_value *base = NULL;
    int origin = add_origin(c, strdup(name), NULL);
    enum status status = origin ? parse_object(&base, text, strlen(text), name, origin, err)
                                : error_memory(err, strlen(name));
    if (!status)
        status = config_merge(base, c->document, err);
    if (status) {
        json_free(base);
        return status;
    }
    json_free(c->document);
    c->document = base;
    return OK;
}

void config_destroy(struct config *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->origin_count; i++) {
        free(c->origins[i].name);
        free(c->origins[i].directory);
    }
    free(c->origins);
    json_free(c->document);
    free(c);
}

const char *config_where(const struct config *c, const char *json_path)
{
    char path[CONFIG_PATH_SIZE];
    snprintf(path, sizeof path, "%s", json_path);
    for (;;) {
        const struct json_value *deepest = NULL;
        json_at(c->document, path, &deepest);
        int origin = json_origin(deepest);
        char *last = strrchr(path, '.');
        if (origin > 0)
            return c->origins[origin - 1].name;
        if (!last)
            return c->origins[0].name;
        *last = 0; /* a default: the object around it may stand in a file */
    }
}

const char *config_directory(const struct config *c, int origin)
{
    return c && origin > 0 ? c->origins[origin - 1].directory : NULL;
}

enum status config_error(const struct config *c, struct error *err, const char *json_path,
                         const char *format, ...)
{
    char what[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error_set(err, ERR_INPUT, "%s: %s: %s", config_where(c, json_path), json_path, what);
}

char *config_text(const struct config *c)
{
    return json_print(c->document, true);
}

/* False without memory. */
static bool drop_paths(struct json_value *parent)
{
    bool fine = true;
    for (int i = 0; i < json_count(parent) && fine; i++) {
        struct json_value *v = json_item(parent, i);
        fine = json_flag(v, JSON_PATH) ? json_replace(parent, v, json_new(JSON_NULL))
                                       : drop_paths(v);
    }
    return fine;
}

char *config_text_changed(const struct config *c, const char *key, const char *text,
                          bool with_paths)
{
    struct json_value *copy = json_copy(c->document);
    struct json_value *old = copy ? json_child(copy, key) : NULL;
    bool fine = old && json_replace(copy, old, json_new_string(text));
    char *result = fine && (with_paths || drop_paths(copy)) ? json_print(copy, true) : NULL;
    json_free(copy);
    return result;
}

char *config_value(const struct config *c, const char *path)
{
    const struct json_value *v = json_at(c->document, path, NULL);
    return v ? json_print(v, false) : NULL;
}

/* The text of a difference, growing. */
struct lines {
    char *text;
    size_t length;
};

/* Adds "path: OLD -> NEW"; false without memory. */
static bool add_line(struct lines *l, const char *path, const struct json_value *a,
                     const struct json_value *b)
{
    char *before = a ? json_print(a, false) : strdup("absent");
    char *after = b ? json_print(b, false) : strdup("absent");
    bool fine = before && after;
    if (fine && (!a || !b || strcmp(before, after) != 0)) {
        size_t size = strlen(path) + strlen(before) + strlen(after) + 16;
        char *grown = realloc(l->text, l->length + size);
        fine = grown != NULL;
        if (grown) {
            l->text = grown;
            l->length += (size_t)snprintf(grown + l->length, size, "%s%s: %s -> %s",
                                          l->length ? "; " : "", path, before, after);
        }
    }
    free(before);
    free(after);
    return fine;
}

static bool ignored(const char *path, const char *const *ignore)
{
    for (; ignore && *ignore; ignore++) {
        size_t n = strlen(*ignore);
        if (strncmp(path, *ignore, n) == 0 && (path[n] == 0 || path[n] == '.'))
            return true;
    }
    return false;
}

static bool compare(struct lines *l, const char *path, const struct json_value *a,
                    const struct json_value *b, const char *const *ignore);

/* Compares the members of `a` with those of `b`, or finds those of `a` alone where `only_new`. */
static bool compare_members(struct lines *l, const char *path, const struct json_value *a,
                            const struct json_value *b, bool only_new, const char *const *ignore)
{
    for (const struct json_value *v = json_first(a); v; v = json_next(v)) {
        char below[CONFIG_PATH_SIZE];
        snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", json_key(v));
        const struct json_value *other = json_member(b, json_key(v));
        if (only_new ? !other && !compare(l, below, NULL, v, ignore)
                     : !compare(l, below, v, other, ignore))
            return false;
    }
    return true;
}

static bool compare(struct lines *l, const char *path, const struct json_value *a,
                    const struct json_value *b, const char *const *ignore)
{
    if (ignored(path, ignore))
        return true;
    if (a && b && json_type(a) == JSON_OBJECT && json_type(b) == JSON_OBJECT)
        return compare_members(l, path, a, b, false, ignore) &&
               compare_members(l, path, b, a, true, ignore);
    return add_line(l, path, a, b);
}

char *config_difference(const struct config *a, const struct config *b, const char *const *ignore)
{
    struct lines l = {calloc(1, 1), 0};
    if (l.text && compare(&l, "", a->document, b->document, ignore))
        return l.text;
    free(l.text);
    return NULL;
}
