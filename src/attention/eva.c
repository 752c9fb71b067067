/* eva.c - EVA: softmax attention to the patches of a window and to one pooled key and value of each
 * group of patches. Zheng et al., "Efficient Attention via Control Variates", arXiv:2302.04542;
 * what the equations are stands in eva_layer.h. */
#include "attention/eva_layer.h"

const struct attn_variant eva_attn = {
    .name = "eva",
    .summary = "a window exactly, pooled groups beside it",
    .paper = "arXiv:2302.04542",
    .complexity = "O(N (w^2 + C) D)",
    .fields = eva_fields,
    .options_size = sizeof(struct eva),
    .needs = eva_needs,
    .placement = eva_placement,
    .check = eva_check,
    .build = eva_build,
    .macs = eva_macs,
    .offsets = eva_offsets,
    .adapt = eva_adapt,
};
