/* document.h - what the files of this room share about a struct config. */
#ifndef CONFIG_DOCUMENT_H
#define CONFIG_DOCUMENT_H

#include "base/arena.h"
#include "base/status.h"
#include "config/config.h"
#include "config/json_tree.h"

enum { CONFIG_PATH_SIZE = 512 }; /* of a dotted JSON path in messages; longer ones are cut */

/* Where values come from; json_origin is 1 + an index into the list, 0 for defaults. */
struct origin {
    char *name;      /* for messages: the path as it was reached, or "--set" */
    char *directory; /* relative paths are below it; NULL: the working directory */
};

struct config {
    struct json_value *document; /* an object */
    struct origin *origins;      /* the file that was named comes first */
    int origin_count;
};

/* The file (or "--set") in which the value at the path stands, or the value around it that does. */
const char *config_where(const struct config *c, const char *json_path);

/* The directory against which a path of that origin is resolved, or NULL. */
const char *config_directory(const struct config *c, int origin);

/* config_merge.c: lays `over` onto the object `base`, key by key; lists and scalars replace. An
 * attention, optimizer or schedule whose name changes starts afresh. */
MUST_USE enum status config_merge(struct json_value *base, const struct json_value *over,
                                  struct error *err);

/* Lays the settings "PATH=VALUE" onto the document as one object, so that their order does not
 * matter but for the same path given twice. */
MUST_USE enum status config_apply_settings(struct json_value *document, const char *const *settings,
                                           int count, int origin, struct error *err);

/* config_default.c: the default of a field as a value; NULL without memory. A default that is no
 * JSON where it must be is a bug of the table: it becomes a string, which reading refuses. */
struct json_value *config_default_value(const struct field *field);

/* The kind of that name, NULL where the list has none. */
const struct kind *config_find_kind(kind_list *kinds, const char *name);

/* The plain kind that a preset stands for, `kind` itself where it is plain; NULL for a preset of
 * something else. *values, unless NULL, is the preset's object (empty for a plain kind), which the
 * caller frees; NULL without memory. */
const struct kind *config_plain_kind(kind_list *kinds, const struct kind *kind,
                                     struct json_value **values);

/* config_hint.c: text from a config as a message shows it: one line, cut at 60 bytes. */
enum { CONFIG_SHOWN_SIZE = 72 };
const char *config_show(char shown[CONFIG_SHOWN_SIZE], const char *text);

/* Appends " (HINT)" to err: where the unknown key belongs, or the nearest known one. `fields` are
 * the keys known at json_path (NULL: none), `root` describes the whole `document` (NULL: not
 * known). */
void config_hint_key(struct error *err, const char *key, const char *json_path,
                     const struct field *fields, const struct field *root,
                     const struct json_value *document);

/* config_hint_name for the names of kinds. */
void config_hint_kind(struct error *err, const char *name, kind_list *kinds);

#endif
