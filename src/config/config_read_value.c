/* config_read_value.c - single values: numbers, names, text and lists of these. */
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "config/reader.h"

size_t reader_push(struct reader *r, const char *step)
{
    char shown[CONFIG_SHOWN_SIZE];
    size_t length = strlen(r->path);
    snprintf(r->path + length, sizeof r->path - length, "%s%s", length ? "." : "",
             config_show(shown, step));
    return length;
}

size_t reader_push_index(struct reader *r, int i)
{
    char step[16];
    snprintf(step, sizeof step, "%d", i);
    return reader_push(r, step);
}

void reader_pop(struct reader *r, size_t length)
{
    r->path[length] = 0;
}

enum status reader_fail(struct reader *r, const char *format, ...)
{
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error_set(r->err, ERR_INPUT, "%s: %s: %s",
                     r->config ? config_where(r->config, r->path) : "defaults", r->path, what);
}

enum status reader_fail_type(struct reader *r, const char *expected, const struct json_value *v)
{
    char shown[CONFIG_SHOWN_SIZE], number[JSON_NUMBER_SIZE];
    switch (json_type(v)) {
    case JSON_STRING:
        return reader_fail(r, "expected %s, got the string \"%s\"", expected,
                           config_show(shown, json_to_string(v)));
    case JSON_NUMBER:
        json_format_number(number, json_to_number(v));
        return reader_fail(r, "expected %s, got the number %s", expected, number);
    case JSON_BOOL:
        return reader_fail(r, "expected %s, got %s", expected, json_to_bool(v) ? "true" : "false");
    case JSON_ARRAY:
        return reader_fail(r, "expected %s, got a list", expected);
    case JSON_OBJECT:
        return reader_fail(r, "expected %s, got an object", expected);
    case JSON_NULL:
        break;
    }
    return reader_fail(r, "expected %s, got null", expected);
}

enum status reader_no_memory(struct reader *r)
{
    return error_memory(r->err, sizeof(struct json_value *));
}

/* A number within low..high. */
static enum status read_number(struct reader *r, const struct json_value *v, double low,
                               double high, double *out)
{
    if (json_type(v) != JSON_NUMBER)
        return reader_fail_type(r, "a number", v);
    *out = json_to_number(v);
    if (*out >= low && *out <= high)
        return OK;
    char number[JSON_NUMBER_SIZE], from[JSON_NUMBER_SIZE], to[JSON_NUMBER_SIZE];
    json_format_number(number, *out);
    json_format_number(from, low);
    json_format_number(to, high);
    if (isfinite(low) && isfinite(high))
        return reader_fail(r, "%s is not in %s..%s", number, from, to);
    return *out < low ? reader_fail(r, "%s is below %s", number, from)
                      : reader_fail(r, "%s is above %s", number, to);
}

static enum status read_whole(struct reader *r, const struct json_value *v, double low, double high,
                              double *out)
{
    if (json_type(v) != JSON_NUMBER || json_to_number(v) != floor(json_to_number(v)))
        return reader_fail_type(r, "a whole number", v);
    return read_number(r, v, low, high, out);
}

static enum status read_int(struct reader *r, const struct field *f, const struct json_value *v,
                            int *out)
{
    double number = 0;
    enum status status = read_whole(r, v, fmax(f->min, INT_MIN), fmin(f->max, INT_MAX), &number);
    if (!status)
        *out = (int)number;
    return status;
}

/* Whether v is a null that the field allows: fills *effective. */
static bool is_null(const struct json_value *v, bool allowed, struct json_value **effective)
{
    if (json_type(v) != JSON_NULL || !allowed)
        return false;
    *effective = json_new(JSON_NULL);
    return true;
}

enum status config_read_int(struct reader *r, const struct field *f, const struct json_value *v,
                            void *out, struct json_value **effective)
{
    int *to = out;
    enum status status = read_int(r, f, v, to);
    if (!status)
        *effective = json_new_number(*to);
    return status;
}

enum status config_read_seed(struct reader *r, const struct field *f, const struct json_value *v,
                             void *out, struct json_value **effective)
{
    double number = 0;
    (void)f;
    enum status status = read_whole(r, v, 0, 9007199254740992.0, &number);
    *(uint64_t *)out = status ? 0 : (uint64_t)number;
    if (!status)
        *effective = json_new_number(number);
    return status;
}

