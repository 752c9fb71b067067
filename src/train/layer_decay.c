/* layer_decay.c - the layer of a parameter, by its name and its place. */
#include "train/layer_decay.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The block that a parameter belongs to, from 1; 0: none. *blocks: how many there are. */
static int block_of(const struct choice *model, const char *name, int *blocks)
{
    struct model_layer layer;
    int found = 0;
    for (*blocks = 0; model_of(model)->layer(model->options, *blocks, &layer); ++*blocks) {
        const char *end = strrchr(layer.scope, '.'); /* "blocks.0.attn" lies in the block */
        size_t length = end ? (size_t)(end - layer.scope) + 1 : strlen(layer.scope);
        if (strncmp(name, layer.scope, length) == 0)
            found = *blocks + 1;
    }
    return found;
}

/* Of the first parameter from number `i` on that lies in a block; 0: none does. */
static int block_behind(const struct params *p, const struct choice *model, int i, int *blocks)
{
    int block = 0;
    for (; i < p->count && !block; i++)
        block = block_of(model, p->list[i]->name, blocks);
    return block;
}

void layer_decay_rates(double *rates, const struct params *p, const struct choice *model,
                       double decay)
{
    int last = 0, blocks = 0; /* last: the block of the one before */
    for (int i = 0; i < p->count; i++) {
        const char *name = p->list[i]->name;
        int layer = block_of(model, name, &blocks);
        if (layer)
            last = layer;
        else if (last && !(layer = block_behind(p, model, i, &blocks)))
            layer = strncmp(name, "norm.", 5) == 0 ? blocks : blocks + 1;
        rates[i] = pow(decay, blocks + 1 - layer);
    }
}
