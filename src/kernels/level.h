/* level.h - the kernels chosen for this CPU, for the files of this room. */
#ifndef KERNELS_LEVEL_H
#define KERNELS_LEVEL_H

#include "kernels/tables.h"

struct kernels_level {
    const char *name;
    const struct kernels_elementwise *elementwise;
    const struct kernels_map *map; /* (MAP_COUNT) */
    const struct kernels_map *gelu;
    const struct kernels_columns *columns;
    const struct kernels_softmax *softmax;
    const struct kernels_norm *norm;
    const struct kernels_batch_norm *batch_norm;
    const struct kernels_tokens *tokens;
    const struct kernels_outer *outer;
    const struct kernels_sets *sets;
    const struct kernels_taps *taps;
    const struct kernels_wkv *wkv;
    const struct kernels_scan *scan;
    const struct kernels_optim *optim;
    const struct kernels_product *product;
    const struct kernels_epilogue *epilogue;
    const struct kernels_bf16 *bf16; /* NULL where there are no such instructions */
    const struct kernels_tile *tile;
};

/* The level that kernels_init chose; the portable one before. */
const struct kernels_level *kernels_level(void);

#endif
