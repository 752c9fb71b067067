/* window.h - attention inside windows of a map, regular or shifted: Liu et al., "Swin
 * Transformer", arXiv:2103.14030, section 3.2. For attention.c alone: variants see one window as
 * their whole map. */
#ifndef ATTENTION_WINDOW_H
#define ATTENTION_WINDOW_H

#include "attention/attention.h"

/* Windows of one map. */
int window_count(const struct attn_site *s);

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
