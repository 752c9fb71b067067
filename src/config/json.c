/* json.c - JSON text to a tree that is cJSON's own: struct json_value is struct cJSON under another
 * name. cJSON builds the tree from text that json_scan has found strict. */
#include "config/json.h"

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/json_scan.h"
#include "config/json_tree.h"

static const cJSON *node(const struct json_value *v)
{
    return (const cJSON *)(const void *)v;
}

static const struct json_value *value(const cJSON *n)
{
    return (const struct json_value *)(const void *)n;
}

/* A key of an object, and where it stands. */
struct key {
    const char *name;
    size_t offset;
};

static int key_order(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->offset > y->offset) - (x->offset < y->offset);
}

struct source {
    const char *text;
    size_t length;
    const struct json_mark *mark; /* of the value that comes next */
    struct error *err;
};

/* Refuses the second of two equal keys. Sorts `keys`. */
static enum status check_repeats(const struct source *s, struct key *keys, size_t count)
{
    qsort(keys, count, sizeof *keys, key_order);
    for (size_t i = 1; i < count; i++)
        if (strcmp(keys[i - 1].name, keys[i].name) == 0)
            return json_scan_error(s->text, s->length, keys[i].offset, s->err,
                                   "the key \"%.80s\" is repeated", keys[i].name);
    return OK;
}

/* Walks tree and marks side by side (both in the order of the text), keeps what the tree lacks. */
static enum status join_marks(struct source *s, cJSON *n)
{
    n->valueint = 0;
    if (s->mark++->fraction)
        json_set_flag((struct json_value *)(void *)n, JSON_FRACTION);

    size_t count = (size_t)cJSON_GetArraySize(n), i = 0;
    struct key *keys = NULL;
    if (cJSON_IsObject(n) && count > 1) {
        keys = calloc(count, sizeof *keys);
        if (!keys)
            return error_memory(s->err, count * sizeof *keys);
    }
    enum status status = OK;
    for (cJSON *child = n->child; child && !status; child = child->next) {
        if (keys)
            keys[i++] = (struct key){child->string, s->mark->offset};
        status = join_marks(s, child);
    }
    if (!status && keys)
        status = check_repeats(s, keys, count);
    free(keys);
    return status;
}

enum status json_parse(struct json_value **out, const char *text, size_t length, struct error *err)
{
    *out = NULL;
    struct json_mark *marks = NULL;
    enum status status = json_scan(&marks, text, length, err);
    if (status)
        return status;

    size_t start = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    cJSON *root = cJSON_ParseWithLength(text + start, length - start);
    if (!root) {
        free(marks);
        return error_memory(err, length);
    }
    struct source s = {text, length, marks, err};
    status = join_marks(&s, root);
    free(marks);
    if (status) {
        cJSON_Delete(root);
        return status;
    }
    *out = (struct json_value *)(void *)root;
    return OK;
}

void json_free(struct json_value *root)
{
    cJSON_Delete((cJSON *)(void *)root);
}

enum json_type json_type(const struct json_value *v)
{
    const cJSON *n = node(v);
    if (cJSON_IsBool(n))
        return JSON_BOOL;
    if (cJSON_IsNumber(n))
        return JSON_NUMBER;
    if (cJSON_IsString(n))
        return JSON_STRING;
    if (cJSON_IsArray(n))
        return JSON_ARRAY;
    return cJSON_IsObject(n) ? JSON_OBJECT : JSON_NULL;
}

double json_to_number(const struct json_value *v)
{
    return cJSON_IsNumber(node(v)) ? node(v)->valuedouble : 0;
}

const char *json_to_string(const struct json_value *v)
{
    return cJSON_GetStringValue(node(v));
}

bool json_to_bool(const struct json_value *v)
{
    return cJSON_IsTrue(node(v));
}

const char *json_key(const struct json_value *v)
{
    return node(v)->string;
}

const struct json_value *json_member(const struct json_value *v, const char *key)
{
    return cJSON_IsObject(node(v)) ? value(cJSON_GetObjectItemCaseSensitive(node(v), key)) : NULL;
}

const struct json_value *json_first(const struct json_value *v)
{
    return value(node(v)->child);
}

const struct json_value *json_next(const struct json_value *v)
{
    return value(node(v)->next);
}
