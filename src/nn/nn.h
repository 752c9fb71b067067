/* nn.h - the pieces of a network that have parameters. Names are timm's: a piece `name` under
 * the scope "blocks.0" makes the parameters "blocks.0.name.weight" and "blocks.0.name.bias".
 *
 * Initial values: normal, deviation 0.02, cut off at +-2, for weights; zero for biases. */
#ifndef NN_NN_H
#define NN_NN_H

#include "ops/ops.h"

/* x W^T + bias.  x: (.., in). Returns (.., out). */
struct tensor *nn_linear(struct graph *g, const char *name, struct tensor *x, int out);

/* The same, without bias where `bias` is false. */
struct tensor *nn_linear_bias(struct graph *g, const char *name, struct tensor *x, int out,
                              bool bias);

/* The classifier: x W^T + bias, real in every precision.  x: (B, D). Returns (B, classes). */
struct tensor *nn_head(struct graph *g, const char *name, struct tensor *x, int classes);

/* Layer normalisation with weight 1 and bias 0 to start with.  x: (.., D). */
struct tensor *nn_layer_norm(struct graph *g, const char *name, struct tensor *x, double eps);

/* The same, traced under its name: a place in the model that others want to see. */
struct tensor *nn_layer_norm_traced(struct graph *g, const char *name, struct tensor *x, double eps);

/* Batch normalisation with weight 1 and bias 0 to start with, eps 1e-5, and the running statistics
 * running_mean, running_var, which follow with momentum 0.1: PyTorch's.  x: (B, .., D), 2 to 4 axes. */
struct tensor *nn_batch_norm(struct graph *g, const char *name, struct tensor *x);

/* Learned factor for each column, all `start` in the beginning: parameter name.gamma (D). */
struct tensor *nn_layer_scale(struct graph *g, const char *name, struct tensor *x, double start);

/* One linear map to `count` times the width of x, cut into heads: heads[i] is (B, H, N, D / H),
 * a view of the i-th D columns.  x: (B, N, D). count: at most 3. */
void nn_heads(struct graph *g, const char *name, struct tensor *x, int count, int H, bool bias,
              struct tensor *heads[]);

struct qkv {
    struct tensor *q, *k, *v; /* each (B, H, N, d), views of one buffer (B, N, 3 D) */
};

/* Queries, keys and values from one linear map, in this order. */
struct qkv nn_qkv(struct graph *g, const char *name, struct tensor *x, int H, bool bias);

/* Dropout with the noise of the scope `name`. */
struct tensor *nn_dropout(struct graph *g, const char *name, struct tensor *x, double p);

/* Stochastic depth at the end of a branch, with the noise of the scope `name`. */
struct tensor *nn_drop_path(struct graph *g, const char *name, struct tensor *x, double p);

/* fc2(gelu(fc1(x))) with dropout behind both maps.  x: (.., D). Returns (.., D).
 * Dosovitskiy et al., arXiv:2010.11929, section 3.1. */
struct tensor *nn_mlp(struct graph *g, const char *name, struct tensor *x, int hidden,
                      double dropout);

/* Images to tokens: a convolution whose kernel and stride are the patch; weight (D, C, h, w).
 * Dosovitskiy et al., arXiv:2010.11929, eq. 1.  x: (B, C, H, W). Returns (B, N, D), raster order. */
struct tensor *nn_patch_embed(struct graph *g, const char *name, struct tensor *x,
                              const int patch[2], int D);

/* The same with a layer normalisation of the tokens, name.norm: Liu et al., arXiv:2103.14030. */
struct tensor *nn_patch_embed_norm(struct graph *g, const char *name, struct tensor *x,
                                   const int patch[2], int D, double eps);

/* A learned token in front: parameter `name` (1, 1, D), normal with deviation std, no weight
 * decay. */
struct tensor *nn_token(struct graph *g, const char *name, struct tensor *x, double std);

/* Learned position embedding: parameter `name` (1, N, D), no weight decay. */
struct tensor *nn_pos_embed(struct graph *g, const char *name, struct tensor *x);

/* Fixed two-dimensional sine-cosine embedding of MoCo v3 (arXiv:2104.02057), zero for prefix
 * tokens: a quarter of the columns each of sin(row w), cos(row w), sin(column w), cos(column w)
 * with w_i = 10000^(-i / (D / 4)). Tokens in raster order. ERR_SHAPE unless 4 divides D. */
struct tensor *nn_pos_sincos(struct graph *g, struct tensor *x, const int grid[2], int prefix);

#endif
