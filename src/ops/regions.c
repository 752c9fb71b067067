/* regions.c - numbering the regions of each window. */
#include "ops/regions.h"

int region_numbers(unsigned char *number, const unsigned char *id, int tokens)
{
    int count = 0;
    for (int t = 0; t < tokens; t++) {
        int first = 0;
        while (id[first] != id[t])
            first++;
        number[t] = first < t ? number[first] : (unsigned char)count++;
    }
    return count;
}

const struct regions *regions_copy(struct graph *g, const char *op, const struct token_regions *r)
{
    if (!r || g->error.status)
        return NULL;
    if (r->windows < 1 || r->tokens < 1) {
        graph_fail(g, ERR_SHAPE, "%s: regions of %d windows of %d tokens", op, r->windows,
                   r->tokens);
        return NULL;
    }
    size_t windows = (size_t)r->windows, tokens = (size_t)r->tokens;
    struct regions *o = arena_alloc(&g->memory, sizeof *o);
    if (o) {
        o->windows = r->windows;
        o->tokens = r->tokens;
        o->number = arena_alloc(&g->memory, windows * tokens);
        o->count = arena_alloc(&g->memory, windows * sizeof *o->count);
    }
    if (!o || !o->number || !o->count) {
        graph_fail(g, ERR_MEMORY, "out of memory for the regions of %d windows", r->windows);
        return NULL;
    }
    for (size_t w = 0; w < windows; w++)
        o->count[w] = region_numbers(o->number + w * tokens, r->id + w * tokens, r->tokens);
    return o;
}

void infer_tokens(struct graph *g, struct node *n, const struct regions *o)
{
    const struct shape *x = &n->in[0]->shape;
    char text[64];
    if (x->rank < 2)
        graph_fail(g, ERR_SHAPE, "%s: %s, wanted (B, .., N, d)", n->op->name, shape_text(text, x));
    else if (o && (o->tokens != x->dim[x->rank - 2] || x->rank < 3 || x->dim[0] % o->windows))
        graph_fail(g, ERR_SHAPE, "%s: regions of %d windows of %d tokens for %s", n->op->name,
                   o->windows, o->tokens, shape_text(text, x));
}

struct token_groups regions_of(const struct regions *o, const struct tensor *x, size_t i)
{
    if (!o)
        return (struct token_groups){NULL, 1};
    size_t sample = i / (tensor_matrices(x) / (size_t)x->shape.dim[0]);
    size_t window = sample % (size_t)o->windows;
    return (struct token_groups){o->number + window * (size_t)o->tokens, o->count[window]};
}
