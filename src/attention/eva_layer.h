/* eva_layer.h - what `eva` and `flasheva` compute: softmax attention of each window of a map to its
 * own patches and to one pooled key and value of each group of patches. Zheng et al., "Efficient
 * Attention via Control Variates", arXiv:2302.04542.
 *
 * For a group P of patches with the means q_mean, k_mean, and with s = d^(-1/2):
 *     k_pool = LN(W_k k_mean + b_k),  q_pool = LN(W_q q_mean + b_q)
 *     omega  = 1/2 (q_pool + k_pool) + noise, standard normal, in training alone
 *     beta   = sum over m in P of r_m v_m,  r = softmax over m of s omega . k_m - s / 2 |k_m|^2
 * A patch of window E then sees softmax(s q . [k of E, k_pool of all groups] + [bias, 0]) and the
 * values [v of E, beta of all groups]. Prefix tokens are keys of all patches and see all tokens. */
#ifndef ATTENTION_EVA_LAYER_H
#define ATTENTION_EVA_LAYER_H

#include "attention/attention.h"

struct qkv;

struct eva {
    int window;
    bool overlap, rpe;
    int group, param, visibility;
    bool allow_gaps, mass_bias;
    int scale, group_mean;
    bool noise;
};

extern const struct field eva_fields[];
extern const struct field_need eva_needs[];

/* The functions of struct attn_variant. */
enum attn_placement eva_placement(const void *options, const struct attn_site *s);
enum status eva_check(const void *options, const struct attn_site *s, struct error *err);
struct tensor *eva_build(struct graph *g, const void *options, const struct attn_site *s,
                         struct tensor *x);
/* The mechanism without its projections.  t: (B, H, N, d) each. Returns (B, H, N, d). */
struct tensor *eva_attend(struct graph *g, const struct eva *o, const struct attn_site *s,
                          const struct qkv *t);

double eva_macs(const void *options, const struct attn_site *s);
bool eva_offsets(const void *options, const struct attn_site *s, struct attn_offsets *o);
void eva_adapt(const struct adapt *a, const void *options);

#endif
