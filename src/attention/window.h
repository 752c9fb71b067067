/* window.h - windows of a map, regular or shifted: Liu et al., "Swin Transformer",
 * arXiv:2103.14030, section 3.2. Attention inside windows, as attention.c brings it about, and the
 * geometry for variants that cut a map themselves. */
#ifndef ATTENTION_WINDOW_H
#define ATTENTION_WINDOW_H

#include "attention/attention.h"

/* A map in raster order behind `prefix` tokens that are in no window, cut into windows that cover
 * it once. Keys may lie up to `overlap` rows and columns outside of a window, as far as the map
 * goes. */
struct token_windows {
    int grid[2], window[2], shift[2]; /* rows and columns; the window divides the grid */
    int prefix, overlap;
};

/* Rows first[0] .. end[0] - 1 and columns first[1] .. end[1] - 1 of a map. */
struct token_rect {
    int first[2], end[2];
};

/* The windows that the site's model has. */
struct token_windows windows_of_site(const struct attn_site *s);

int windows_count(const struct token_windows *w);

/* Window i in the map: the parts of it that touch each other there, 1 to 4, in the order of their
 * rows, then columns, in the window. Returns their number. Only shifted windows have several. */
int windows_parts(const struct token_windows *w, int i, struct token_rect part[4]);

/* Where the keys of such a part lie: overlap beside it, inside the map. */
struct token_rect windows_keys(const struct token_windows *w, const struct token_rect *part);

/* Pairs of a query and a key of the map that one of its parts makes, over all windows. */
double windows_pairs(const struct token_windows *w);

/* Writes the numbers of the tokens of a rectangle, in raster order. Returns how many. */
int windows_tokens(const struct token_windows *w, const struct token_rect *rect, int *token);

/* The side of square windows that 0 stands for: 7 where it divides both sides of the grid, else 4
 * up to sides of 16, else 8, else 6, else the largest common divisor of the sides up to 8. */
int windows_auto(const int grid[2]);

/* ERR_INPUT, "OPTION: ..", naming the sides that would do, unless `side` divides the grid. */
MUST_USE enum status windows_check_side(const char *option, int side, const int grid[2],
                                        struct error *err);

/* --- inside the windows of a site: for attention.c -------------------------------------------- */

/* The site of a variant inside the windows of `s`, for checks and costs: B times as many samples as
 * there are windows, the window as grid. No regions. */
struct attn_site window_site(const struct attn_site *s);

/* The same for recording: with regions where the windows are shifted, in the graph's arena. */
struct attn_site window_site_regions(struct graph *g, const struct attn_site *s);

/* Shifts the map cyclically up and left by s->shift and cuts it.  x: (B, N, D), raster order.
 * Returns (B windows, tokens of a window, D), windows in raster order, and so their tokens. */
struct tensor *window_cut(struct graph *g, const struct attn_site *s, struct tensor *x);

/* Undoes window_cut. */
struct tensor *window_join(struct graph *g, const struct attn_site *s, struct tensor *x);

#endif
