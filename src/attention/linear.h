/* linear.h - what linear attentions share. In place of softmax(q k^T) stand products of features: with
 * a, f the features of queries and keys, y = a (f^T v) / den(a (f^T 1)). */
#ifndef ATTENTION_LINEAR_H
#define ATTENTION_LINEAR_H

#include "attention/attention.h"
#include "ops/ops.h"

extern const char *const linear_orders[]; /* names of enum linear_order, NULL-terminated */

/* The option `order` (int) of a struct of options. */
#define FIELD_ORDER(T)                                                                             \
    FIELD_ENUM(T, order, ORDER_AUTO, linear_orders,                                                \
               "which product comes first: keys with values (linear), queries with keys "          \
               "(quadratic), or what is cheaper for these tokens (auto); the results agree")

/* Heads of `width` columns each of a map of their own, without bias: (B, H, N, width), parameter
 * name.weight (H width, D).  x: (B, N, D). */
struct tensor *linear_heads(struct graph *g, const struct attn_site *s, const char *name,
                            struct tensor *x, int width);

/* x in real numbers: x itself, strided or not, where it is. */
struct tensor *linear_real(struct graph *g, struct tensor *x);

/* The core at this site, within its regions.  a, f: (B, H, N, .), real  v: (B, H, N, e), head by head.
 * `terms` says den, eps, per_key and order. Returns (B, H, N, e). */
struct tensor *linear_attend(struct graph *g, const struct attn_site *s, struct tensor *a,
                             struct tensor *f, struct tensor *v, struct linear_terms terms);

/* The output projection `proj`: heads (B, H, N, e), or (B, N, H e), to (B, N, D). */
struct tensor *linear_project(struct graph *g, const struct attn_site *s, struct tensor *y);

/* Multiply-adds of one image: four projections, and the linear order of `features` features a head with
 * a denominator or without: 4 N D^2 + 2 N features (D + H), or 4 N D^2 + 2 N features D. */
double linear_macs(const struct attn_site *s, double features, bool normalised);

#endif
