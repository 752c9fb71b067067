/* eva_geometry.c - rectangles of a map: parts of windows, groups, and what groups leave beside
 * them. */
#include "attention/eva_geometry.h"

static int area(const struct token_rect *r)
{
    int rows = r->end[0] - r->first[0], columns = r->end[1] - r->first[1];
    return rows > 0 && columns > 0 ? rows * columns : 0;
}

static struct token_rect common(const struct token_rect *a, const struct token_rect *b)
{
    struct token_rect c;
    for (int axis = 0; axis < 2; axis++) {
        c.first[axis] = a->first[axis] > b->first[axis] ? a->first[axis] : b->first[axis];
        c.end[axis] = a->end[axis] < b->end[axis] ? a->end[axis] : b->end[axis];
    }
    return c;
}

static bool holds(const struct token_rect *r, int row, int column)
{
    return row >= r->first[0] && row < r->end[0] && column >= r->first[1] && column < r->end[1];
}

/* The patches of group c. */
static struct token_rect group_at(const struct eva_geometry *e, int c)
{
    struct token_rect part[4];
    windows_parts(&e->groups, c, part);
    return windows_keys(&e->groups, part);
}

/* What a part with these keys sees of a group: all of it, nothing, or the rest beside the keys. */
enum sight { WHOLE, NOTHING, REST };

static enum sight sight_of(const struct eva_geometry *e, const struct token_rect *keys,
                           const struct token_rect *group)
{
    struct token_rect both = common(keys, group);
    if (e->visibility == EVA_ALL || area(&both) == 0)
        return WHOLE;
    return e->visibility == EVA_REMAINDER && area(&both) < area(group) ? REST : NOTHING;
}

/* The sets while they are made; without memory they are only counted. */
struct maker {
    int count, members;
    int *first, *token, *group;
};

/* The tokens of group c but for those of `keys` (NULL: all of them). */
static void make_set(struct maker *m, const struct eva_geometry *e, int c,
                     const struct token_rect *keys)
{
    struct token_rect group = group_at(e, c);
    for (int y = group.first[0]; y < group.end[0]; y++)
        for (int x = group.first[1]; x < group.end[1]; x++) {
            if (keys && holds(keys, y, x))
                continue;
            if (m->token)
                m->token[m->members] = e->groups.prefix + y * e->groups.grid[1] + x;
            m->members++;
        }
    if (m->token) {
        m->group[m->count] = c;
        m->first[m->count + 1] = m->members;
    }
    m->count++;
}

/* Makes the sets and visits the parts; `set` has room for one number a group. Returns the pairs of
 * queries and sets. */
static double arrange(struct maker *m, const struct eva_geometry *e, int *set, eva_visit *visit,
                      void *context)
{
    double pairs = 0;
    int groups = windows_count(&e->groups);
    for (int c = 0; c < groups; c++)
        make_set(m, e, c, NULL);
    for (int i = 0; i < windows_count(&e->windows); i++) {
        struct token_rect parts[4];
        int count = windows_parts(&e->windows, i, parts);
        for (int k = 0; k < count; k++) {
            struct eva_part part = {
                .queries = parts[k], .keys = windows_keys(&e->windows, &parts[k]), .set = set};
            for (int c = 0; c < groups; c++) {
                struct token_rect group = group_at(e, c);
                enum sight sight = sight_of(e, &part.keys, &group);
                if (sight == NOTHING)
                    continue;
                if (set)
                    set[part.sets] = sight == WHOLE ? c : m->count;
                part.sets++;
                if (sight == REST)
                    make_set(m, e, c, &part.keys);
            }
            pairs += (double)area(&part.queries) * part.sets;
            if (visit)
                visit(context, &part);
        }
    }
    return pairs;
}

struct eva_counts eva_count(const struct eva_geometry *e)
{
    struct maker m = {.count = 0};
    double pairs = arrange(&m, e, NULL, NULL, NULL);
    return (struct eva_counts){m.count, m.members, pairs};
}

bool eva_arrange(struct graph *g, const struct eva_geometry *e, struct eva_sets *sets,
                 eva_visit *visit, void *context)
{
    struct maker counted = {.count = 0}, m = {.count = 0};
    arrange(&counted, e, NULL, NULL, NULL);
    size_t count = (size_t)counted.count, members = (size_t)counted.members;
    m.first = arena_alloc(&g->memory, (count + 1) * sizeof *m.first);
    m.token = arena_alloc(&g->memory, members * sizeof *m.token);
    m.group = arena_alloc(&g->memory, count * sizeof *m.group);
    int *set = arena_alloc(&g->memory, (size_t)windows_count(&e->groups) * sizeof *set);
    if (!m.first || !m.token || !m.group || !set) {
        graph_fail(g, ERR_MEMORY, "out of memory for %zu sets of tokens", count);
        return false;
    }
    m.first[0] = 0;
    arrange(&m, e, set, visit, context);
    *sets = (struct eva_sets){{m.count, m.first, m.token}, m.group};
    return !g->error.status;
}

/* Whether a token is seen in some group by a part with these keys. */
static bool is_pooled(const struct eva_geometry *e, const struct token_rect *keys, int row,
                      int column)
{
    for (int c = 0; c < windows_count(&e->groups); c++) {
        struct token_rect group = group_at(e, c);
        if (holds(&group, row, column) && sight_of(e, keys, &group) != NOTHING)
            return true;
    }
    return false;
}

/* Tokens outside of the keys that no group shows. */
static int gaps_of(const struct eva_geometry *e, const struct token_rect *keys)
{
    int gaps = 0;
    for (int y = 0; y < e->groups.grid[0]; y++)
        for (int x = 0; x < e->groups.grid[1]; x++)
            gaps += !holds(keys, y, x) && !is_pooled(e, keys, y, x);
    return gaps;
}

int eva_gaps(const struct eva_geometry *e, int *outside)
{
    int most = 0, tokens = e->groups.grid[0] * e->groups.grid[1];
    *outside = 0;
    for (int i = 0; i < windows_count(&e->windows); i++) {
        struct token_rect part[4];
        int count = windows_parts(&e->windows, i, part);
        for (int k = 0; k < count; k++) {
            struct token_rect keys = windows_keys(&e->windows, &part[k]);
            int gaps = gaps_of(e, &keys);
            if (gaps > most) {
                most = gaps;
                *outside = tokens - area(&keys);
            }
        }
    }
    return most;
}
