/* sequences.c - lists of the tokens of each sequence. */
#include "ops/sequences.h"

#include "kernels/kernels.h"
#include "ops/regions.h"

static bool is_permutation(struct graph *g, const int *order, int tokens)
{
    unsigned char *seen = arena_alloc(&g->memory, (size_t)tokens);
    for (int t = 0; seen && t < tokens; t++) {
        if (order[t] < 0 || order[t] >= tokens || seen[order[t]])
            return false;
        seen[order[t]] = 1;
    }
    return seen != NULL;
}

const struct sequences *sequences_create(struct graph *g, const char *op, int tokens,
                                         const struct token_sequence *s)
{
    const struct regions *regions = regions_copy(g, op, s->regions);
    if (!g->error.status && (tokens < 1 || (regions && regions->tokens != tokens) ||
                             (s->order && !is_permutation(g, s->order, tokens))))
        graph_fail(g, ERR_SHAPE, "%s: %d tokens in a sequence of others, or regions of %d", op,
                   tokens, regions ? regions->tokens : tokens);
    if (g->error.status)
        return NULL;
    struct sequences o = {.windows = regions ? regions->windows : 1, .tokens = tokens};
    size_t all = (size_t)o.windows * (size_t)tokens;
    o.at = arena_alloc(&g->memory, all * sizeof *o.at);
    o.length = arena_alloc(&g->memory, all * sizeof *o.length);
    if (!o.at || !o.length) {
        graph_fail(g, ERR_MEMORY, "out of memory for sequences of %d tokens", tokens);
        return NULL;
    }
    for (int w = 0; w < o.windows; w++) {
        size_t first = (size_t)w * (size_t)tokens, end = first;
        for (int r = 0; r < (regions ? regions->count[w] : 1); r++) {
            size_t start = end;
            for (int i = 0; i < tokens; i++) {
                int place = s->reversed ? tokens - 1 - i : i;
                int t = s->order ? s->order[place] : place;
                if (!regions || regions->number[first + (size_t)t] == r)
                    o.at[end++] = t;
            }
            o.length[first + (size_t)r] = (int)(end - start);
            o.longest = (int)(end - start) > o.longest ? (int)(end - start) : o.longest;
        }
    }
    return graph_copy(g, &o, sizeof o);
}

void infer_sequences(struct graph *g, struct node *n, const struct sequences *o, int i)
{
    const struct shape *x = &n->in[i]->shape;
    if (x->rank != 3 || x->dim[1] != o->tokens || x->dim[0] % o->windows) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "%s: sequences in %d windows of %d tokens for %s", n->op->name,
                   o->windows, o->tokens, shape_text(text, x));
    }
}

bool sequences_next(const struct sequences *o, int b, struct row_sequence *at)
{
    size_t first = (size_t)(b % o->windows) * (size_t)o->tokens;
    const int *length = o->length + first, *end = o->at + first + o->tokens;
    const int *next = at->count ? at->at + at->count : o->at + first;
    const int *from = o->at + first;
    while (from < next)
        from += *length++;
    *at = (struct row_sequence){next, next < end ? (size_t)*length : 0};
    return at->count > 0;
}
