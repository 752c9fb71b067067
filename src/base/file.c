/* file.c - whole files in, whole files out. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool file_is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

int64_t file_size(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (int64_t)info.st_size : -1;
}

static enum status system_error(struct error *err, enum status status, const char *path,
                                const char *what)
{
    return error_set(err, status, "%s: %s: %s", path, what, strerror(errno));
}

/* Reads up to `size` bytes, over interruptions; the count read, or -1. */
static ssize_t read_all(int fd, char *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

enum status file_read(char **data, size_t *size, const char *path, size_t limit, struct error *err)
{
    enum status status = OK;
    char *bytes = NULL;
    /* Without O_NONBLOCK, opening a pipe would wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return system_error(err, ERR_INPUT, path, "cannot be opened");

    struct stat info;
    if (fstat(fd, &info)) {
        status = system_error(err, ERR_INPUT, path, "cannot be read");
        goto out;
    }
    if (!S_ISREG(info.st_mode)) {
        status = error_set(err, ERR_INPUT, "%s: is %s, not a file", path,
                           S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe");
        goto out;
    }
    if ((uintmax_t)info.st_size > limit || (uintmax_t)info.st_size >= SSIZE_MAX) {
        status = error_set(err, ERR_INPUT, "%s: has %jd bytes, more than the %zu allowed here",
                           path, (intmax_t)info.st_size, limit);
        goto out;
    }
    size_t length = (size_t)info.st_size;
    bytes = malloc(length + 1);
    if (!bytes) {
        status = error_memory(err, length + 1);
        error_prefix(err, "%s: ", path);
        goto out;
    }
    ssize_t got = read_all(fd, bytes, length);
    if (got < 0) {
        status = system_error(err, ERR_INPUT, path, "cannot be read");
        goto out;
    }
    bytes[got] = 0;
    *data = bytes;
    *size = (size_t)got;
    bytes = NULL;
out:
    free(bytes);
    close(fd);
    return status;
}

/* Writes all bytes, over interruptions; 0, or -1 with *done bytes written before the failure. */
static int write_all(int fd, const char *data, size_t size, size_t *done)
{
    *done = 0;
    while (*done < size) {
        ssize_t n = write(fd, data + *done, size - *done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        *done += (size_t)n;
    }
    return 0;
}

/* The file that `path` leads to through links, so that writing keeps the links; malloc'd. */
static char *resolve(const char *path)
{
    char *target = realpath(path, NULL);
    return target ? target : strdup(path);
}

/* A rename is on the disk only when its directory is. Not every file system can do that, and the
 * file is whole in any case: no error. */
static void sync_directory_of(const char *path)
{
    char *directory = file_directory(path);
    int fd = directory ? open(directory, O_RDONLY | O_CLOEXEC | O_DIRECTORY) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(directory);
}

static size_t total_size(const struct file_part *parts, int count)
{
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total += parts[i].size;
    return total;
}

/* Writes the pieces to `fd`; messages name `path`. */
static enum status write_parts(int fd, const char *path, const struct file_part *parts, int count,
                               struct error *err)
{
    size_t before = 0;
    for (int i = 0; i < count; i++) {
        size_t done;
        if (write_all(fd, parts[i].data, parts[i].size, &done)) {
            int code = errno;
            return error_set(err, ERR_IO, "%s: only %zu of %zu bytes could be written: %s", path,
                             before + done, total_size(parts, count), strerror(code));
        }
        before += done;
    }
    return OK;
}

enum status file_write_parts(const char *path, const struct file_part *parts, int count,
                             struct error *err)
{
    enum status status = OK;
    struct stat info;
    bool in_place = stat(path, &info) == 0 && !S_ISREG(info.st_mode); /* /dev/stdout, a pipe */
    char *target = in_place ? strdup(path) : resolve(path);
    char *temporary = target ? malloc(strlen(target) + sizeof ".tmp") : NULL;
    if (!temporary) {
        status = error_memory(err, strlen(path) + sizeof ".tmp");
        error_prefix(err, "%s: ", path);
        goto out;
    }
    sprintf(temporary, "%s.tmp", target);
    int fd = open(in_place ? target : temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        status = system_error(err, ERR_IO, path, "cannot be written");
        goto out;
    }
    status = write_parts(fd, path, parts, count, err);
    if (!status && !in_place && fsync(fd))
        status = system_error(err, ERR_IO, path, "cannot be written to the disk");
    if (close(fd) && !status) /* NFS reports a full disk here */
        status = system_error(err, ERR_IO, path, "cannot be written");
    if (in_place)
        goto out;
    if (!status && rename(temporary, target))
        status = system_error(err, ERR_IO, path, "cannot be replaced");
    if (status)
        unlink(temporary);
    else
        sync_directory_of(target);
out:
    free(temporary);
    free(target);
    return status;
}

enum status file_write(const char *path, const void *data, size_t size, struct error *err)
{
    struct file_part part = {data, size};
    return file_write_parts(path, &part, 1, err);
}

enum status file_append(const char *path, const void *data, size_t size, struct error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return system_error(err, ERR_IO, path, "cannot be written");
    struct stat info;
    struct file_part part = {data, size};
    enum status status = OK;
    if (fstat(fd, &info))
        status = system_error(err, ERR_IO, path, "cannot be written");
    if (!status) {
        status = write_parts(fd, path, &part, 1, err);
        /* Half a line would make the file unreadable; the failure is reported either way. */
        if (status && S_ISREG(info.st_mode) && ftruncate(fd, info.st_size))
            error_append(err, " (the file now ends in a part of it)");
    }
    if (!status && S_ISREG(info.st_mode) && fsync(fd))
        status = system_error(err, ERR_IO, path, "cannot be written to the disk");
    if (close(fd) && !status)
        status = system_error(err, ERR_IO, path, "cannot be written");
    return status;
}

enum status file_truncate(const char *path, int64_t size, struct error *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return system_error(err, ERR_IO, path, "cannot be written");
    enum status status = OK;
    struct stat info;
    if (fstat(fd, &info)) {
        status = system_error(err, ERR_IO, path, "cannot be cut");
    } else if (size < 0 || size > (int64_t)info.st_size) {
        status = error_set(err, ERR_INPUT, "%s: has %jd bytes, fewer than the %jd to keep", path,
                           (intmax_t)info.st_size, (intmax_t)size);
    } else if (ftruncate(fd, (off_t)size) || fsync(fd)) {
        status = system_error(err, ERR_IO, path, "cannot be cut");
    }
    close(fd);
    return status;
}

enum status file_make_directory(const char *path, struct error *err)
{
    char *prefix = strdup(path);
    if (!prefix)
        return error_memory(err, strlen(path) + 1);
    enum status status = OK;
    for (char *end = prefix; *end && !status; end++) {
        /* `end` is the last character of a directory's name. */
        if (*end == '/' || (end[1] != '/' && end[1] != 0))
            continue;
        char next = end[1];
        end[1] = 0;
        if (mkdir(prefix, 0777) && !file_is_directory(prefix)) {
            int code = errno;
            bool is_full = code == ENOSPC || code == EDQUOT || code == EIO;
            status = error_set(err, is_full ? ERR_IO : ERR_INPUT,
                               "%s: directory %s cannot be made: %s", path, prefix,
                               code == EEXIST ? "a file of that name is there" : strerror(code));
        }
        end[1] = next;
    }
    free(prefix);
    return status;
}

enum status file_lock_directory(int *fd, const char *path, struct error *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (*fd < 0)
        return system_error(err, ERR_INPUT, path, "cannot be opened");
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return OK;
    int code = errno;
    close(*fd);
    *fd = -1;
    if (code != EWOULDBLOCK)
        return OK;
    return error_set(err, ERR_INPUT, "%s: is in use by another process", path);
}

void file_unlock(int fd)
{
    if (fd >= 0)
        close(fd);
}

char *file_join(const char *base, const char *path)
{
    if (path[0] == '/' || strcmp(base, ".") == 0)
        return strdup(path);
    size_t length = strlen(base);
    bool has_slash = length > 0 && base[length - 1] == '/';
    char *joined = malloc(length + strlen(path) + 2);
    if (joined)
        sprintf(joined, "%s%s%s", base, has_slash ? "" : "/", path);
    return joined;
}

char *file_directory(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') /* a trailing slash is no part of the name */
        end--;
    while (end > 0 && path[end - 1] != '/')
        end--;
    while (end > 1 && path[end - 1] == '/')
        end--;
    return end ? strndup(path, end) : strdup(".");
}

/* Removes ".", ".." and repeated slashes from an absolute path. */
static void normalise(char *path)
{
    char *to = path; /* what is kept ends here, without slash */
    for (const char *from = path; *from;) {
        while (*from == '/')
            from++;
        size_t length = strcspn(from, "/");
        if (length == 2 && from[0] == '.' && from[1] == '.') {
            while (to > path && *--to != '/')
                ;
        } else if (length > 0 && !(length == 1 && from[0] == '.')) {
            *to++ = '/';
            memmove(to, from, length);
            to += length;
        }
        from += length;
    }
    if (to == path)
        *to++ = '/';
    *to = 0;
}

char *file_absolute(const char *path)
{
    char here[PATH_MAX];
    if (path[0] != '/' && !getcwd(here, sizeof here))
        return NULL;
    char *absolute = file_join(path[0] == '/' ? "/" : here, path);
    if (absolute)
        normalise(absolute);
    return absolute;
}
