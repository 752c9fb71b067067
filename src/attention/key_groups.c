/* key_groups.c - groups of queries and their keys. Patterns that are equal are one pattern, so that
 * memory grows with the kinds of places on a map, and not with its size. */
#include "attention/key_groups.h"

#include <string.h>

#include "ops/ops.h"

static void fail_memory(struct graph *g)
{
    graph_fail(g, ERR_MEMORY, "out of memory for lists of keys");
}

void groups_begin(struct group_list *l, struct graph *g, const struct attn_site *s, int most)
{
    *l = (struct group_list){.g = g, .s = s, .maps = s->regions ? s->regions->windows : 1};
    l->most = l->maps * most + (s->prefix > 0);
    l->at = arena_alloc(&g->memory, (size_t)l->most * sizeof *l->at);
    if (!l->at)
        fail_memory(g);
}

struct tensor *groups_fold(const struct group_list *l, struct tensor *x)
{
    const int *dim = x->shape.dim;
    return l->maps == 1 ? x
                        : graph_reshape(l->g, x, SHAPE(dim[0] / l->maps, l->maps * dim[1], dim[2]));
}

struct tensor *groups_unfold(const struct group_list *l, struct tensor *x)
{
    const struct attn_site *s = l->s;
    return l->maps == 1 ? x : graph_reshape(l->g, x, SHAPE(s->B, s->N, s->D));
}

/* first, .. + the numbers of a list, behind `prefix` numbers 0, 1, ..; NULL without memory. */
static const int *copy_list(struct graph *g, int prefix, const int *list, int count, int first)
{
    int *copy = arena_alloc(&g->memory, (size_t)(prefix + count) * sizeof *copy + 1);
    for (int i = 0; copy && i < prefix; i++)
        copy[i] = i;
    for (int i = 0; copy && i < count; i++)
        copy[prefix + i] = first + list[i];
    return copy;
}

/* Room for the entries of a pattern, kept until one is made of it; NULL without memory. */
static int *entry_room(struct group_list *l, size_t size)
{
    if (!l->spare || l->spare_size < size) {
        l->spare = arena_alloc(&l->g->memory, size * sizeof *l->spare);
        l->spare_size = size;
    }
    return l->spare;
}

static bool is_apart(const struct attn_site *s, int map, int query, int key)
{
    const unsigned char *id = s->regions ? s->regions->id + (ptrdiff_t)map * s->N : NULL;
    return id && id[query] != id[key];
}

/* Fills in what a group adds. Returns whether it adds anything. */
static bool fill_entries(const struct group_list *l, int map, const struct key_group *group,
                         key_rule *rule, const void *context, int *entry)
{
    const int prefix = l->s->prefix;
    bool any = false;
    for (int i = 0; i < group->queries; i++) {
        for (int j = 0; j < prefix; j++)
            *entry++ = KEY_PLAIN;
        for (int j = 0; j < group->keys; j++, entry++) {
            int query = group->query[i], key = group->key[j];
            *entry = rule ? rule(context, query, key) : KEY_PLAIN;
            if (*entry != KEY_HIDDEN && is_apart(l->s, map, query, key))
                *entry = KEY_MASKED;
            any = any || *entry != KEY_PLAIN;
        }
        for (int j = 0; j < group->rows; j++)
            *entry++ = KEY_PLAIN;
    }
    return any;
}

/* What is added to each slot of a group for its row's sake; NULL where there is nothing. */
static const real *shifts(struct group_list *l, const struct key_group *group)
{
    if (!l->row_shift || !group->rows)
        return NULL;
    size_t tokens = (size_t)(l->s->prefix + group->keys), slots = tokens + (size_t)group->rows;
    real *shift = arena_alloc(&l->g->memory, slots * sizeof *shift);
    if (!shift) {
        fail_memory(l->g);
        return NULL;
    }
    for (size_t j = 0; j < slots; j++)
        shift[j] = j < tokens ? 0 : l->row_shift[group->row[j - tokens]];
    return shift;
}

static bool same_pattern(const struct key_pattern *a, const struct key_pattern *b)
{
    size_t slots = (size_t)a->slots, entries = (size_t)a->queries * slots;
    return a->queries == b->queries && a->slots == b->slots && !a->shift == !b->shift &&
           memcmp(a->entry, b->entry, entries * sizeof *a->entry) == 0 &&
           (!a->shift || memcmp(a->shift, b->shift, slots * sizeof *a->shift) == 0);
}

/* The pattern of a group, an earlier one where that is the same; NULL where nothing is added. */
static const struct key_pattern *find_pattern(struct group_list *l, int map,
                                              const struct key_group *group, key_rule *rule,
                                              const void *context)
{
    struct key_pattern p = {.queries = group->queries,
                            .slots = l->s->prefix + group->keys + group->rows};
    int *entry = entry_room(l, (size_t)p.queries * (size_t)p.slots);
    if (!entry) {
        fail_memory(l->g);
        return NULL;
    }
    bool any = fill_entries(l, map, group, rule, context, entry);
    p.entry = entry;
    p.shift = shifts(l, group);
    if (!any && !p.shift)
        return NULL;
    for (int i = l->count - 1; i >= 0; i--)
        if (l->at[i].pattern && same_pattern(l->at[i].pattern, &p))
            return l->at[i].pattern;
    l->spare = NULL;
    return graph_copy(l->g, &p, sizeof p);
}

void groups_add(struct group_list *l, int map, const struct key_group *group, key_rule *rule,
                const void *context)
{
    if (l->g->error.status)
        return;
    int first = map * l->s->N, prefix = l->s->prefix;
    struct key_group copy = *group;
    copy.pattern = find_pattern(l, map, group, rule, context);
    copy.query = copy_list(l->g, 0, group->query, group->queries, first);
    copy.key = copy_list(l->g, prefix, group->key, group->keys, first);
    copy.row = copy_list(l->g, 0, group->row, group->rows, 0);
    copy.keys += prefix;
    if (copy.query && copy.key && copy.row)
        l->at[l->count++] = copy;
    else
        fail_memory(l->g);
}

/* The prefix tokens, which see all tokens; numbers 0 .. N - 1 serve for all lists. */
static void add_prefix(struct group_list *l)
{
    const struct attn_site *s = l->s;
    const int *all = copy_list(l->g, s->N, NULL, 0, 0);
    struct key_group group = {.queries = s->prefix, .query = all, .key = all, .row = all};
    if (l->prefix_sees_rows)
        group.rows = s->N;
    else
        group.keys = s->N;
    if (all)
        l->at[l->count++] = group;
    else
        fail_memory(l->g);
}

struct tensor *groups_attend(struct group_list *l, const struct qkv *t, struct tensor *row_k,
                             struct tensor *row_v, struct tensor *table)
{
    if (l->g->error.status)
        return l->g->inert;
    if (l->s->prefix)
        add_prefix(l);
    const struct key_groups groups = {l->count, l->at};
    return op_sdpa_tables(l->g, t->q, t->k, t->v, row_k, row_v, table, attn_scale(l->s), &groups);
}

double groups_prefix_pairs(const struct attn_site *s)
{
    return (double)s->prefix * (s->N - s->prefix) + (double)s->prefix * s->N;
}

struct tensor *groups_bias(struct graph *g, const struct attn_site *s, int entries)
{
    return graph_param_flags(g, "relative_position_bias_table", SHAPE(entries, s->H),
                             INIT_TRUNCATED(0.02), 0);
}
