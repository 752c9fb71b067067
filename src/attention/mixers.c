/* mixers.c - checks and places that token mixers share. */
#include "attention/mixers.h"

enum status mixer_check_prefix(const char *name, const struct attn_site *s, struct error *err)
{
    if (!s->prefix)
        return OK;
    return error_set(err, ERR_INPUT,
                     "name: %s has no rule for a class token, which would mix with nothing (set "
                     "\"pool\": \"mean\" in the model)",
                     name);
}

enum status mixer_check_odd(const char *option, int size, struct error *err)
{
    if (size == 1)
        return error_set(err, ERR_INPUT, "%s: 1 patch sees itself alone (3 and 5 see others)",
                         option);
    if (size % 2)
        return OK;
    return error_set(err, ERR_INPUT, "%s: %d has no middle (%d and %d have one)", option, size,
                     size - 1, size + 1);
}

struct token_map mixer_map(const struct attn_site *s)
{
    return (struct token_map){
        .grid = {s->grid[0], s->grid[1]},
        .prefix = s->prefix,
        .regions = s->regions,
    };
}

struct token_sequence mixer_sequence(struct graph *g, const struct attn_site *s, int patches)
{
    struct token_sequence sequence = {.regions = s->regions};
    if (!s->prefix)
        return sequence;
    int *order = arena_alloc(&g->memory, (size_t)s->N * sizeof *order);
    if (!order) {
        graph_fail(g, ERR_MEMORY, "out of memory for the order of %d tokens", s->N);
        return sequence;
    }
    for (int i = 0; i < s->N; i++)
        order[i] = i < patches ? s->prefix + i : i < patches + s->prefix ? i - patches : i;
    sequence.order = order;
    return sequence;
}
