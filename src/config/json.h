/* json.h - reading and writing JSON text. Only json.c and json_tree.c know cJSON. */
#ifndef CONFIG_JSON_H
#define CONFIG_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* --- writing: metrics, summaries, --json answers ----------------------------------------------- */

/* A JSON value being written into a growing buffer. Numbers that are not finite become null. Text is
 * escaped, invalid UTF-8 replaced. The first failure (no memory) is kept: json_text returns NULL. */
struct json;

struct json *json_create(void);
void json_destroy(struct json *j);
void json_object(struct json *j, const char *key); /* opens an object; key NULL at top, in arrays */
void json_array(struct json *j, const char *key);
void json_end(struct json *j);                     /* closes the innermost object or array */
void json_string(struct json *j, const char *key, const char *value); /* NULL gives null */
void json_number(struct json *j, const char *key, double value); /* shortest text that reads back */
void json_int(struct json *j, const char *key, long long value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
void json_raw(struct json *j, const char *key, const char *text); /* JSON text, taken as it is */
const char *json_text(const struct json *j);       /* one line without newline; owned by j */

/* --- reading: safetensors headers, metrics lines, label maps ------------------------------------ */

struct json_value; /* part of a document, owned by it */

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* Parses `length` bytes, a byte-order mark allowed in front. ERR_INPUT "line L, column C: WHAT" for
 * all that is not strict JSON in UTF-8, repeated keys, numbers past double, the character \u0000, more
 * than 64 levels of nesting. *out is the root, NULL after an error; json_free frees the document. */
MUST_USE enum status json_parse(struct json_value **out, const char *text, size_t length,
                                struct error *err);
void json_free(struct json_value *root);

enum json_type json_type(const struct json_value *v);
double json_to_number(const struct json_value *v); /* 0 where it is no number */
const char *json_to_string(const struct json_value *v); /* NULL where it is no string */
bool json_to_bool(const struct json_value *v);
const char *json_key(const struct json_value *v);  /* key under which it stands, NULL in arrays */
const struct json_value *json_member(const struct json_value *v, const char *key); /* or NULL */
const struct json_value *json_first(const struct json_value *v); /* first child of array or object */
const struct json_value *json_next(const struct json_value *v);  /* next sibling, NULL at the end */

#endif
