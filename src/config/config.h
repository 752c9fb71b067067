/* config.h - a config file: JSON with "extends" and --set, checked against field tables.
 *
 * This room alone includes cJSON (json.c, json_tree.c). A struct config is the JSON document after
 * "extends" and --set; config_read fills structs from it and completes the document with every
 * default, so that config_text then gives the effective config. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/status.h"
#include "config/field.h"

struct config;

/* Reads `path`, follows "extends" (a loop is an error), applies `count` settings "PATH=VALUE"
 * (value parsed as JSON, else text; objects on the way are made, items of lists have their index as
 * in model.depths.0) and remembers for each value the file in which it stands. Objects merge key by
 * key, lists and scalars replace; an attention, optimizer or schedule (an object or its name alone)
 * whose name changes starts afresh. Settings are laid upon the files as one, so that --set a.name=x
 * leaves the options of x that are set beside it, before or behind. ERR_INPUT for syntax errors
 * (with line and column; a byte-order mark is allowed, comments are not), repeated keys, more than
 * 64 levels of nesting and files above 4 MiB. *out is freed with config_destroy, and NULL after an
 * error. */
MUST_USE enum status config_load(struct config **out, const char *path, const char *const *settings,
                                 int count, struct error *err);

/* The same from text in memory; `name` stands for the file in messages. Relative paths are against
 * the working directory, and "extends" is not followed: an unknown key to config_read. */
MUST_USE enum status config_parse(struct config **out, const char *text, const char *name,
                                  struct error *err);

/* Lays settings upon a document that was not read yet, as config_load does. */
MUST_USE enum status config_override(struct config *c, const char *const *settings, int count,
                                     struct error *err);

/* Lays the document upon the JSON text of an object, as upon a file that it extends; `name` stands
 * for that in messages. */
MUST_USE enum status config_underlay(struct config *c, const char *text, const char *name,
                                     struct error *err);

void config_destroy(struct config *c);

/* Fills the struct at `out` from the whole document by `fields`. Strings, lists and options of
 * choices live in `memory`. Unknown keys (with the nearest known one, or the section where such a
 * key belongs), wrong types and values out of range are errors "FILE: json.path: WHAT (HINT)". */
MUST_USE enum status config_read(struct config *c, const struct field *fields, void *out,
                                 struct arena *memory, struct error *err);

/* The document as JSON text with two-space indentation and a newline at the end. Once config_read
 * was called it holds every key in the order of the tables, every default and what a preset stands
 * for, and absolute paths; read again, it gives the same structs and the same text. malloc'd, NULL
 * without memory. */
char *config_text(const struct config *c);

/* The same with `text` (NULL: null) for the value of a key of the document, and, for files that
 * travel, `with_paths` false: null for every path (FIELD_PATH). */
char *config_text_changed(const struct config *c, const char *key, const char *text,
                          bool with_paths);

/* The value at the dotted path ("" is the whole document) as one-line JSON, malloc'd; NULL where it
 * is absent. */
char *config_value(const struct config *c, const char *path);

/* Dotted paths at which two documents differ with both values, as "path: OLD -> NEW; path: ...", a
 * missing value being "absent"; malloc'd, NULL without memory, "" where they are equal. `ignore` is
 * NULL or a NULL-terminated list of paths that are not compared, nor what is below them. */
char *config_difference(const struct config *a, const struct config *b, const char *const *ignore);

/* Fills `out` with the defaults of `fields`. */
MUST_USE enum status config_defaults(const struct field *fields, void *out, struct arena *memory,
                                     struct error *err);

/* Whether each option that has another value than its default has what it needs for an effect:
 * ERR_INPUT "NAME: 3 has no effect with OTHER "x" (HINT)" if not. `options` is a struct that `fields`
 * describe, `needs` a list up to NEED_END, or NULL. Options there are numbers, booleans and enums. */
MUST_USE enum status config_check_needs(const struct field *fields, const struct field_need *needs,
                                        const void *options, struct error *err);

/* Gives what the option `name` needs for an effect, where it lacks that, the first value that will do. */
void config_meet_needs(const struct field *fields, const struct field_need *needs, const char *name,
                       void *options);

/* Chooses `kind`, a plain one, with its defaults wherever the struct `options` has a choice among
 * `kinds`, or a list of them; objects inside it are searched too. Adds the number of these fields to
 * *count. */
MUST_USE enum status config_set_choice(const struct field *fields, void *options, kind_list *kinds,
                                       const struct kind *kind, struct arena *memory, int *count,
                                       struct error *err);

/* "FILE: json.path: " text of the problem found later at a value (a file that is missing, sizes
 * that do not fit): fills err with ERR_INPUT and where the value stands. */
enum status config_error(const struct config *c, struct error *err, const char *json_path,
                         const char *format, ...) PRINTF_LIKE(4, 5);

/* Appends " (nearest: "a"; one of "a", "b")" to err, for a name that is none of those (up to NULL).
 */
void config_hint_name(struct error *err, const char *name, const char *const *names);

/* The options of `fields` as a JSON array [{"name","type","default","min","max","help"}], malloc'd,
 * NULL without memory. Type: int, real, bool, string, path, name, pair, reals, ints, strings,
 * object, choice, "choice or list" or "number or name"; min and max are null where there is no bound. "values" lists
 * the names that may be given, "options" the fields of an object. */
char *config_describe(const struct field *fields);

#endif