enum status config_read_real(struct reader *r, const struct field *f, const struct json_value *v,
                             void *out, struct json_value **effective)
{
    double *to = out;
    enum status status = read_number(r, v, f->min, f->max, to);
    if (!status)
        *effective = json_new_number(*to);
    return status;
}

enum status config_read_bool(struct reader *r, const struct field *f, const struct json_value *v,
                             void *out, struct json_value **effective)
{
    (void)f;
    if (json_type(v) != JSON_BOOL)
        return reader_fail_type(r, "true or false", v);
    *(bool *)out = json_to_bool(v);
    *effective = json_new_bool(json_to_bool(v));
    return OK;
}

static enum status copy_text(struct reader *r, const char *text, const char **out)
{
    *out = arena_strdup(r->memory, text);
    return *out ? OK : error_memory(r->err, strlen(text) + 1);
}

enum status config_read_string(struct reader *r, const struct field *f, const struct json_value *v,
                               void *out, struct json_value **effective)
{
    const char **to = out;
    *to = NULL;
    if (is_null(v, !f->text, effective))
        return OK;
    if (json_type(v) != JSON_STRING)
        return reader_fail_type(r, f->text ? "a string" : "a string or null", v);
    *effective = json_new_string(json_to_string(v));
    return copy_text(r, json_to_string(v), to);
}

enum status config_read_path(struct reader *r, const struct field *f, const struct json_value *v,
                             void *out, struct json_value **effective)
{
    const char **to = out;
    *to = NULL;
    if (is_null(v, !f->text, effective))
        return OK;
    if (json_type(v) != JSON_STRING || !*json_to_string(v))
        return reader_fail_type(r, f->text ? "a path" : "a path or null", v);
    const char *directory = config_directory(r->config, json_origin(v));
    char *joined = file_join(directory ? directory : ".", json_to_string(v));
    char *absolute = joined ? file_absolute(joined) : NULL;
    enum status status = absolute ? copy_text(r, absolute, to) : reader_no_memory(r);
    if (!status && (*effective = json_new_string(absolute)))
        json_set_flag(*effective, JSON_PATH);
    free(joined);
    free(absolute);
    return status;
}

