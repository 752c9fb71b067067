/* arena.h - memory that is handed out piece by piece and freed as a whole. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/status.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks;
};

void arena_init(struct arena *a);

/* Frees every piece. The arena may be used again. */
void arena_free(struct arena *a);

/* Zeroed memory for any type, 16-byte aligned, or NULL where none is left. */
void *arena_alloc(struct arena *a, size_t bytes);

/* Copies of text, or NULL where no memory is left. */
char *arena_strdup(struct arena *a, const char *text);
char *arena_printf(struct arena *a, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
