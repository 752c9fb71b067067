/* config_hint.c - the second half of a message about an unknown key or name: what was meant. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "config/document.h"
#include "config/json_scan.h"

enum { LONGEST_KEY = 48, MAX_LEVELS = 8 };

const char *config_show(char shown[CONFIG_SHOWN_SIZE], const char *text)
{
    size_t length = strlen(text), at = 0;
    while (at < length) {
        int n = utf8_length(text + at, length - at);
        if (length > 60 && at + 4 > 60) {
            strcpy(shown + at, "...");
            return shown;
        }
        if (n <= 1)
            shown[at] = n == 0 || iscntrl((unsigned char)text[at]) ? '?' : text[at];
        else
            memcpy(shown + at, text + at, (size_t)n);
        at += n ? (size_t)n : 1;
    }
    shown[at] = 0;
    return shown;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, changes and swaps of neighbours that turn a into b. */
static int edit_distance(const char *a, const char *b)
{
    int row[3][LONGEST_KEY + 1];
    int n = (int)strnlen(a, LONGEST_KEY + 1), m = (int)strnlen(b, LONGEST_KEY + 1);
    if (n > LONGEST_KEY || m > LONGEST_KEY)
        return 2 * LONGEST_KEY;
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *above = row[(i + 2) % 3], *two_above = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int change = above[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = min_int(change, 1 + min_int(above[j], now[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = min_int(now[j], 1 + two_above[j - 2]);
        }
    }
    return row[n % 3][m];
}

/* Whether a distance is small enough to guess a slip of the pen. */
static bool is_slip(const char *key, int distance)
{
    int length = (int)strnlen(key, LONGEST_KEY);
    return distance <= (length < 4 ? 1 : length / 3);
}

static const struct field *nearest_field(const struct field *fields, const char *key, int *distance)
{
    const struct field *best = NULL;
    *distance = 2 * LONGEST_KEY + 1;
    for (const struct field *f = fields; f && f->type != FIELD_TYPE_END; f++) {
        int d = edit_distance(key, f->name);
        if (d < *distance) {
            *distance = d;
            best = f;
        }
    }
    return best;
}

/* Whether the words of the key stand in the help text ("learning_rat" in "peak learning rate"). */
static bool in_help(const char *key, const char *help)
{
    size_t n = strlen(key);
    for (; help && n >= 4 && *help; help++) {
        size_t i = 0;
        while (i < n && help[i] &&
               (key[i] == '_' ? ' ' : tolower((unsigned char)key[i])) ==
                   tolower((unsigned char)help[i]))
            i++;
        if (i == n)
            return true;
    }
    return false;
}

enum match { MATCH_SAME, MATCH_SLIP, MATCH_HELP };

/* A walk over all tables for a field that the key may have meant. */
struct search {
    const char *key, *here; /* and the path of the object in which it stands */
    enum match match;
    bool all_kinds; /* else only those that the document names */
    int level;
    char path[CONFIG_PATH_SIZE]; /* of the object that has the field found */
    const char *kind;            /* the kind it belongs to, NULL outside choices */
    const struct field *found;
    bool nameless; /* it belongs where the key stands, to a kind that is not named there */
};

static bool matches(const struct search *s, const struct field *f)
{
    switch (s->match) {
    case MATCH_SAME:
        return strcmp(s->key, f->name) == 0;
    case MATCH_SLIP:
        return is_slip(s->key, edit_distance(s->key, f->name));
    case MATCH_HELP:
        return !f->fields && !f->kinds && in_help(s->key, f->help);
    }
    return false;
}

static void search_fields(struct search *s, const struct field *fields, const struct json_value *v);

/* Of an object that names no kind, and has the key, any kind may be meant. */
static void search_kinds(struct search *s, const struct field *f, const struct json_value *v)
{
    const char *chosen = f->text;
    bool open = s->match == MATCH_SAME && v && json_type(v) == JSON_OBJECT &&
                !json_member(v, "name") && strcmp(s->path, s->here) == 0;
    if (v && json_type(v) == JSON_STRING)
        chosen = json_to_string(v);
    else if (v && json_member(v, "name"))
        chosen = json_to_string(json_member(v, "name"));
    for (int i = 0; !s->found && f->kinds(i); i++) {
        const struct kind *kind = f->kinds(i);
        if (s->all_kinds || open ? kind->preset != NULL
                                 : !chosen || strcmp(kind->name, chosen) != 0)
            continue;
        kind = config_plain_kind(f->kinds, kind, NULL);
        if (!kind)
            continue;
        search_fields(s, kind->fields, v);
        if (s->found && !s->kind) /* the innermost one */
            s->kind = kind->name;
        s->nameless = s->nameless || (s->found && open && strcmp(s->path, s->here) == 0);
    }
}

/* Each choice of a list, that in which the key stands before all others. */
static void search_items(struct search *s, const struct field *f, const struct json_value *list)
{
    size_t length = strlen(s->path);
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        int i = 0;
        for (const struct json_value *v = json_first(list); v && !s->found; v = json_next(v)) {
            snprintf(s->path + length, sizeof s->path - length, ".%d", i++);
            if ((strcmp(s->path, s->here) != 0) == elsewhere)
                search_kinds(s, f, v);
        }
    }
}

static void search_fields(struct search *s, const struct field *fields, const struct json_value *v)
{
    if (s->level == MAX_LEVELS)
        return;
    s->level++;
    for (const struct field *f = fields; f && f->type != FIELD_TYPE_END && !s->found; f++)
        if (matches(s, f))
            s->found = f;
    for (const struct field *f = fields; f && f->type != FIELD_TYPE_END && !s->found; f++) {
        size_t length = strlen(s->path);
        snprintf(s->path + length, sizeof s->path - length, "%s%s", length ? "." : "", f->name);
        const struct json_value *below = v ? json_member(v, f->name) : NULL;
        if (f->fields)
            search_fields(s, f->fields, below);
        else if (f->kinds && below && json_type(below) == JSON_ARRAY)
            search_items(s, f, below);
        else if (f->kinds)
            search_kinds(s, f, below);
        if (!s->found)
            s->path[length] = 0;
    }
    s->level--;
}

static bool search(struct search *s, const char *key, const char *here, enum match match,
                   bool all_kinds, const struct field *root, const struct json_value *document)
{
    *s = (struct search){.key = key, .here = here, .match = match, .all_kinds = all_kinds};
    search_fields(s, root, document);
    return s->found != NULL;
}

/* " (HINT)" for a field found in another place than where the key stands. */
static void append_place(struct error *err, const struct search *s)
{
    const char *place = *s->path ? s->path : "the top level of the file";
    if (s->match != MATCH_SAME)
        error_append(err, " (did you mean \"%s\"", s->found->name);
    else
        error_append(err, " (it belongs");
    if (strcmp(s->path, s->here) != 0)
        error_append(err, *s->path ? " in %s" : " at %s", place);
    if (s->kind && (s->all_kinds || s->nameless))
        error_append(err, " to \"%s\"", s->kind);
    if (s->nameless)
        error_append(err, ", and no \"name\" is given");
    error_append(err, s->match != MATCH_SAME ? "?)" : ")");
}

void config_hint_key(struct error *err, const char *key, const char *json_path,
                     const struct field *fields, const struct field *root,
                     const struct json_value *document)
{
    int distance;
    struct search s;
    const struct field *nearest = nearest_field(fields, key, &distance);
    if (search(&s, key, json_path, MATCH_SAME, false, root, document) ||
        search(&s, key, json_path, MATCH_SAME, true, root, document)) {
        append_place(err, &s);
    } else if (nearest && is_slip(key, distance)) {
        error_append(err, " (did you mean \"%s\"?)", nearest->name);
    } else if (search(&s, key, json_path, MATCH_SLIP, false, root, document) ||
               search(&s, key, json_path, MATCH_HELP, false, root, document)) {
        append_place(err, &s);
    } else if (nearest) {
        error_append(err, " (nearest known key: \"%s\"; all:", nearest->name);
        for (const struct field *f = fields; f->type != FIELD_TYPE_END; f++)
            error_append(err, "%s %s", f == fields ? "" : ",", f->name);
        error_append(err, ")");
    }
}

/* The names one by one, so that names and kinds share the text. */
static void append_names(struct error *err, const char *name,
                         const char *(*name_at)(const void *, int), const void *list)
{
    const char *best = NULL;
    int distance = LONGEST_KEY;
    for (int i = 0; name_at(list, i); i++) {
        int d = edit_distance(name, name_at(list, i));
        if (d < distance) {
            distance = d;
            best = name_at(list, i);
        }
    }
    error_append(err, " (");
    if (best && is_slip(name, distance))
        error_append(err, "nearest: \"%s\"; ", best);
    error_append(err, "one of");
    for (int i = 0; name_at(list, i); i++)
        error_append(err, "%s \"%s\"", i ? "," : "", name_at(list, i));
    error_append(err, ")");
}

static const char *name_of_names(const void *list, int i)
{
    return ((const char *const *)list)[i];
}

static const char *name_of_kinds(const void *list, int i)
{
    const struct kind *kind = (*(kind_list *const *)list)(i);
    return kind ? kind->name : NULL;
}

void config_hint_name(struct error *err, const char *name, const char *const *names)
{
    append_names(err, name, name_of_names, names);
}

void config_hint_kind(struct error *err, const char *name, kind_list *kinds)
{
    append_names(err, name, name_of_kinds, &kinds);
}
