/* name_index.c - open addressing: a name lies in the first free entry from its hash on. */
#include "base/name_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* The entry of that name, or the free one where it would be. */
static struct name_entry *entry_of(const struct name_index *x, const char *name, size_t length)
{
    size_t at = (size_t)hash_fnv(HASH_START, name, length);
    for (;; at++) {
        struct name_entry *e = &x->entries[at & (x->size - 1)];
        if (!e->name || (strncmp(e->name, name, length) == 0 && !e->name[length]))
            return e;
    }
}

int name_index_find(const struct name_index *x, const char *name, size_t length)
{
    const struct name_entry *e = x->size ? entry_of(x, name, length) : NULL;
    return e && e->name ? e->number : -1;
}

static bool grow(struct name_index *x)
{
    struct name_index more = {.size = x->size ? 2 * x->size : 128, .used = x->used};
    more.entries = calloc(more.size, sizeof *more.entries);
    if (!more.entries)
        return false;
    for (size_t i = 0; i < x->size; i++)
        if (x->entries[i].name)
            *entry_of(&more, x->entries[i].name, strlen(x->entries[i].name)) = x->entries[i];
    free(x->entries);
    *x = more;
    return true;
}

bool name_index_add(struct name_index *x, const char *name, int number)
{
    if (2 * (x->used + 1) > x->size && !grow(x))
        return false;
    *entry_of(x, name, strlen(name)) = (struct name_entry){name, number};
    x->used++;
    return true;
}

void name_index_free(struct name_index *x)
{
    free(x->entries);
    *x = (struct name_index){.entries = NULL};
}