static int index_of(const char *const *names, const char *name)
{
    for (int i = 0; names && names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* The index of the string v in `names`. */
static enum status read_name(struct reader *r, const char *const *names, const struct json_value *v,
                             int *out)
{
    *out = index_of(names, json_to_string(v));
    if (*out >= 0)
        return OK;
    char shown[CONFIG_SHOWN_SIZE];
    enum status status =
        reader_fail(r, "unknown name \"%s\"", config_show(shown, json_to_string(v)));
    config_hint_name(r->err, json_to_string(v), names);
    return status;
}

enum status config_read_enum(struct reader *r, const struct field *f, const struct json_value *v,
                             void *out, struct json_value **effective)
{
    if (json_type(v) != JSON_STRING) {
        enum status status = reader_fail_type(r, "a name", v);
        config_hint_name(r->err, "", f->names);
        return status;
    }
    enum status status = read_name(r, f->names, v, out);
    if (!status)
        *effective = json_new_string(json_to_string(v));
    return status;
}

/* Item i of a list, or v itself where that stands for a list of one. */
static const struct json_value *list_item(const struct json_value *v, int i)
{
    if (json_type(v) != JSON_ARRAY)
        return v;
    const struct json_value *item = json_first(v);
    while (i-- > 0)
        item = json_next(item);
    return item;
}

enum status config_read_pair(struct reader *r, const struct field *f, const struct json_value *v,
                             void *out, struct json_value **effective)
{
    int *to = out;
    bool list = json_type(v) == JSON_ARRAY;
    if (list ? json_count(v) != 2 : json_type(v) != JSON_NUMBER)
        return reader_fail_type(r, "a whole number or [height, width]", v);
    for (int i = 0; i < 2; i++) {
        size_t length = strlen(r->path);
        if (list)
            reader_push_index(r, i);
        enum status status = read_int(r, f, list_item(v, i), &to[i]);
        if (status)
            return status;
        reader_pop(r, length);
    }
    if (to[0] == to[1]) {
        *effective = json_new_number(to[0]);
        return OK;
    }
    *effective = json_new(JSON_ARRAY);
    for (int i = 0; i < 2; i++) {
        if (!*effective || !json_append(*effective, json_new_number(to[i])))
            return reader_no_memory(r);
    }
    return OK;
}

/* Reads one item of a list to `out`. */
typedef enum status item_reader(struct reader *r, const struct field *f,
                                const struct json_value *item, void *out);

static enum status real_item(struct reader *r, const struct field *f, const struct json_value *item,
                             void *out)
{
    return read_number(r, item, f->min, f->max, out);
}

static enum status int_item(struct reader *r, const struct field *f, const struct json_value *item,
                            void *out)
{
    return read_int(r, f, item, out);
}

static enum status string_item(struct reader *r, const struct field *f,
                               const struct json_value *item, void *out)
{
    (void)f;
    if (json_type(item) != JSON_STRING)
        return reader_fail_type(r, "a string", item);
    return copy_text(r, json_to_string(item), out);
}

/* Reads a list to an array of items of `size` bytes; a value of type `lone` is a list of one. */
static enum status read_list(struct reader *r, const struct field *f, const struct json_value *v,
                             item_reader *read, size_t size, enum json_type lone,
                             const char *expected, int *count, void **at,
                             struct json_value **effective)
{
    bool list = json_type(v) == JSON_ARRAY;
    *count = 0;
    *at = NULL;
    if (json_type(v) == JSON_NULL && !f->text) {
        *effective = json_new(JSON_ARRAY);
        return OK;
    }
    if (!list && json_type(v) != lone)
        return reader_fail_type(r, expected, v);
    int n = list ? json_count(v) : 1;
    *effective = json_new(JSON_ARRAY);
    if (n > 0)
        *at = arena_alloc(r->memory, (size_t)n * size);
    if (!*effective || (n > 0 && !*at))
        return error_memory(r->err, (size_t)n * size);
    const struct json_value *item = list ? json_first(v) : v;
    for (int i = 0; i < n; i++) {
        size_t length = strlen(r->path);
        if (list)
            reader_push_index(r, i);
        enum status status = read(r, f, item, (char *)*at + (size_t)i * size);
        if (status)
            return status;
        struct json_value *copy = json_copy(item);
        if (copy)
            json_clear_flag(copy, JSON_FRACTION);
        if (!json_append(*effective, copy))
            return reader_no_memory(r);
        reader_pop(r, length);
        item = list ? json_next(item) : NULL;
    }
    *count = n;
    return OK;
}

enum status config_read_reals(struct reader *r, const struct field *f, const struct json_value *v,
                              void *out, struct json_value **effective)
{
    struct reals *to = out;
    void *at = NULL;
    enum status status = read_list(r, f, v, real_item, sizeof *to->at, JSON_NUMBER,
                                   "a list of numbers", &to->count, &at, effective);
    to->at = at;
    return status;
}

enum status config_read_ints(struct reader *r, const struct field *f, const struct json_value *v,
                             void *out, struct json_value **effective)
{
    struct ints *to = out;
    void *at = NULL;
    enum status status = read_list(r, f, v, int_item, sizeof *to->at, JSON_NUMBER,
                                   "a whole number or a list of them", &to->count, &at, effective);
    to->at = at;
    return status;
}

enum status config_read_strings(struct reader *r, const struct field *f, const struct json_value *v,
                                void *out, struct json_value **effective)
{
    struct strings *to = out;
    void *at = NULL;
    enum status status = read_list(r, f, v, string_item, sizeof *to->at, JSON_ARRAY,
                                   "a list of strings", &to->count, &at, effective);
    to->at = at;
    return status;
}

static enum status range_number(struct reader *r, const struct field *f, const struct json_value *v,
                                struct number_or_name *to, struct json_value **effective)
{
    enum status status = read_number(r, v, f->min, f->max, &to->number);
    if (status)
        return status;
    to->name = -1;
    to->is_fraction = json_flag(v, JSON_FRACTION);
    *effective = json_new_number(to->number);
    if (*effective && to->is_fraction)
        json_set_flag(*effective, JSON_FRACTION);
    return OK;
}

enum status config_read_range(struct reader *r, const struct field *f, const struct json_value *v,
                              void *out, struct json_value **effective)
{
    struct number_or_name *to = out;
    *to = (struct number_or_name){.name = -2};
    if (is_null(v, true, effective))
        return OK;
    if (json_type(v) == JSON_STRING && f->names) {
        enum status status = read_name(r, f->names, v, &to->name);
        if (!status)
            *effective = json_new_string(json_to_string(v));
        return status;
    }
    if (json_type(v) == JSON_NUMBER)
        return range_number(r, f, v, to, effective);
    enum status status =
        reader_fail_type(r, f->names ? "a number, a name or null" : "a number or null", v);
    if (f->names)
        config_hint_name(r->err, "", f->names);
    return status;
}
