/* sizes.h - checks and numbers that several backbones share. */
#ifndef MODELS_SIZES_H
#define MODELS_SIZES_H

#include "base/status.h"

/* The divisor of n next to `wanted`, for hints. */
int model_divisor_near(int n, int wanted);

/* ERR_INPUT "patch_size: WHAT (HINT)" unless patches tile the image. Both are height and width. */
MUST_USE enum status model_check_patches(const int image[2], const int patch[2], struct error *err);

/* ERR_INPUT "image_size: WHAT (HINT)" where a map of so many tokens of width D is too large. */
MUST_USE enum status model_check_map(const int grid[2], int D, struct error *err);

/* ERR_INPUT "mlp_ratio: WHAT" unless the hidden width of the MLP is in 1 .. 2^20. */
MUST_USE enum status model_check_mlp(double ratio, int D, struct error *err);

/* Hidden width of an MLP. */
int model_mlp_width(double ratio, int D);

/* Drop path grows linearly over the blocks: 0 in the first, `rate` in the last (in the only one). */
double model_drop_path(double rate, int block, int blocks);

#endif
