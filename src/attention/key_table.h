/* key_table.h - the absolute position embedding of QT-ViT's keys, an option of linear attentions. */
#ifndef ATTENTION_KEY_TABLE_H
#define ATTENTION_KEY_TABLE_H

#include "attention/attention.h"
#include "ops/ops.h"

/* The option `ape` (bool) of a struct of options. */
#define FIELD_APE(T, standard)                                                                     \
    FIELD_BOOL(T, ape, standard, "adds a learned number for each patch and channel to the keys")

/* The keys of patches with their rows of the learned table `k_pos` (D, rows, columns), zero at first;
 * prefix tokens have none. Makes the parameter.  k: (B, H, N, d). Returns the same shape and type.
 * QT-ViT (NeurIPS 2024), section 4.1. */
struct tensor *key_table_add(struct graph *g, const struct attn_site *s, struct tensor *k);

#endif
