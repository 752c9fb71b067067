/* config_read.c - objects by their field tables, and the effective document that comes of it. */
#include <stdlib.h>
#include <string.h>

#include "config/reader.h"

static enum status read_object(struct reader *r, const struct field *fields, bool named,
                               const struct json_value *v, void *out, struct json_value *into);

static bool has_field(const struct field *fields, const char *name)
{
    for (const struct field *f = fields; f && f->type != FIELD_TYPE_END; f++)
        if (strcmp(f->name, name) == 0)
            return true;
    return false;
}

/* Refuses keys that no field has. `named`: the key "name" belongs to the object itself. */
static enum status check_keys(struct reader *r, const struct field *fields, bool named,
                              const struct json_value *v)
{
    for (const struct json_value *m = json_first(v); m; m = json_next(m)) {
        if (has_field(fields, json_key(m)) || (named && strcmp(json_key(m), "name") == 0))
            continue;
        size_t length = reader_push(r, json_key(m));
        reader_fail(r, "unknown key");
        reader_pop(r, length);
        config_hint_key(r->err, json_key(m), r->path, fields, r->root,
                        r->config ? r->config->document : NULL);
        return ERR_INPUT;
    }
    return OK;
}

static enum status read_struct(struct reader *r, const struct field *f, const struct json_value *v,
                               void *out, struct json_value **effective)
{
    if (json_type(v) != JSON_OBJECT)
        return reader_fail_type(r, f->type == FIELD_TYPE_MAYBE ? "an object or null" : "an object",
                                v);
    *effective = json_new(JSON_OBJECT);
    if (!*effective)
        return reader_no_memory(r);
    return read_object(r, f->fields, false, v, out, *effective);
}

static enum status read_maybe(struct reader *r, const struct field *f, const struct json_value *v,
                              void *out, struct json_value **effective)
{
    void **to = out;
    *to = NULL;
    if (json_type(v) == JSON_NULL) {
        *effective = json_new(JSON_NULL);
        return OK;
    }
    void *options = arena_alloc(r->memory, f->size);
    if (!options)
        return error_memory(r->err, f->size);
    enum status status = read_struct(r, f, v, options, effective);
    if (!status)
        *to = options;
    return status;
}

/* The first kind of the list with a short form: with a field of its own name; or NULL. */
static const struct kind *short_form(kind_list *kinds)
{
    for (int i = 0; kinds(i); i++)
        if (has_field(kinds(i)->fields, kinds(i)->name))
            return kinds(i);
    return NULL;
}

/* Where an object names no kind: what it lacks is the short form, or else the name. */
static enum status nameless(struct reader *r, const struct field *f)
{
    const struct kind *brief = short_form(f->kinds);
    if (brief)
        return reader_fail(r, "an object without \"%s\", expected {\"%s\": VALUE} or a name",
                           brief->name, brief->name);
    reader_push(r, "name");
    return reader_fail(r, "is missing");
}

/* The kind that an object in short form means, as {"holdout": 5000} means "holdout", or NULL. */
static const char *short_form_name(kind_list *kinds, const struct json_value *v)
{
    for (int i = 0; kinds(i); i++)
        if (has_field(kinds(i)->fields, kinds(i)->name) && json_member(v, kinds(i)->name))
            return kinds(i)->name;
    return NULL;
}

/* The kind that the choice v names: *name as it is written. */
static enum status choose(struct reader *r, const struct field *f, const struct json_value *v,
                          const struct kind **kind, const char **name)
{
    const struct json_value *member = json_type(v) == JSON_OBJECT ? json_member(v, "name") : v;
    enum status status;
    *name = member ? json_to_string(member) : short_form_name(f->kinds, v);
    if (!member && !*name)
        *name = f->text;
    if (json_type(v) == JSON_OBJECT && (member || *name))
        reader_push(r, "name");
    if (!*name) {
        status = member ? reader_fail_type(r, "a name", member) : nameless(r, f);
        config_hint_kind(r->err, "", f->kinds);
        return status;
    }
    *kind = config_find_kind(f->kinds, *name);
    if (*kind)
        return OK;
    char shown[CONFIG_SHOWN_SIZE];
    status = reader_fail(r, "unknown name \"%s\"", config_show(shown, *name));
    config_hint_kind(r->err, *name, f->kinds);
    return status;
}

