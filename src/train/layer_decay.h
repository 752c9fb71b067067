/* layer_decay.h - learning rates that fall from the head down to the embedding, as in BEiT,
 * arXiv:2106.08254, section 3.2. */
#ifndef TRAIN_LAYER_DECAY_H
#define TRAIN_LAYER_DECAY_H

#include "graph/params.h"
#include "models/model.h"

/* rates[i] of parameter i of the list: decay^(L + 1 - l) with L blocks. The layer l is 0 before the
 * first block, that of the block from 1 on, and L + 1 in heads and in whatever else stands behind the
 * last block, where `norm` counts with the last block and patch merging with the block behind it, as in
 * timm. The parameters have been recorded in their order. */
void layer_decay_rates(double *rates, const struct params *p, const struct choice *model,
                       double decay);

#endif
