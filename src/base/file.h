/* file.h - paths and whole files. Messages name path, and what the system said. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

bool file_exists(const char *path);
bool file_is_directory(const char *path);

/* Bytes of the file, or -1. */
int64_t file_size(const char *path);

/* Reads a whole regular file of at most `limit` bytes; *data is malloc'd with a 0 byte behind it.
 * ERR_INPUT where it is missing, unreadable, larger, or no regular file. */
MUST_USE enum status file_read(char **data, size_t *size, const char *path, size_t limit,
                               struct error *err);

/* Writes `path` by temporary file ("PATH.tmp"), fsync and rename: the old or the new file at every
 * moment. Links are followed; a device or pipe is written as it is. ERR_IO with the sizes where the
 * disk is full, and the temporary file is removed. */
MUST_USE enum status file_write(const char *path, const void *data, size_t size, struct error *err);

/* The same from several pieces of memory, one after the other. */
struct file_part {
    const void *data;
    size_t size;
};
MUST_USE enum status file_write_parts(const char *path, const struct file_part *parts, int count,
                                      struct error *err);

/* Appends in one write and syncs; where that fails, the file keeps its old length. */
MUST_USE enum status file_append(const char *path, const void *data, size_t size,
                                 struct error *err);

/* Cuts the file to `size` bytes. ERR_INPUT where it has fewer. */
MUST_USE enum status file_truncate(const char *path, int64_t size, struct error *err);

/* Makes the directory and those above it; OK where it is there. ERR_INPUT where that is not allowed
 * or a file is in the way, ERR_IO where the disk is full. */
MUST_USE enum status file_make_directory(const char *path, struct error *err);

/* Takes a directory for this process alone: *fd (to be closed with file_unlock) holds it until then
 * or the process's end, and leaves no file. ERR_INPUT where another one holds it. *fd is -1 with OK
 * on file systems that cannot lock directories. */
MUST_USE enum status file_lock_directory(int *fd, const char *path, struct error *err);
void file_unlock(int fd); /* -1: nothing */

/* malloc'd paths: `path` itself where it is absolute, else below `base`; NULL without memory. */
char *file_join(const char *base, const char *path);
char *file_directory(const char *path); /* "." where there is none */
char *file_absolute(const char *path);  /* "." and ".." undone in text */

#endif