/* The options of the choice v, laid upon those of the preset where its name is one. Left out are
 * those that were given while the name was the default, if another one was chosen since. */
static enum status gather_options(struct reader *r, const struct field *f,
                                  const struct json_value *v, const char *name,
                                  const struct kind **kind, struct json_value **options)
{
    const struct kind *plain = config_plain_kind(f->kinds, *kind, options);
    if (!*options)
        return reader_no_memory(r);
    if (!plain)
        return reader_fail(r, "the preset \"%s\" stands for no kind", name);
    *kind = plain;
    if (json_type(v) != JSON_OBJECT)
        return OK;
    struct json_value *own = json_copy(v);
    if (!own)
        return reader_no_memory(r);
    bool renamed = !f->text || strcmp(f->text, name) != 0;
    for (const struct json_value *m = json_first(v); m && renamed; m = json_next(m))
        if (json_flag(m, JSON_NAMELESS))
            json_drop(own, json_child(own, json_key(m)));
    enum status status = config_merge(*options, own, r->err);
    json_free(own);
    return status;
}

/* What config_text shows of a choice before its options: an object with the name, or the short
 * form. */
static struct json_value *choice_value(kind_list *kinds, const struct kind *kind, const char *name)
{
    bool brief = short_form(kinds) != NULL;
    if (brief && !kind->fields)
        return json_new_string(name);
    struct json_value *object = json_new(JSON_OBJECT);
    if (!object || (brief && has_field(kind->fields, name)))
        return object;
    if (json_add(object, "name", json_new_string(name)))
        return object;
    json_free(object);
    return NULL;
}

static enum status read_choice(struct reader *r, const struct field *f, const struct json_value *v,
                               void *out, struct json_value **effective)
{
    struct choice *to = out;
    *to = (struct choice){0};
    if (json_type(v) == JSON_NULL && !f->text) {
        *effective = json_new(JSON_NULL);
        return OK;
    }
    if (json_type(v) != JSON_STRING && json_type(v) != JSON_OBJECT) {
        enum status wrong = reader_fail_type(r, "a name or an object with a name", v);
        config_hint_kind(r->err, "", f->kinds);
        return wrong;
    }
    size_t length = strlen(r->path);
    const struct kind *kind = NULL;
    const char *name = NULL;
    enum status status = choose(r, f, v, &kind, &name);
    if (status)
        return status;
    reader_pop(r, length);

    struct json_value *options = NULL;
    status = gather_options(r, f, v, name, &kind, &options);
    if (status)
        goto out;
    to->kind = kind;
    to->name = arena_strdup(r->memory, name);
    to->options = kind->size ? arena_alloc(r->memory, kind->size) : NULL;
    *effective = choice_value(f->kinds, kind, name);
    if (!to->name || (kind->size && !to->options) || !*effective) {
        status = reader_no_memory(r);
        goto out;
    }
    status = read_object(r, kind->fields, true, options, to->options, *effective);
out:
    json_free(options);
    return status;
}

static enum status read_choice_list(struct reader *r, const struct field *f,
                                    const struct json_value *list, struct choices *to,
                                    struct json_value *effective)
{
    const struct json_value *item = json_first(list);
    for (int i = 0; i < to->count; i++, item = json_next(item)) {
        size_t length = reader_push_index(r, i);
        struct json_value *one = NULL;
        enum status status = read_choice(r, f, item, &to->at[i], &one);
        if (status) {
            json_free(one);
            return status;
        }
        if (one)
            json_set_origin(one, json_origin(item));
        if (!json_append(effective, one))
            return reader_no_memory(r);
        reader_pop(r, length);
    }
    return OK;
}

