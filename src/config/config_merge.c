/* config_merge.c - one document laid upon another: "extends", presets, --set.
 *
 * Merging knows no field tables. What it must know of a key stands in merge_rules. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/document.h"
#include "config/json_scan.h"

/* Keys whose value is an object with a name, or that name alone, or a list of these. */
static const struct merge_rule {
    const char *key;
    bool restarts; /* other options start afresh where the name changes */
} merge_rules[] = {
    {"attention", true},
    {"optimizer", true},
    {"schedule", true},
    {"model", false}, /* sizes and classes stay where the backbone changes */
};

static const struct merge_rule *find_rule(const char *key)
{
    for (size_t i = 0; i < sizeof merge_rules / sizeof *merge_rules; i++)
        if (strcmp(merge_rules[i].key, key) == 0)
            return &merge_rules[i];
    return NULL;
}

/* {"name": text} in place of the text; NULL without memory. */
static struct json_value *name_to_object(const struct json_value *text)
{
    struct json_value *object = json_new(JSON_OBJECT);
    if (!object || !json_add(object, "name", json_copy(text))) {
        json_free(object);
        return NULL;
    }
    json_set_origin(object, json_origin(text));
    return object;
}

/* Whether `over` names something else than `old`. An `old` without a name means the default, which
 * only the field table knows: its options are marked, and reading drops them under another. */
static bool renames(struct json_value *old, const struct json_value *over)
{
    const struct json_value *name = json_member(over, "name");
    if (!name)
        return false;
    const struct json_value *before = json_member(old, "name");
    if (before)
        return json_type(before) != JSON_STRING || json_type(name) != JSON_STRING ||
               strcmp(json_to_string(before), json_to_string(name)) != 0;
    for (const struct json_value *v = json_first(old); v; v = json_next(v))
        json_set_flag(json_child(old, json_key(v)), JSON_NAMELESS);
    return false;
}

static enum status no_memory(struct error *err)
{
    return error_memory(err, sizeof(struct json_value *));
}

static enum status merge_value(struct json_value *parent, const char *key, struct json_value *old,
                               const struct json_value *over, struct error *err);

static enum status merge_items(struct json_value *list, const char *key,
                               const struct json_value *steps, struct error *err)
{
    for (const struct json_value *v = json_first(steps); v; v = json_next(v)) {
        char *end = NULL;
        long i = strtol(json_key(v), &end, 10);
        bool index = *json_key(v) >= '0' && *json_key(v) <= '9' && !*end;
        if (!index || i >= json_count(list))
            return error_set(err, ERR_INPUT, "no such item (the list has %d)", json_count(list));
        enum status status = merge_value(list, key, json_item(list, (int)i), v, err);
        if (status)
            return status;
    }
    return OK;
}

/* Lays `over` onto `old`, the value at `key` of `parent` (an item of it, where that is a list). */
static enum status merge_value(struct json_value *parent, const char *key, struct json_value *old,
                               const struct json_value *over, struct error *err)
{
    if (!old) {
        struct json_value *copy = json_copy(over);
        return json_add(parent, key, copy) ? OK : no_memory(err);
    }
    const struct merge_rule *rule = find_rule(key);
    if (rule && json_type(over) == JSON_STRING && json_type(old) == JSON_OBJECT) {
        struct json_value *named = name_to_object(over);
        enum status status = named ? merge_value(parent, key, old, named, err) : no_memory(err);
        json_free(named);
        return status;
    }
    if (rule && json_type(old) == JSON_STRING && json_type(over) == JSON_OBJECT) {
        struct json_value *named = name_to_object(old);
        if (!json_replace(parent, old, named))
            return no_memory(err);
        old = named;
    }
    if (json_type(old) == JSON_ARRAY && json_flag(over, JSON_STEP))
        return merge_items(old, key, over, err);
    bool objects = json_type(old) == JSON_OBJECT && json_type(over) == JSON_OBJECT;
    if (objects && !(rule && rule->restarts && renames(old, over))) {
        json_clear_flag(old, JSON_NAMELESS);
        return config_merge(old, over, err);
    }
    return json_replace(parent, old, json_copy(over)) ? OK : no_memory(err);
}

