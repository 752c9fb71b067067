/* window.c - cutting a map into windows and putting it together again.
 *
 * After the cyclic shift a window at the border holds tokens of up to four parts of the map that
 * do not touch: these are its regions. Along an axis of length L with windows w and shift s the
 * parts are 0 .. L - w - 1, L - w .. L - s - 1 and L - s .. L - 1 of the shifted map, as in the
 * authors' code. */
#include "attention/window.h"

#include "ops/ops.h"

int window_count(const struct attn_site *s)
{
    return s->grid[0] / s->window[0] * (s->grid[1] / s->window[1]);
}

struct attn_site window_site(const struct attn_site *s)
{
    struct attn_site inside = *s;
    inside.B = s->B * window_count(s);
    inside.N = s->window[0] * s->window[1];
    for (int axis = 0; axis < 2; axis++) {
        inside.grid[axis] = s->window[axis];
        inside.shift[axis] = 0;
    }
    return inside;
}

/* Row and column, in the shifted map, of the t-th token when they are counted window by window. */
static void place(const struct attn_site *s, int t, int at[2])
{
    int tokens = s->window[0] * s->window[1], across = s->grid[1] / s->window[1];
    int window = t / tokens, token = t % tokens;
    at[0] = window / across * s->window[0] + token / s->window[1];
    at[1] = window % across * s->window[1] + token % s->window[1];
}

/* The part of its axis in which a row or column of the shifted map lies. */
static int part(const struct attn_site *s, int axis, int i)
{
    if (!s->shift[axis] || i < s->grid[axis] - s->window[axis])
        return 0;
    return i < s->grid[axis] - s->shift[axis] ? 1 : 2;
}

struct attn_site window_site_regions(struct graph *g, const struct attn_site *s)
{
    struct attn_site inside = window_site(s);
    if (!s->shift[0] && !s->shift[1])
        return inside;
    unsigned char *id = arena_alloc(&g->memory, (size_t)s->N);
    const struct token_regions regions = {.windows = window_count(s), .tokens = inside.N, .id = id};
    inside.regions = id ? graph_copy(g, &regions, sizeof regions) : NULL;
    if (!inside.regions) {
        graph_fail(g, ERR_MEMORY, "out of memory for the regions of windows");
        return inside;
    }
    for (int t = 0; t < s->N; t++) {
        int at[2];
        place(s, t, at);
        id[t] = (unsigned char)(3 * part(s, 0, at[0]) + part(s, 1, at[1]));
    }
    return inside;
}

/* from[t]: number in the map of the t-th token of the windows, or with `undo` the other way round.
 * False where all tokens stay where they are. */
static bool order(const struct attn_site *s, bool undo, int *from)
{
    bool moves = false;
    for (int t = 0; t < s->N; t++) {
        int at[2];
        place(s, t, at);
        int row = (at[0] + s->shift[0]) % s->grid[0], column = (at[1] + s->shift[1]) % s->grid[1];
        int token = row * s->grid[1] + column;
        moves = moves || token != t;
        if (undo)
            from[token] = t;
        else
            from[t] = token;
    }
    return moves;
}

static struct tensor *reorder(struct graph *g, const struct attn_site *s, bool undo,
                              struct tensor *x)
{
    int *from = arena_alloc(&g->memory, (size_t)s->N * sizeof *from);
    if (!from)
        return graph_fail(g, ERR_MEMORY, "out of memory for the order of tokens in windows");
    return order(s, undo, from) ? op_permute_tokens(g, x, from, s->N) : x;
}

struct tensor *window_cut(struct graph *g, const struct attn_site *s, struct tensor *x)
{
    struct attn_site inside = window_site(s);
    x = reorder(g, s, false, x);
    return graph_reshape(g, x, SHAPE(inside.B, inside.N, s->D));
}

struct tensor *window_join(struct graph *g, const struct attn_site *s, struct tensor *x)
{
    x = graph_reshape(g, x, SHAPE(s->B, s->N, s->D));
    return reorder(g, s, true, x);
}
