/* name_index.h - a place for each of many names, found without going through all. */
#ifndef BASE_NAME_INDEX_H
#define BASE_NAME_INDEX_H

#include <stdbool.h>
#include <stddef.h>

struct name_entry {
    const char *name; /* NULL: free */
    int number;
};

/* Starts as zeros. */
struct name_index {
    struct name_entry *entries;
    size_t size; /* a power of two, or 0 */
    size_t used; /* at most half of it */
};

/* The number of the name that the first `length` characters are, or -1. */
int name_index_find(const struct name_index *x, const char *name, size_t length);

/* Adds a name, which is borrowed and not in it yet. False without memory. */
bool name_index_add(struct name_index *x, const char *name, int number);

void name_index_free(struct name_index *x);

#endif