enum status config_merge(struct json_value *base, const struct json_value *over, struct error *err)
{
    enum status status = OK;
    for (const struct json_value *v = json_first(over); v && !status; v = json_next(v))
        status = merge_value(base, json_key(v), json_child(base, json_key(v)), v, err);
    return status;
}

/* The value of a setting: JSON, or else the text itself. */
static enum status setting_value(struct json_value **out, const char *path, const char *text,
                                 struct error *err)
{
    enum status status = json_parse(out, text, strlen(text), NULL);
    if (status != ERR_INPUT)
        return status ? no_memory(err) : OK;
    for (size_t n = strlen(text), i = 0; i < n;) {
        int bytes = utf8_length(text + i, n - i);
        if (bytes == 0)
            return error_set(err, ERR_INPUT, "--set: %s: the value is not UTF-8", path);
        i += (size_t)bytes;
    }
    *out = json_new_string(text);
    return *out ? OK : no_memory(err);
}

/* The setting as a document: --set a.b=1 is {"a": {"b": 1}}. */
static enum status setting_document(struct json_value **out, const char *setting, int origin,
                                    struct error *err)
{
    *out = NULL;
    size_t length = strcspn(setting, "=");
    bool empty = length == 0 || setting[0] == '.' || setting[length - 1] == '.';
    for (size_t i = 1; i < length; i++)
        empty = empty || (setting[i] == '.' && setting[i - 1] == '.');
    if (empty || !setting[length] || length >= CONFIG_PATH_SIZE)
        return error_set(err, ERR_INPUT,
                         "--set: \"%.200s\" is not PATH=VALUE (as in train.epochs=3)", setting);
    char path[CONFIG_PATH_SIZE];
    memcpy(path, setting, length);
    path[length] = 0;
    int levels = 1;
    for (size_t i = 0; i < length; i++)
        levels += path[i] == '.';
    if (levels > JSON_MAX_DEPTH / 2)
        return error_set(err, ERR_INPUT, "--set: %s: more than %d levels", path,
                         JSON_MAX_DEPTH / 2);

    struct json_value *value = NULL;
    enum status status = setting_value(&value, path, setting + length + 1, err);
    if (status)
        return status;
    while (length > 0) { /* from the last step to the first */
        while (length > 0 && path[length - 1] != '.')
            length--;
        struct json_value *object = json_new(JSON_OBJECT);
        if (!object || !json_add(object, path + length, value)) {
            if (!object)
                json_free(value);
            json_free(object);
            return no_memory(err);
        }
        json_set_flag(object, JSON_STEP);
        value = object;
        length -= length > 0;
        path[length] = 0;
    }
    json_set_origin_all(value, origin);
    *out = value;
    return OK;
}

/* Whether a setting chooses a name ("train.optimizer=sgd", "train.optimizer.name=sgd",
 * "model.attention.1.name=super"). */
static bool chooses(const char *setting)
{
    char path[CONFIG_PATH_SIZE];
    snprintf(path, sizeof path, "%.*s", (int)strcspn(setting, "="), setting);
    char *last = strrchr(path, '.');
    if (last && strcmp(last, ".name") == 0) {
        *last = 0;
        last = strrchr(path, '.');
    }
    if (last && last[1] && strspn(last + 1, "0123456789") == strlen(last + 1)) {
        *last = 0;
        last = strrchr(path, '.');
    }
    return find_rule(last ? last + 1 : path) != NULL;
}

enum status config_apply_settings(struct json_value *document, const char *const *settings,
                                  int count, int origin, struct error *err)
{
    /* Names come first: --set a.k=1 --set a.name=x must not drop the k that was given with it. */
    for (int names = 1; names >= 0; names--) {
        for (int i = 0; i < count; i++) {
            if (chooses(settings[i]) != names)
                continue;
            struct json_value *over = NULL;
            enum status status = setting_document(&over, settings[i], origin, err);
            if (!status) {
                status = config_merge(document, over, err);
                if (status == ERR_INPUT)
                    error_prefix(err, "--set: %.*s: ", (int)strcspn(settings[i], "="), settings[i]);
            }
            json_free(over);
            if (status)
                return status;
        }
    }
    return OK;
}
