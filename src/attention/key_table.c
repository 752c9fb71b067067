/* key_table.c - a learned table of positions, added to keys. */
#include "attention/key_table.h"

struct tensor *key_table_add(struct graph *g, const struct attn_site *s, struct tensor *k)
{
    struct tensor *table = graph_param(g, "k_pos", SHAPE(s->D, s->grid[0], s->grid[1]), INIT_ZEROS);
    return op_add_broadcast(g, k, op_head_table(g, table, s->H), s->prefix);
}
