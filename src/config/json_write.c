/* json_write.c - JSON text from calls (struct json) and from trees (json_print). */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/json.h"
#include "config/json_scan.h"
#include "config/json_tree.h"

struct json {
    char *text;
    size_t length, capacity;
    char closers[JSON_MAX_DEPTH]; /* brackets still to be written, innermost last */
    int depth;
    bool failed;
};

struct json *json_create(void)
{
    return calloc(1, sizeof(struct json));
}

void json_destroy(struct json *j)
{
    if (!j)
        return;
    free(j->text);
    free(j);
}

static void put(struct json *j, const char *text, size_t length)
{
    if (j->failed)
        return;
    if (length >= SIZE_MAX / 2 - j->length) {
        j->failed = true;
        return;
    }
    size_t need = j->length + length + 1;
    if (need > j->capacity) {
        size_t capacity = need < 256 ? 256 : 2 * need;
        char *grown = realloc(j->text, capacity);
        if (!grown) {
            j->failed = true;
            return;
        }
        j->text = grown;
        j->capacity = capacity;
    }
    memcpy(j->text + j->length, text, length);
    j->length += length;
    j->text[j->length] = 0;
}

static void put_text(struct json *j, const char *text)
{
    put(j, text, strlen(text));
}

static void put_string(struct json *j, const char *text)
{
    static const char plain[] = "\"\\\b\f\n\r\t", escaped[] = "\"\\bfnrt";
    size_t left = strlen(text);
    put_text(j, "\"");
    while (left) {
        int n = utf8_length(text, left);
        const char *special = strchr(plain, *text);
        if (n == 0) {
            put_text(j, "\xef\xbf\xbd"); /* U+FFFD, the replacement character */
            n = 1;
        } else if (special) {
            put(j, (const char[]){'\\', escaped[special - plain]}, 2);
        } else if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            char code[8];
            snprintf(code, sizeof code, "\\u%04x", (unsigned)*text);
            put_text(j, code);
        } else {
            put(j, text, (size_t)n);
        }
        text += n;
        left -= (size_t)n;
    }
    put_text(j, "\"");
}

void json_format_number(char text[JSON_NUMBER_SIZE], double number)
{
    if (!isfinite(number)) {
        snprintf(text, JSON_NUMBER_SIZE, "null");
        return;
    }
    if (fabs(number) < 9007199254740992.0 && number == floor(number)) { /* 2^53 */
        snprintf(text, JSON_NUMBER_SIZE, "%.0f", number);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, JSON_NUMBER_SIZE, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            return;
    }
}

/* The comma and the key in front of a value. */
static void begin(struct json *j, const char *key)
{
    char last = j->length ? j->text[j->length - 1] : '{';
    if (j->depth > 0 && last != '{' && last != '[')
        put_text(j, ",");
    if (key) {
        put_string(j, key);
        put_text(j, ":");
    }
}

static void open_bracket(struct json *j, const char *key, const char *bracket, char closer)
{
    if (j->depth == JSON_MAX_DEPTH) {
        j->failed = true;
        return;
    }
    begin(j, key);
    put_text(j, bracket);
    j->closers[j->depth++] = closer;
}

void json_object(struct json *j, const char *key)
{
    open_bracket(j, key, "{", '}');
}

void json_array(struct json *j, const char *key)
{
    open_bracket(j, key, "[", ']');
}

void json_end(struct json *j)
{
    if (j->depth == 0) {
        j->failed = true;
        return;
    }
    put(j, &j->closers[--j->depth], 1);
}

void json_string(struct json *j, const char *key, const char *value)
{
    begin(j, key);
    if (value)
        put_string(j, value);
    else
        put_text(j, "null");
}

void json_number(struct json *j, const char *key, double value)
{
    char text[JSON_NUMBER_SIZE];
    json_format_number(text, value);
    json_raw(j, key, text);
}

void json_int(struct json *j, const char *key, long long value)
{
    char text[JSON_NUMBER_SIZE];
    snprintf(text, sizeof text, "%lld", value);
    json_raw(j, key, text);
}

void json_bool(struct json *j, const char *key, bool value)
{
    json_raw(j, key, value ? "true" : "false");
}

void json_null(struct json *j, const char *key)
{
    json_raw(j, key, "null");
}

void json_raw(struct json *j, const char *key, const char *text)
{
    begin(j, key);
    put_text(j, text);
}

const char *json_text(const struct json *j)
{
    return j->failed || j->depth > 0 ? NULL : j->text;
}

static void print_number(struct json *j, const struct json_value *v)
{
    char text[JSON_NUMBER_SIZE];
    json_format_number(text, json_to_number(v));
    size_t digits = strcspn(text, "e");
    put(j, text, digits);
    if (json_flag(v, JSON_FRACTION) && !strchr(text, '.') && !strstr(text, "e-"))
        put_text(j, ".0");
    put_text(j, text + digits);
}

static void print_value(struct json *j, const struct json_value *v, int level, bool pretty);

static void print_newline(struct json *j, int level)
{
    put_text(j, "\n");
    for (int i = 0; i < level; i++)
        put_text(j, "  ");
}

/* Members or items between brackets. A list without objects and lists stays on one line. */
static void print_inside(struct json *j, const struct json_value *v, int level, bool pretty)
{
    bool object = json_type(v) == JSON_OBJECT, lines = pretty && object;
    for (const struct json_value *child = json_first(v); child; child = json_next(child))
        lines = lines || (pretty && json_first(child));
    put_text(j, object ? "{" : "[");
    for (const struct json_value *child = json_first(v); child; child = json_next(child)) {
        if (lines)
            print_newline(j, level + 1);
        if (object) {
            put_string(j, json_key(child));
            put_text(j, pretty ? ": " : ":");
        }
        print_value(j, child, level + 1, pretty);
        if (json_next(child))
            put_text(j, pretty && !lines ? ", " : ",");
    }
    if (lines && json_first(v))
        print_newline(j, level);
    put_text(j, object ? "}" : "]");
}

static void print_value(struct json *j, const struct json_value *v, int level, bool pretty)
{
    switch (json_type(v)) {
    case JSON_NULL:
        put_text(j, "null");
        break;
    case JSON_BOOL:
        put_text(j, json_to_bool(v) ? "true" : "false");
        break;
    case JSON_NUMBER:
        print_number(j, v);
        break;
    case JSON_STRING:
        put_string(j, json_to_string(v));
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        print_inside(j, v, level, pretty);
        break;
    }
}

char *json_print(const struct json_value *v, bool pretty)
{
    struct json j = {0};
    print_value(&j, v, 0, pretty);
    if (pretty)
        put_text(&j, "\n");
    if (j.failed) {
        free(j.text);
        return NULL;
    }
    return j.text;
}
