/* init_report.c - lists of names, grouped over the blocks of a model. */
#include "train/init_report.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const titles[INIT_LISTS] = {"loaded", "resized", "initialised", "used in part",
                                                "left unused"};
static const char *const keys[INIT_LISTS] = {"loaded", "resized", "initialised", "partly_used", "unused"};

void init_report_begin(struct init_report *r)
{
    *r = (struct init_report){.path = "", .from = "", .to = "", .names = ""};
    arena_init(&r->memory);
}

void init_report_free(struct init_report *r)
{
    for (int i = 0; i < INIT_LISTS; i++)
        free(r->list[i].at);
    arena_free(&r->memory);
}

enum status init_report_add(struct init_report *r, enum init_list list, const char *name,
                            const char *how, struct error *err)
{
    int capacity = r->list[list].capacity;
    if (r->list[list].count == capacity) {
        capacity = capacity ? 2 * capacity : 64;
        struct init_item *at = realloc(r->list[list].at, (size_t)capacity * sizeof *at);
        if (!at)
            return error_memory(err, (size_t)capacity * sizeof *at);
        r->list[list].at = at;
        r->list[list].capacity = capacity;
    }
    struct init_item item = {arena_strdup(&r->memory, name), arena_strdup(&r->memory, how)};
    if (!item.name || !item.how)
        return error_memory(err, strlen(name) + strlen(how));
    r->list[list].at[r->list[list].count++] = item;
    return OK;
}

const char *init_report_summary(struct init_report *r)
{
    int loaded = r->list[INIT_LOADED].count, initialised = r->list[INIT_INITIALISED].count;
    int resized = r->list[INIT_RESIZED].count;
    char fitted[32] = "";
    if (resized)
        snprintf(fitted, sizeof fitted, "%d resized, ", resized);
    return arena_printf(&r->memory,
                        "%s: %s to %s: %d of %d tensors loaded, %s%d initialised; of the "
                        "checkpoint's %d%s, %d left unused, %d used in part",
                        r->path, r->from, r->to, loaded, loaded + resized + initialised, fitted,
                        initialised, r->tensors, r->names, r->list[INIT_UNUSED].count,
                        r->list[INIT_PARTLY_USED].count);
}

/* The length of a name's part that is a number: between points, or at an end. */
static size_t number_length(const char *name, const char *at)
{
    size_t digits = 0;
    if (at > name && at[-1] != '.')
        return 0;
    while (isdigit((unsigned char)at[digits]))
        digits++;
    return at[digits] == '.' || at[digits] == 0 ? digits : 0;
}

/* The name with * for such parts. */
static char *pattern_of(struct init_report *r, const char *name)
{
    char *pattern = arena_strdup(&r->memory, name), *to = pattern;
    for (const char *at = name; pattern && *at;) {
        size_t digits = number_length(name, at);
        *to++ = digits ? '*' : *at;
        at += digits ? digits : 1;
        *to = 0;
    }
    return pattern;
}

/* Items of one pattern and one explanation. */
struct group {
    char *pattern;
    const char *how;
    int count;
};

static struct group *find_group(struct group *groups, int *count, char *pattern, const char *how)
{
    for (int i = 0; i < *count; i++)
        if (strcmp(groups[i].pattern, pattern) == 0 && strcmp(groups[i].how, how) == 0)
            return &groups[i];
    groups[*count] = (struct group){pattern, how, 0};
    return &groups[(*count)++];
}

static const char *groups_text(struct init_report *r, enum init_list list,
                               const struct group *groups, int count)
{
    size_t size = 64;
    for (int i = 0; i < count; i++)
        size += strlen(groups[i].pattern) + strlen(groups[i].how) + 32;
    char *text = arena_alloc(&r->memory, size);
    size_t at = text ? (size_t)snprintf(text, size, "%s:", titles[list]) : 0;
    for (int i = 0; text && i < count; i++) {
        const struct group *g = &groups[i];
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? "; " : " ", g->pattern);
        if (g->count > 1)
            at += (size_t)snprintf(text + at, size - at, " (%d)", g->count);
        if (*g->how)
            at += (size_t)snprintf(text + at, size - at, ": %s", g->how);
    }
    return text;
}

const char *init_report_line(struct init_report *r, enum init_list list)
{
    int count = 0, items = r->list[list].count;
    struct group *groups = items ? arena_alloc(&r->memory, (size_t)items * sizeof *groups) : NULL;
    if (!groups)
        return NULL;
    for (int i = 0; i < items; i++) {
        char *pattern = pattern_of(r, r->list[list].at[i].name);
        if (!pattern)
            return NULL;
        find_group(groups, &count, pattern, r->list[list].at[i].how)->count++;
    }
    return groups_text(r, list, groups, count);
}

void init_report_json(const struct init_report *r, struct json *j)
{
    json_string(j, "checkpoint", r->path);
    json_string(j, "from", r->from);
    json_string(j, "to", r->to);
    for (int list = 0; list < INIT_LISTS; list++) {
        json_array(j, keys[list]);
        for (int i = 0; i < r->list[list].count; i++) {
            const struct init_item *item = &r->list[list].at[i];
            json_object(j, NULL);
            json_string(j, "name", item->name);
            if (*item->how)
                json_string(j, "how", item->how);
            json_end(j);
        }
        json_end(j);
    }
}
