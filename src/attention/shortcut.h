/* shortcut.h - the value shortcut of QT-ViT, an option of linear attentions. */
#ifndef ATTENTION_SHORTCUT_H
#define ATTENTION_SHORTCUT_H

#include "attention/attention.h"

/* The option `shortcut` (bool) of a struct of options. */
#define FIELD_SHORTCUT(T, standard)                                                                \
    FIELD_BOOL(T, shortcut, standard,                                                              \
               "adds GELU of the batch-normalised values; batches then train whole")

/* y + gelu(batch norm(v)): the d channels of a head are those of all heads, with statistics over images,
 * heads and tokens, prefix tokens too. Makes shortcut.norm.{weight, bias, running_mean, running_var}
 * (d).  y, v: (B, H, N, d). Returns (B, N, H d), stored. QT-ViT (NeurIPS 2024), section 4.1. */
struct tensor *shortcut_add(struct graph *g, struct tensor *y, struct tensor *v);

/* The hook `adapt` of variants with the option: beside a trained attention the shortcut begins as
 * nothing, and learns from there. */
void shortcut_adapt(const struct adapt *a, const void *options);

#endif
