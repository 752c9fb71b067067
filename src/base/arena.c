/* arena.c - chunks of growing size, each filled from its start. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGN = 16, ARENA_CHUNK = 1 << 16 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    _Alignas(ARENA_ALIGN) unsigned char data[];
};

void arena_init(struct arena *a)
{
    a->chunks = NULL;
}

void arena_free(struct arena *a)
{
    while (a->chunks) {
        struct arena_chunk *next = a->chunks->next;
        free(a->chunks);
        a->chunks = next;
    }
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    struct arena_chunk *chunk = a->chunks;
    if (!chunk || chunk->size - chunk->used < bytes) {
        size_t size = bytes > ARENA_CHUNK ? bytes : ARENA_CHUNK;
        chunk = calloc(1, sizeof *chunk + size);
        if (!chunk)
            return NULL;
        chunk->size = size;
        chunk->next = a->chunks;
        a->chunks = chunk;
    }
    void *piece = chunk->data + chunk->used;
    chunk->used += bytes;
    return piece;
}

char *arena_strdup(struct arena *a, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = arena_alloc(a, size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

char *arena_printf(struct arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : arena_alloc(a, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}
