/* neighbourhood.c - sliding windows. Queries of a small square tile are a group: its keys are what
 * one of them sees, and the others' are hidden from the rest. */
#include "attention/neighbourhood.h"

/* Patches along a tile: more waste pairs that are computed and hidden, fewer gather the same keys
 * more often. */
enum { TILE = 4 };

static int length(const struct neighbourhood *n, int axis)
{
    return n->kernel < n->grid[axis] ? n->kernel : n->grid[axis];
}

/* The rows or columns that one of them sees: first .. end - 1. */
struct span {
    int first, end;
};

static struct span seen(const struct neighbourhood *n, int axis, int at)
{
    int side = n->grid[axis], size = length(n, axis);
    int first = at - n->kernel / 2, end = at + n->kernel / 2 + 1;
    if (n->clip)
        return (struct span){first > 0 ? first : 0, end < side ? end : side};
    first = first > 0 ? first : 0;
    first = first < side - size ? first : side - size;
    return (struct span){first, first + size};
}

int neighbourhood_entries(const struct neighbourhood *n)
{
    return (2 * length(n, 0) - 1) * (2 * length(n, 1) - 1);
}

double neighbourhood_pairs(const struct neighbourhood *n)
{
    double pairs = 1;
    for (int axis = 0; axis < 2; axis++) {
        double sum = 0;
        for (int i = 0; i < n->grid[axis]; i++)
            sum += seen(n, axis, i).end - seen(n, axis, i).first;
        pairs *= sum;
    }
    return pairs;
}

static int tiles(const struct neighbourhood *n, int axis)
{
    return (n->grid[axis] + TILE - 1) / TILE;
}

int neighbourhood_groups(const struct neighbourhood *n)
{
    return tiles(n, 0) * tiles(n, 1);
}

/* The entry of a pair along one axis, -1 where the query does not see the key. */
static int offset(const struct neighbourhood *n, int axis, int query, int key)
{
    struct span span = seen(n, axis, query);
    return key < span.first || key >= span.end ? -1 : key - query + length(n, axis) - 1;
}

static int entry_of(const void *context, int query, int key)
{
    const struct neighbourhood *n = context;
    int columns = n->grid[1];
    query -= n->prefix;
    key -= n->prefix;
    int row = offset(n, 0, query / columns, key / columns);
    int column = offset(n, 1, query % columns, key % columns);
    if (row < 0 || column < 0)
        return KEY_HIDDEN;
    return n->bias ? row * (2 * length(n, 1) - 1) + column + 1 : KEY_PLAIN;
}

/* Tile number i, and what its patches see. */
static void tile_at(const struct neighbourhood *n, int i, struct token_rect *tile,
                    struct token_rect *keys)
{
    int number[2] = {i / tiles(n, 1), i % tiles(n, 1)};
    for (int axis = 0; axis < 2; axis++) {
        int first = number[axis] * TILE, end = first + TILE;
        tile->first[axis] = first;
        tile->end[axis] = end < n->grid[axis] ? end : n->grid[axis];
        keys->first[axis] = seen(n, axis, first).first;
        keys->end[axis] = seen(n, axis, tile->end[axis] - 1).end;
    }
}

void neighbourhood_add(struct group_list *l, const struct neighbourhood *n)
{
    const struct token_windows map = {.grid = {n->grid[0], n->grid[1]}, .prefix = n->prefix};
    size_t N = (size_t)n->grid[0] * (size_t)n->grid[1];
    int *token = arena_alloc(&l->g->memory, (TILE * TILE + N) * sizeof *token);
    if (!token) {
        graph_fail(l->g, ERR_MEMORY, "out of memory for neighbourhoods");
        return;
    }
    int groups = neighbourhood_groups(n);
    for (int i = 0; i < l->maps * groups; i++) {
        struct token_rect tile, keys;
        struct key_group group = {.query = token, .key = token + TILE * TILE};
        tile_at(n, i % groups, &tile, &keys);
        group.queries = windows_tokens(&map, &tile, token);
        group.keys = windows_tokens(&map, &keys, token + TILE * TILE);
        groups_add(l, i / groups, &group, entry_of, n);
    }
}

enum status neighbourhood_check(const char *option, const struct neighbourhood *n,
                                const struct attn_site *s, struct error *err)
{
    if (!s->window[0] || length(n, 0) < n->grid[0] || length(n, 1) < n->grid[1])
        return OK;
    int longer = n->grid[0] > n->grid[1] ? n->grid[0] : n->grid[1];
    return error_set(err, ERR_INPUT,
                     "%s: %d x %d patches are all of a window of %d x %d, where this is "
                     "standard attention (%smore patches in a window would differ)",
                     option, n->kernel, n->kernel, n->grid[0], n->grid[1],
                     longer > 3 ? "a smaller neighbourhood or " : "");
}
