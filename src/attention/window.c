/* window.c - cutting a map into windows and putting it together again.
 *
 * After the cyclic shift a window at the border holds tokens of up to four parts of the map that do
 * not touch: these are its regions. What came over the border, the last `shift` rows or columns of
 * the shifted map, is one side of it; the authors' code has a third part, rows or columns of
 * windows in which nothing came over the border, and which therefore makes no difference. */
#include "attention/window.h"

#include <stdio.h>

#include "ops/ops.h"

struct token_windows windows_of_site(const struct attn_site *s)
{
    return (struct token_windows){
        .grid = {s->grid[0], s->grid[1]},
        .window = {s->window[0], s->window[1]},
        .shift = {s->shift[0], s->shift[1]},
        .prefix = s->prefix,
    };
}

int windows_count(const struct token_windows *w)
{
    return w->grid[0] / w->window[0] * (w->grid[1] / w->window[1]);
}

/* --- the map ---------------------------------------------------------------------------------- */

/* Rows, or columns, of window number i along the axis: one or two spans of the map. */
struct span {
    int first, end;
};

static int axis_spans(const struct token_windows *w, int axis, int i, struct span span[2])
{
    int side = w->grid[axis], size = w->window[axis], first = i * size + w->shift[axis];
    if (first + size <= side) {
        span[0] = (struct span){first, first + size};
        return 1;
    }
    span[0] = (struct span){first, side};
    span[1] = (struct span){0, first + size - side};
    return 2;
}

int windows_parts(const struct token_windows *w, int i, struct token_rect part[4])
{
    struct span rows[2], columns[2];
    int across = w->grid[1] / w->window[1], count = 0;
    int down = axis_spans(w, 0, i / across, rows), right = axis_spans(w, 1, i % across, columns);
    for (int y = 0; y < down; y++)
        for (int x = 0; x < right; x++)
            part[count++] = (struct token_rect){{rows[y].first, columns[x].first},
                                                {rows[y].end, columns[x].end}};
    return count;
}

/* The span with its overlap. */
static struct span keys_of(const struct token_windows *w, int axis, struct span span)
{
    int first = span.first - w->overlap, end = span.end + w->overlap;
    return (struct span){first > 0 ? first : 0, end < w->grid[axis] ? end : w->grid[axis]};
}

struct token_rect windows_keys(const struct token_windows *w, const struct token_rect *part)
{
    struct token_rect keys;
    for (int axis = 0; axis < 2; axis++) {
        struct span span = keys_of(w, axis, (struct span){part->first[axis], part->end[axis]});
        keys.first[axis] = span.first;
        keys.end[axis] = span.end;
    }
    return keys;
}

double windows_pairs(const struct token_windows *w)
{
    double pairs = 1;
    for (int axis = 0; axis < 2; axis++) {
        double sum = 0;
        for (int i = 0; i < w->grid[axis] / w->window[axis]; i++) {
            struct span span[2];
            int count = axis_spans(w, axis, i, span);
            for (int k = 0; k < count; k++) {
                struct span keys = keys_of(w, axis, span[k]);
                sum += (double)(span[k].end - span[k].first) * (keys.end - keys.first);
            }
        }
        pairs *= sum;
    }
    return pairs;
}

int windows_tokens(const struct token_windows *w, const struct token_rect *rect, int *token)
{
    int count = 0;
    for (int y = rect->first[0]; y < rect->end[0]; y++)
        for (int x = rect->first[1]; x < rect->end[1]; x++)
            token[count++] = w->prefix + y * w->grid[1] + x;
    return count;
}

/* --- sides of windows ------------------------------------------------------------------------- */

static bool divides(int side, const int grid[2])
{
    return grid[0] % side == 0 && grid[1] % side == 0;
}

int windows_auto(const int grid[2])
{
    static const int usual[] = {7, 4, 8, 6};
    int longest = grid[0] > grid[1] ? grid[0] : grid[1], side = 8;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (divides(usual[i], grid) && (usual[i] != 4 || longest <= 16))
            return usual[i];
    while (!divides(side, grid))
        side--;
    return side;
}

enum status windows_check_side(const char *option, int side, const int grid[2], struct error *err)
{
    char fit[96] = "";
    if (divides(side, grid))
        return OK;
    for (int i = 1, at = 0; i <= grid[0] && at < (int)sizeof fit - 8; i++)
        if (divides(i, grid))
            at += snprintf(fit + at, sizeof fit - (size_t)at, at ? ", %d" : "%d", i);
    return error_set(err, ERR_INPUT, "%s: %d does not divide a map of %d x %d (of %s each would)",
                     option, side, grid[0], grid[1], fit);
}

/* --- inside windows --------------------------------------------------------------------------- */

struct attn_site window_site(const struct attn_site *s)
{
    const struct token_windows w = windows_of_site(s);
    struct attn_site inside = *s;
    inside.B = s->B * windows_count(&w);
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

/* Whether a row or column of the shifted map came over the border. */
static bool is_wrapped(const struct attn_site *s, int axis, int i)
{
    return i >= s->grid[axis] - s->shift[axis];
}

struct attn_site window_site_regions(struct graph *g, const struct attn_site *s)
{
    struct attn_site inside = window_site(s);
    if (!s->shift[0] && !s->shift[1])
        return inside;
    unsigned char *id = arena_alloc(&g->memory, (size_t)s->N);
    const struct token_regions regions = {.windows = s->N / inside.N, .tokens = inside.N, .id = id};
    inside.regions = id ? graph_copy(g, &regions, sizeof regions) : NULL;
    if (!inside.regions) {
        graph_fail(g, ERR_MEMORY, "out of memory for the regions of windows");
        return inside;
    }
    for (int t = 0; t < s->N; t++) {
        int at[2];
        place(s, t, at);
        id[t] = (unsigned char)(2 * is_wrapped(s, 0, at[0]) + is_wrapped(s, 1, at[1]));
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
