/* config_default.c - what field tables say without a document: defaults, kinds, descriptions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/document.h"

static struct json_value *parse_default(const char *text)
{
    struct json_value *v = NULL;
    enum status status = json_parse(&v, text, strlen(text), NULL);
    return status == ERR_INPUT ? json_new_string(text) : v;
}

struct json_value *config_default_value(const struct field *f)
{
    switch (f->type) {
    case FIELD_TYPE_INT:
    case FIELD_TYPE_REAL:
    case FIELD_TYPE_SEED:
    case FIELD_TYPE_PAIR:
        return json_new_number(f->number);
    case FIELD_TYPE_BOOL:
        return json_new_bool(f->number != 0);
    case FIELD_TYPE_ENUM:
        return json_new_string(f->names[(int)f->number]);
    case FIELD_TYPE_STRING:
    case FIELD_TYPE_PATH:
    case FIELD_TYPE_CHOICE:
    case FIELD_TYPE_CHOICES:
        return json_new_string(f->text);
    case FIELD_TYPE_REALS:
    case FIELD_TYPE_INTS:
    case FIELD_TYPE_STRINGS:
        return f->text ? parse_default(f->text) : json_new(JSON_ARRAY);
    case FIELD_TYPE_OBJECT:
        return json_new(JSON_OBJECT);
    case FIELD_TYPE_MAYBE:
    case FIELD_TYPE_RANGE:
        return f->text ? parse_default(f->text) : json_new(JSON_NULL);
    case FIELD_TYPE_END:
        break;
    }
    return NULL;
}

const struct kind *config_find_kind(kind_list *kinds, const char *name)
{
    const struct kind *kind;
    for (int i = 0; (kind = kinds(i)); i++)
        if (strcmp(kind->name, name) == 0)
            return kind;
    return NULL;
}

const struct kind *config_plain_kind(kind_list *kinds, const struct kind *kind,
                                     struct json_value **values)
{
    struct json_value *preset = kind->preset ? parse_default(kind->preset) : json_new(JSON_OBJECT);
    if (kind->preset) {
        const struct json_value *name = preset ? json_member(preset, "name") : NULL;
        const char *plain = name ? json_to_string(name) : NULL;
        kind = plain ? config_find_kind(kinds, plain) : NULL;
        if (kind && kind->preset)
            kind = NULL;
    }
    if (values)
        *values = preset;
    else
        json_free(preset);
    return kind;
}

static enum status set_choice(struct choice *choice, const struct kind *kind,
                              struct arena *memory, struct error *err)
{
    void *options = arena_alloc(memory, kind->size ? kind->size : 1);
    if (!options)
        return error_memory(err, kind->size);
    *choice = (struct choice){kind, kind->name, options};
    return kind->fields ? config_defaults(kind->fields, options, memory, err) : OK;
}

/* In a list of its own, so that the one that a copied struct shares stays as it is. */
static enum status set_choices(struct choices *choices, const struct kind *kind,
                               struct arena *memory, struct error *err)
{
    size_t size = (size_t)choices->count * sizeof *choices->at;
    enum status status = OK;
    choices->at = arena_alloc(memory, size);
    if (!choices->at)
        return error_memory(err, size);
    for (int i = 0; i < choices->count && !status; i++)
        status = set_choice(&choices->at[i], kind, memory, err);
    return status;
}

enum status config_set_choice(const struct field *fields, void *options, kind_list *kinds,
                              const struct kind *kind, struct arena *memory, int *count,
                              struct error *err)
{
    enum status status = OK;
    for (const struct field *f = fields; f && f->type != FIELD_TYPE_END && !status; f++) {
        void *at = (char *)options + f->offset;
        if (f->type == FIELD_TYPE_OBJECT)
            status = config_set_choice(f->fields, at, kinds, kind, memory, count, err);
        if (!f->kinds || f->kinds != kinds)
            continue;
        status = f->type == FIELD_TYPE_CHOICES ? set_choices(at, kind, memory, err)
                                               : set_choice(at, kind, memory, err);
        ++*count;
    }
    return status;
}

static const char *const type_names[] = {
    [FIELD_TYPE_INT] = "int",
    [FIELD_TYPE_SEED] = "int",
    [FIELD_TYPE_REAL] = "real",
    [FIELD_TYPE_BOOL] = "bool",
    [FIELD_TYPE_STRING] = "string",
    [FIELD_TYPE_PATH] = "path",
    [FIELD_TYPE_ENUM] = "name",
    [FIELD_TYPE_PAIR] = "pair",
    [FIELD_TYPE_REALS] = "reals",
    [FIELD_TYPE_INTS] = "ints",
    [FIELD_TYPE_STRINGS] = "strings",
    [FIELD_TYPE_OBJECT] = "object",
    [FIELD_TYPE_MAYBE] = "object",
    [FIELD_TYPE_CHOICE] = "choice",
    [FIELD_TYPE_CHOICES] = "choice or list",
    [FIELD_TYPE_RANGE] = "number or name",
};

static bool has_range(enum field_type type)
{
    return type == FIELD_TYPE_INT || type == FIELD_TYPE_SEED || type == FIELD_TYPE_REAL ||
           type == FIELD_TYPE_PAIR || type == FIELD_TYPE_REALS || type == FIELD_TYPE_INTS ||
           type == FIELD_TYPE_RANGE;
}

static bool describe(struct json *j, const char *key, const struct field *fields);

static bool describe_field(struct json *j, const struct field *f)
{
    struct json_value *v = config_default_value(f);
    char *standard = v ? json_print(v, false) : NULL;
    json_free(v);
    if (!standard)
        return false;
    bool range = has_range(f->type), fine = true;
    json_object(j, NULL);
    json_string(j, "name", f->name);
    json_string(j, "type", type_names[f->type]);
    json_raw(j, "default", standard);
    json_number(j, "min", range ? f->min : (double)INFINITY);
    json_number(j, "max", range ? f->max : (double)INFINITY);
    json_string(j, "help", f->help);
    if (f->names || f->kinds) {
        json_array(j, "values");
        for (int i = 0; f->names && f->names[i]; i++)
            json_string(j, NULL, f->names[i]);
        for (int i = 0; f->kinds && f->kinds(i); i++)
            json_string(j, NULL, f->kinds(i)->name);
        json_end(j);
    }
    if (f->fields)
        fine = describe(j, "options", f->fields);
    json_end(j);
    free(standard);
    return fine;
}

static bool describe(struct json *j, const char *key, const struct field *fields)
{
    bool fine = true;
    json_array(j, key);
    for (const struct field *f = fields; f && f->type != FIELD_TYPE_END && fine; f++)
        fine = describe_field(j, f);
    json_end(j);
    return fine;
}

char *config_describe(const struct field *fields)
{
    struct json *j = json_create();
    char *text = NULL;
    if (j && describe(j, NULL, fields) && json_text(j))
        text = strdup(json_text(j));
    json_destroy(j);
    return text;
}