/* One choice counts as a list of one; the effective config shows it as it was written. */
static enum status read_choices(struct reader *r, const struct field *f, const struct json_value *v,
                                void *out, struct json_value **effective)
{
    struct choices *to = out;
    bool list = json_type(v) == JSON_ARRAY;
    *to = (struct choices){.count = list ? json_count(v) : 1};
    if (to->count == 0)
        return reader_fail(r, "is an empty list");
    for (const struct json_value *m = list ? NULL : json_first(v); m; m = json_next(m))
        if (*json_key(m) >= '0' && *json_key(m) <= '9') /* of --set attention.1.k=3 */
            return reader_fail(r, "is no list that has an item %s (give the whole list)",
                               json_key(m));
    size_t size = (size_t)to->count * sizeof *to->at;
    to->at = arena_alloc(r->memory, size);
    if (!to->at)
        return error_memory(r->err, size);
    if (!list)
        return read_choice(r, f, v, to->at, effective);
    *effective = json_new(JSON_ARRAY);
    return *effective ? read_choice_list(r, f, v, to, *effective) : reader_no_memory(r);
}

static value_reader *const readers[] = {
    [FIELD_TYPE_INT] = config_read_int,
    [FIELD_TYPE_SEED] = config_read_seed,
    [FIELD_TYPE_REAL] = config_read_real,
    [FIELD_TYPE_BOOL] = config_read_bool,
    [FIELD_TYPE_STRING] = config_read_string,
    [FIELD_TYPE_PATH] = config_read_path,
    [FIELD_TYPE_ENUM] = config_read_enum,
    [FIELD_TYPE_PAIR] = config_read_pair,
    [FIELD_TYPE_REALS] = config_read_reals,
    [FIELD_TYPE_INTS] = config_read_ints,
    [FIELD_TYPE_STRINGS] = config_read_strings,
    [FIELD_TYPE_OBJECT] = read_struct,
    [FIELD_TYPE_MAYBE] = read_maybe,
    [FIELD_TYPE_CHOICE] = read_choice,
    [FIELD_TYPE_CHOICES] = read_choices,
    [FIELD_TYPE_RANGE] = config_read_range,
};

/* Reads the member of v that belongs to the field, or its default, and adds it to `into`. */
static enum status read_field(struct reader *r, const struct field *f, const struct json_value *v,
                              void *out, struct json_value *into)
{
    const struct json_value *given = json_member(v, f->name);
    struct json_value *standard = given ? NULL : config_default_value(f), *effective = NULL;
    if (!given && !standard)
        return reader_no_memory(r);
    enum status status = readers[f->type](r, f, given ? given : standard, out, &effective);
    if (status) {
        json_free(effective);
    } else {
        if (effective)
            json_set_origin(effective, given ? json_origin(given) : 0);
        if (!json_add(into, f->name, effective))
            status = reader_no_memory(r);
    }
    json_free(standard);
    return status;
}

static enum status read_object(struct reader *r, const struct field *fields, bool named,
                               const struct json_value *v, void *out, struct json_value *into)
{
    enum status status = check_keys(r, fields, named, v);
    for (const struct field *f = fields; !status && f && f->type != FIELD_TYPE_END; f++) {
        size_t length = reader_push(r, f->name);
        status = read_field(r, f, v, (char *)out + f->offset, into);
        if (!status)
            reader_pop(r, length);
    }
    return status;
}

enum status config_read(struct config *c, const struct field *fields, void *out,
                        struct arena *memory, struct error *err)
{
    struct reader r = {.config = c, .root = fields, .memory = memory, .err = err};
    struct json_value *effective = json_new(JSON_OBJECT);
    if (!effective)
        return reader_no_memory(&r);
    enum status status = read_object(&r, fields, false, c->document, out, effective);
    if (status) {
        json_free(effective);
        return status;
    }
    json_set_origin(effective, json_origin(c->document));
    json_free(c->document);
    c->document = effective;
    return OK;
}

enum status config_defaults(const struct field *fields, void *out, struct arena *memory,
                            struct error *err)
{
    struct reader r = {.root = fields, .memory = memory, .err = err};
    struct json_value *none = json_new(JSON_OBJECT), *effective = json_new(JSON_OBJECT);
    enum status status = none && effective ? read_object(&r, fields, false, none, out, effective)
                                           : reader_no_memory(&r);
    json_free(none);
    json_free(effective);
    return status;
}
