/* json_tree.h - changing and printing JSON documents, for this room.
 *
 * Beside its content a value carries an origin (a number that its owner gives a meaning, 0 at
 * first) and flags; json_copy copies both. Functions that take a value free it where they fail. */
#ifndef CONFIG_JSON_TREE_H
#define CONFIG_JSON_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/json.h"

enum json_flag {
    JSON_FRACTION =
        1,         /* a number written with a point or a negative exponent; json_parse sets it */
    JSON_STEP = 2, /* an object made for one step of a --set path: its keys may be list indices */
    JSON_NAMELESS = 4, /* an option given while its object left the name to the default */
    JSON_PATH = 8,     /* a path of this machine */
};

/* New values; NULL without memory. */
struct json_value *json_new(enum json_type type); /* null, false, 0, "", [] or {} */
struct json_value *json_new_number(double number);
struct json_value *json_new_bool(bool value);
struct json_value *json_new_string(const char *text); /* null for NULL */
struct json_value *json_copy(const struct json_value *v);

/* The member or item, open to changes; NULL where there is none. */
struct json_value *json_child(struct json_value *object, const char *key);
struct json_value *json_item(struct json_value *array, int i);
int json_count(const struct json_value *v); /* members or items */

/* Take `value`; false without memory or where `value` is NULL. */
bool json_add(struct json_value *object, const char *key, struct json_value *value); /* a new key */
bool json_append(struct json_value *array, struct json_value *value);
bool json_replace(struct json_value *parent, struct json_value *old, struct json_value *value);
void json_drop(struct json_value *parent, struct json_value *child); /* takes it out and frees it */

int json_origin(const struct json_value *v);
void json_set_origin(struct json_value *v, int origin);
void json_set_origin_all(struct json_value *v, int origin); /* and of all that is in it */
bool json_flag(const struct json_value *v, enum json_flag flag);
void json_set_flag(struct json_value *v, enum json_flag flag);
void json_clear_flag(struct json_value *v, enum json_flag flag);

/* The value at a dotted path, list items by index ("model.depths.0"), "" being the root; NULL where
 * there is none. *deepest, unless NULL, is the last value on the way that is there. */
const struct json_value *json_at(const struct json_value *root, const char *path,
                                 const struct json_value **deepest);

/* JSON text, malloc'd, NULL without memory: on one line, or with two spaces for each level and a
 * newline at the end. A number with JSON_FRACTION keeps its point (1.0). */
char *json_print(const struct json_value *v, bool pretty);

/* The shortest text that reads back as `number`; "null" where it is not finite. */
enum { JSON_NUMBER_SIZE = 32 };
void json_format_number(char text[JSON_NUMBER_SIZE], double number);

#endif
