/* key_groups.h - who sees whom, for variants in which a query sees a list of keys: groups of
 * queries for op_sdpa_tables, made one by one at a site.
 *
 * Prefix tokens (class token, distillation token) are global: keys of every patch, without position
 * bias, and as queries they see all tokens. Tokens of different regions (site->regions) do not see
 * each other: the windows of an image are then maps of one sample, and a group belongs to one of
 * them.
 *
 *     struct group_list l;
 *     groups_begin(&l, g, s, most);
 *     struct qkv t = nn_qkv(g, "qkv", groups_fold(&l, x), s->H, s->qkv_bias);
 *     for each map, 0 .. l.maps - 1, and group: groups_add(&l, map, &group, rule, context);
 *     struct tensor *y = groups_attend(&l, &t, NULL, NULL, table);
 *     y = groups_unfold(&l, nn_linear_bias(g, "proj", op_merge_heads(g, y), ...)); */
#ifndef ATTENTION_KEY_GROUPS_H
#define ATTENTION_KEY_GROUPS_H

#include "attention/window.h"
#include "nn/nn.h"

struct group_list {
    struct graph *g;
    const struct attn_site *s;
    int maps;              /* of a sample */
    bool prefix_sees_rows; /* prefix tokens see the second table, with a row for each token, instead
                            */
    const real *row_shift; /* added to all scores of a row of the second table; NULL: nothing */
    struct key_group *at;
    int count, most;
    int *spare; /* room for a pattern of spare_size entries */
    size_t spare_size;
};

/* What is added to the score of a query and a key, both tokens of one map: KEY_PLAIN, KEY_HIDDEN,
 * or 1 + a row of the table of biases. Not asked about prefix tokens. */
typedef int key_rule(const void *context, int query, int key);

/* For at most `most` groups of a map. */
void groups_begin(struct group_list *l, struct graph *g, const struct attn_site *s, int most);

/* x: (B, rows, columns) with the maps of one image in one sample, and (B, N, D) back. */
struct tensor *groups_fold(const struct group_list *l, struct tensor *x);
struct tensor *groups_unfold(const struct group_list *l, struct tensor *x);

/* Appends a group of a map; its lists, which are copied, hold the numbers of the map's tokens,
 * without the prefix tokens, which are added to the keys. rule NULL: KEY_PLAIN. The pattern is set
 * here. */
void groups_add(struct group_list *l, int map, const struct key_group *group, key_rule *rule,
                const void *context);

/* Records the attention, prefix tokens included.  t: (B, H, N, d) each, of the folded x  row_k,
 * row_v, table: as in op_sdpa_tables. Returns (B, H, N, d). */
struct tensor *groups_attend(struct group_list *l, const struct qkv *t, struct tensor *row_k,
                             struct tensor *row_v, struct tensor *table);

/* Pairs that prefix tokens are in: each patch sees them, and they see all tokens. */
double groups_prefix_pairs(const struct attn_site *s);

/* The table of biases relative_position_bias_table (entries, H), without weight decay. */
struct tensor *groups_bias(struct graph *g, const struct attn_site *s, int entries);

#endif
