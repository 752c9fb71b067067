/* gzip.c - plain or gzip files, read front to back through zlib. */
#include "io/gzip.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum {
    GZIP_BUFFER = 1 << 16,
    GZIP_CHUNK = 1 << 30,      /* zlib counts in unsigned int */
    DEFLATE_BEST_RATIO = 1032, /* 258 bytes from 2 bits: https://zlib.net/zlib_tech.html */
};

struct gzip_file {
    FILE *file;
    char *path;
    uint64_t file_bytes; /* size of the file when it was opened */
    uint64_t loaded;     /* bytes taken from it into the buffer */
    bool compressed;
    bool inflating;  /* `stream` was initialised */
    bool between;    /* a gzip stream has ended, another may follow */
    z_stream stream; /* next_in and avail_in say what is left of the buffer, for plain files too */
    unsigned char buffer[GZIP_BUFFER];
};

static enum status gzip_fill(struct gzip_file *f, struct error *err)
{
    size_t n = fread(f->buffer, 1, sizeof f->buffer, f->file);
    if (n == 0 && ferror(f->file))
        return error_set(err, ERR_INPUT, "%s: cannot be read: %s", f->path, strerror(errno));
    f->loaded += n;
    f->stream.next_in = f->buffer;
    f->stream.avail_in = (uInt)n;
    return OK;
}

enum status gzip_open(struct gzip_file **out, const char *path, struct error *err)
{
    struct gzip_file *f = calloc(1, sizeof *f);
    char *name = malloc(strlen(path) + 1);
    if (!f || !name) {
        free(f);
        free(name);
        return error_memory(err, sizeof *f + strlen(path) + 1);
    }
    f->path = strcpy(name, path);

    /* A pipe would block in fopen, so the kind of file is asked first. */
    enum status status = OK;
    struct stat about;
    if (stat(path, &about) != 0 || (S_ISREG(about.st_mode) && !(f->file = fopen(path, "rb"))))
        status = error_set(err, ERR_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    else if (!S_ISREG(about.st_mode))
        status = error_set(err, ERR_INPUT, "%s: is %s, not a file", path,
                           S_ISDIR(about.st_mode) ? "a folder" : "a device or pipe");
    if (status)
        goto fail;
    f->file_bytes = (uint64_t)about.st_size;

    status = gzip_fill(f, err);
    if (status)
        goto fail;
    f->compressed = f->stream.avail_in >= 2 && f->buffer[0] == 0x1f && f->buffer[1] == 0x8b;
    if (f->compressed) {
        if (inflateInit2(&f->stream, 15 + 16) != Z_OK) {
            status = error_memory(err, 1 << 16);
            goto fail;
        }
        f->inflating = true;
    }
    *out = f;
    return OK;

fail:
    gzip_close(f);
    return status;
}

void gzip_close(struct gzip_file *f)
{
    if (!f)
        return;
    if (f->inflating)
        inflateEnd(&f->stream);
    if (f->file)
        fclose(f->file);
    free(f->path);
    free(f);
}

bool gzip_is_compressed(const struct gzip_file *f)
{
    return f->compressed;
}

uint64_t gzip_most_bytes(const struct gzip_file *f)
{
    if (!f->compressed)
        return f->file_bytes;
    return f->file_bytes > UINT64_MAX / DEFLATE_BEST_RATIO ? UINT64_MAX
                                                           : f->file_bytes * DEFLATE_BEST_RATIO;
}

static enum status gzip_damaged(const struct gzip_file *f, const char *what, struct error *err)
{
    return error_set(err, ERR_INPUT,
                     "%s: gzip data is damaged near byte %llu of %llu: %s (fetch the file again)",
                     f->path, (unsigned long long)(f->loaded - f->stream.avail_in),
                     (unsigned long long)f->file_bytes, what);
}

/* Copies from the buffer of a plain file, or inflates from it; *got grows by what came out. */
static enum status gzip_step(struct gzip_file *f, unsigned char *data, size_t want, size_t *got,
                             struct error *err)
{
    uInt room = want - *got < GZIP_CHUNK ? (uInt)(want - *got) : GZIP_CHUNK;
    if (!f->compressed) {
        uInt n = f->stream.avail_in < room ? f->stream.avail_in : room;
        memcpy(data + *got, f->stream.next_in, n);
        f->stream.next_in += n;
        f->stream.avail_in -= n;
        *got += n;
        return OK;
    }
    if (f->between) {
        if (f->stream.next_in[0] != 0x1f)
            return gzip_damaged(f, "something else follows the end of the gzip data", err);
        if (inflateReset(&f->stream) != Z_OK)
            return gzip_damaged(f, "a second stream cannot be started", err);
        f->between = false;
    }
    f->stream.next_out = data + *got;
    f->stream.avail_out = room;
    int result = inflate(&f->stream, Z_NO_FLUSH);
    *got += room - f->stream.avail_out;
    if (result == Z_STREAM_END)
        f->between = true;
    else if (result == Z_MEM_ERROR)
        return error_memory(err, 1 << 16);
    else if (result != Z_OK && result != Z_BUF_ERROR)
        return gzip_damaged(f, f->stream.msg ? f->stream.msg : "no deflate stream", err);
    return OK;
}

enum status gzip_read(struct gzip_file *f, void *data, size_t want, size_t *got, struct error *err)
{
    *got = 0;
    while (*got < want) {
        if (f->stream.avail_in == 0) {
            enum status status = gzip_fill(f, err);
            if (status)
                return status;
        }
        if (f->stream.avail_in > 0) {
            enum status status = gzip_step(f, data, want, got, err);
            if (status)
                return status;
            continue;
        }
        if (!f->compressed || f->between)
            break;

        /* The file is at its end, but inflate may still hold output. */
        size_t before = *got;
        enum status status = gzip_step(f, data, want, got, err);
        if (status)
            return status;
        if (*got == before && !f->between)
            return error_set(err, ERR_INPUT,
                             "%s: gzip data is cut off after %llu bytes (fetch the file again)",
                             f->path, (unsigned long long)f->loaded);
    }
    return OK;
}

enum status gzip_read_file(uint8_t **data, size_t *size, const char *path, size_t limit,
                           struct error *err)
{
    struct gzip_file *f;
    enum status status = gzip_open(&f, path, err);
    if (status)
        return status;

    /* Room for one byte more than may come shows whether there is more. */
    uint64_t first = f->compressed ? GZIP_BUFFER : gzip_most_bytes(f) + 1;
    size_t room = first > limit ? limit + 1 : (size_t)first;
    uint8_t *content = NULL;
    size_t used = 0;
    for (;;) {
        uint8_t *grown = realloc(content, room);
        if (!grown) {
            status = error_memory(err, room);
            break;
        }
        content = grown;
        size_t got;
        status = gzip_read(f, content + used, room - used, &got, err);
        used += got;
        if (status || used < room)
            break;
        if (used > limit) {
            status = error_set(err, ERR_INPUT,
                               "%s: %s more than the %llu bytes that such a file can have", path,
                               f->compressed ? "unpacks to" : "holds", (unsigned long long)limit);
            break;
        }
        room = room > limit / 2 ? limit + 1 : 2 * room;
    }
    gzip_close(f);
    if (status) {
        free(content);
        return status;
    }
    *data = content;
    *size = used;
    return OK;
}
