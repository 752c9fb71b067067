/* json_tree.c - documents that change. Origin and flags live in cJSON's valueint, which cJSON
 * copies with a value and reads only when it prints, which it never does here. */
#include "config/json_tree.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLAG_BITS = 4 };

static cJSON *node(struct json_value *v)
{
    return (cJSON *)(void *)v;
}

static const cJSON *const_node(const struct json_value *v)
{
    return (const cJSON *)(const void *)v;
}

static struct json_value *fresh(cJSON *n)
{
    if (n)
        n->valueint = 0;
    return (struct json_value *)(void *)n;
}

struct json_value *json_new(enum json_type type)
{
    switch (type) {
    case JSON_NULL:
        return fresh(cJSON_CreateNull());
    case JSON_BOOL:
        return fresh(cJSON_CreateFalse());
    case JSON_NUMBER:
        return fresh(cJSON_CreateNumber(0));
    case JSON_STRING:
        return fresh(cJSON_CreateString(""));
    case JSON_ARRAY:
        return fresh(cJSON_CreateArray());
    case JSON_OBJECT:
        return fresh(cJSON_CreateObject());
    }
    return NULL;
}

struct json_value *json_new_number(double number)
{
    return fresh(cJSON_CreateNumber(number));
}

struct json_value *json_new_bool(bool value)
{
    return fresh(cJSON_CreateBool(value));
}

struct json_value *json_new_string(const char *text)
{
    return fresh(text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

struct json_value *json_copy(const struct json_value *v)
{
    return (struct json_value *)(void *)cJSON_Duplicate(const_node(v), true);
}

struct json_value *json_child(struct json_value *object, const char *key)
{
    cJSON *n = node(object);
    return cJSON_IsObject(n) ? (struct json_value *)(void *)cJSON_GetObjectItemCaseSensitive(n, key)
                             : NULL;
}

struct json_value *json_item(struct json_value *array, int i)
{
    return (struct json_value *)(void *)cJSON_GetArrayItem(node(array), i);
}

int json_count(const struct json_value *v)
{
    return cJSON_GetArraySize(const_node(v));
}

bool json_add(struct json_value *object, const char *key, struct json_value *value)
{
    if (value && cJSON_AddItemToObject(node(object), key, node(value)))
        return true;
    json_free(value);
    return false;
}

bool json_append(struct json_value *array, struct json_value *value)
{
    if (value && cJSON_AddItemToArray(node(array), node(value)))
        return true;
    json_free(value);
    return false;
}

bool json_replace(struct json_value *parent, struct json_value *old, struct json_value *value)
{
    if (!value)
        return false;
    cJSON *n = node(value);
    if (node(old)->string) {
        size_t size = strlen(node(old)->string) + 1;
        char *key = cJSON_malloc(size);
        if (!key) {
            json_free(value);
            return false;
        }
        memcpy(key, node(old)->string, size);
        cJSON_free(n->string);
        n->string = key;
    }
    return cJSON_ReplaceItemViaPointer(node(parent), node(old), n);
}

void json_drop(struct json_value *parent, struct json_value *child)
{
    if (child)
        cJSON_Delete(cJSON_DetachItemViaPointer(node(parent), node(child)));
}

int json_origin(const struct json_value *v)
{
    return const_node(v)->valueint >> FLAG_BITS;
}

void json_set_origin(struct json_value *v, int origin)
{
    cJSON *n = node(v);
    n->valueint = origin * (1 << FLAG_BITS) + (n->valueint & ((1 << FLAG_BITS) - 1));
}

void json_set_origin_all(struct json_value *v, int origin)
{
    json_set_origin(v, origin);
    for (cJSON *child = node(v)->child; child; child = child->next)
        json_set_origin_all((struct json_value *)(void *)child, origin);
}

bool json_flag(const struct json_value *v, enum json_flag flag)
{
    return const_node(v)->valueint & (int)flag;
}

void json_set_flag(struct json_value *v, enum json_flag flag)
{
    node(v)->valueint |= (int)flag;
}

void json_clear_flag(struct json_value *v, enum json_flag flag)
{
    node(v)->valueint &= ~(int)flag;
}

/* The child named by the first `length` characters of `step`: a key, or an index into a list. */
static const cJSON *step_down(const cJSON *n, const char *step, size_t length)
{
    int i = 0;
    bool index = cJSON_IsArray(n) && length > 0 && length < 9;
    for (size_t k = 0; index && k < length; k++) {
        index = isdigit((unsigned char)step[k]);
        i = 10 * i + (step[k] - '0');
    }
    if (index)
        return cJSON_GetArrayItem(n, i);
    for (const cJSON *child = n->child; child; child = child->next)
        if (child->string && strlen(child->string) == length &&
            memcmp(child->string, step, length) == 0)
            return child;
    return NULL;
}

const struct json_value *json_at(const struct json_value *root, const char *path,
                                 const struct json_value **deepest)
{
    const cJSON *n = const_node(root), *last = n;
    while (n && *path) {
        size_t length = strcspn(path, ".");
        n = step_down(n, path, length);
        last = n ? n : last;
        path += length + (path[length] == '.');
    }
    if (deepest)
        *deepest = (const struct json_value *)(const void *)last;
    return (const struct json_value *)(const void *)n;
}
