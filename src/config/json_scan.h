/* json_scan.h - a strict check of JSON text (RFC 8259): cJSON, which builds the tree, is lax. */
#ifndef CONFIG_JSON_SCAN_H
#define CONFIG_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { JSON_MAX_DEPTH = 64 };

/* What the tree does not keep of a value. */
struct json_mark {
    size_t offset; /* of its key, or of itself where it has none, from the start of the text */
    bool fraction; /* a number written with a point or a negative exponent */
};

/* Checks `length` bytes, a byte-order mark allowed in front. *marks holds one mark for each value,
 * an object or list before what is in it; malloc'd. ERR_INPUT "line L, column C: WHAT" (columns in
 * characters) for bad syntax, invalid UTF-8, a zero character, numbers past double or of more than
 * 60 characters, more than JSON_MAX_DEPTH levels of nesting. */
MUST_USE enum status json_scan(struct json_mark **marks, const char *text, size_t length,
                               struct error *err);

/* ERR_INPUT "line L, column C: WHAT" for the place at `offset`. */
enum status json_scan_error(const char *text, size_t length, size_t offset, struct error *err,
                            const char *format, ...) PRINTF_LIKE(5, 6);

/* Bytes of the UTF-8 character at `text`, 1 to 4, or 0 where it is none. */
int utf8_length(const char *text, size_t length);

#endif
