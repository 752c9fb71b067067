/* normalize.h - from 8-bit pixels to what a model reads: (pixel / 255 - mean) / std, channel by
 * channel. */
#ifndef DATA_NORMALIZE_H
#define DATA_NORMALIZE_H

#include "base/real.h"
#include "data/dataset.h"

struct normalization {
    int channels;
    double mean[DATA_MAX_CHANNELS], std[DATA_MAX_CHANNELS]; /* of pixels scaled to 0..1 */
};

/* What the config says, or where it says nothing the usual values of its format (those of grey for
 * each of three channels). ERR_INPUT where the lists have another number of entries than
 * `channels`, or a std is not above 0. */
MUST_USE enum status normalization_resolve(struct normalization *out,
                                           const struct data_config *config, int channels,
                                           struct error *err);

/* table[c * 256 + pixel] = the normalised value; channels * 256 entries. */
void normalization_table(const struct normalization *n, real *table);

#endif
