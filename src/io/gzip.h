/* gzip.h - reading files that may be gzip or plain: their content decides, never their name.
 *
 * Every failure of the file itself is ERR_INPUT and its message starts with the path. Data that
 * ends before its gzip stream does is called "cut off", anything else that does not decode
 * "damaged". */
#ifndef IO_GZIP_H
#define IO_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct gzip_file; /* a file being read from front to back */

/* Opens a regular file; anything else (a folder, a pipe) is an error. */
MUST_USE enum status gzip_open(struct gzip_file **out, const char *path, struct error *err);
void gzip_close(struct gzip_file *f);

bool gzip_is_compressed(const struct gzip_file *f);

/* The most bytes that the content can have: the file's size where it is plain, 1032 times as much
 * where it is gzip (deflate cannot do better). What claims more can be refused unread. */
uint64_t gzip_most_bytes(const struct gzip_file *f);

/* The next `want` bytes of the content; *got is smaller only at its end. Checksum and length of a
 * gzip stream are verified when its end is reached, so a reader of a known number of bytes asks for
 * one more. Gzip streams one behind the other read as one. */
MUST_USE enum status gzip_read(struct gzip_file *f, void *data, size_t want, size_t *got,
                               struct error *err);

/* The whole content of the file, at most `limit` (< SIZE_MAX) bytes: more is an error, met before
 * more is stored. *data is malloc'd. */
MUST_USE enum status gzip_read_file(uint8_t **data, size_t *size, const char *path, size_t limit,
                                    struct error *err);

#endif
