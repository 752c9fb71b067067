/* flasheva.c - EVA as softmax attention over a changed table of keys and values, computed tile by
 * tile without its scores in memory. "FlashEVA: Accelerating LLM inference via Efficient
 * Attention", arXiv:2511.00576. The paper is about causal language models; on a map it is EVA's
 * layer with the same parameters and noise. Here `eva` runs on the same kernel, so that both give
 * the same bits. */
#include "attention/eva_layer.h"

const struct attn_variant flasheva_attn = {
    .name = "flasheva",
    .summary = "EVA as attention over a changed table",
    .paper = "arXiv:2511.00576",
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
