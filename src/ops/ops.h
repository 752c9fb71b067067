/* ops.h - the differentiable steps that models are made of. A new op is a file ops/NAME.c that defines
 * `const struct op NAME_op` with forward, backward and sample, and a line in ops.def.
 *
 * Every function records a node and returns its output; failures are kept in the graph (graph.h). */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "graph/graph.h"

#define OP(name) extern const struct op name##_op;
#include "ops/ops.def"
#undef OP

/* The i-th op of ops.def, NULL past the end. */
const struct op *op_at(int i);

/* a + b, the same shape. */
struct tensor *op_add(struct graph *g, struct tensor *a, struct tensor *b);

/* a * b, element by element, the same shape. */
struct tensor *op_multiply(struct graph *g, struct tensor *a, struct tensor *b);

/* p x and x + p, element by element, where p is repeated over x: one number, or aligned with the
 * last axes of x, and the same for each index of an axis that it lacks or that is 1 long in it.
 * x: (.., N, d)  p: (1), (d), (N, d), (H, N, d), (H, 1, d), (B, H, 1, d), ..: a parameter, a
 * constant, rows of the samples; cast to real. Returns the type of x, heads side by side where those
 * of x are. The sum leaves the tokens before `first` as they are: p meets N - first tokens. */
struct tensor *op_multiply_broadcast(struct graph *g, struct tensor *x, struct tensor *p);
struct tensor *op_add_broadcast(struct graph *g, struct tensor *x, struct tensor *p, int first);

enum { CONCAT_MOST = 4 };

/* Columns of 1 to CONCAT_MOST tensors side by side, each times its factor (NULL: 1).
 * x[0]: (.., N, d_0), the others (.., N, d_k), or repeated over the axes before the last as p above
 * is: constants, a learned number for all tokens. Returns (.., N, sum of d_k), real, contiguous. */
struct tensor *op_concat_cols(struct graph *g, struct tensor *x[], int count,
                              const double *factor);

/* Products of the last axis with itself, for each of `groups` equal parts of it, of at most OUTER_MOST
 * columns.  x: (.., D), d = D / groups. Returns (.., groups d^2): x_i x_j; _symmetric:
 * (.., groups d (d + 1) / 2): x_i^2, then sqrt 2 x_i x_j for i < j. In both bases the scalar product
 * of two rows is the sum over the parts of (q . k)^2. Real, contiguous. */
struct tensor *op_outer(struct graph *g, struct tensor *x, int groups);
struct tensor *op_outer_symmetric(struct graph *g, struct tensor *x, int groups);

/* y_k = x_i x_j with (i, j) = pairs[k].  x: (.., d), real  pairs: (n, 2), whole numbers in 0 .. d - 1,
 * a buffer or a constant. Returns (.., n), real, contiguous. */
struct tensor *op_pair_products(struct graph *g, struct tensor *x, struct tensor *pairs);

/* factor x */
struct tensor *op_scale(struct graph *g, struct tensor *x, double factor);

/* x + p for every sample.  x: (B, N, D)  p: (1, N, D) */
struct tensor *op_add_rows(struct graph *g, struct tensor *x, struct tensor *p);

/* x + table for every sample.  x: (B, N, D)  table: (N, D), constant, borrowed. */
struct tensor *op_add_table(struct graph *g, struct tensor *x, const real *table);

/* gamma times x, column by column.  x: (.., D)  gamma: (D). Layer scale: Touvron et al.,
 * arXiv:2103.17239, eq. 2. */
struct tensor *op_scale_cols(struct graph *g, struct tensor *x, struct tensor *gamma);

/* mu a + (1 - mu) b, column by column.  a, b: (.., D), the same shape  mu: (D), a parameter. */
struct tensor *op_blend_cols(struct graph *g, struct tensor *a, struct tensor *b, struct tensor *mu);

/* Puts one learned token before the others.  x: (B, N, D)  token: (1, 1, D). Returns (B, N + 1, D). */
struct tensor *op_add_token(struct graph *g, struct tensor *x, struct tensor *token);

/* Mean of the tokens first .. first + count - 1 (one: that token).  x: (B, N, D). Returns (B, D). */
struct tensor *op_pool(struct graph *g, struct tensor *x, int first, int count);

/* Cuts images into patches: x: (B, C, H, W), patches of h x w. Returns (B, (H/h) (W/w), C h w), raster
 * order, each row ordered as a convolution's weight (C, h, w). ERR_SHAPE where they do not divide. */
struct tensor *op_patchify(struct graph *g, struct tensor *x, int h, int w);

/* The tokens of each sample in another order: y[b, t] = x[b, from[t]].  x: (B, N, C). `from`, which is
 * copied, holds 0 .. N - 1 in any order; ERR_SHAPE where it does not. Cutting a map into windows, the
 * cyclic shift, undoing both, and bringing together the tokens that are merged into one (by graph_reshape
 * afterwards) are such orders. */
struct tensor *op_permute_tokens(struct graph *g, struct tensor *x, const int *from, int N);

/* The first `count` tokens of `from`, then the others of x.  x, from: (B, H, N, d). Returns (B, H, N, d), in
 * memory (B, N, H d). */
struct tensor *op_replace_tokens(struct graph *g, struct tensor *x, struct tensor *from, int count);

/* x W^T + bias.  x: (.., in)  W: (out, in) or any shape of `out` rows  bias: (out) or NULL.
 * Returns (.., out). */
struct tensor *op_linear(struct graph *g, struct tensor *x, struct tensor *W, struct tensor *bias);

/* The same with y real whatever x is: logits. */
struct tensor *op_linear_real(struct graph *g, struct tensor *x, struct tensor *W,
                              struct tensor *bias);

/* Matrix products of the last two axes, for each of the outer ones.
 * a: (.., m, k)  b: (.., k, n), with _tn a: (.., k, m), with _nt b: (.., n, k). Returns (.., m, n). The
 * outer axes agree from the last one on; an operand that has fewer of them serves all indices of
 * the others: (H, k, n) is a matrix for each head of every sample. */
struct tensor *op_matmul(struct graph *g, struct tensor *a, struct tensor *b);
struct tensor *op_matmul_tn(struct graph *g, struct tensor *a, struct tensor *b);
struct tensor *op_matmul_nt(struct graph *g, struct tensor *a, struct tensor *b);

/* The same with a real result whatever is multiplied: states, scores. */
struct tensor *op_matmul_real(struct graph *g, struct tensor *a, struct tensor *b);
struct tensor *op_matmul_tn_real(struct graph *g, struct tensor *a, struct tensor *b);
struct tensor *op_matmul_nt_real(struct graph *g, struct tensor *a, struct tensor *b);

/* Which tokens may see each other: id[w * tokens + t] is the region of token t in window w, of `windows`
 * in an image; sample b of an input is window b mod windows. */
struct token_regions {
    int windows, tokens;
    const unsigned char *id;
};

/* Softmax over the tokens, column by column.  x: (B, .., N, d). Returns real numbers, contiguous.
 * With regions (tokens = N and B a multiple of windows, ERR_SHAPE; copied; NULL: none) those of each
 * region are a sequence of their own. */
struct tensor *op_token_softmax(struct graph *g, struct tensor *x,
                                const struct token_regions *regions);

/* The mean over the tokens.  x: (B, .., N, d). Returns (B, .., 1, d), with regions, for each token
 * that of its region, (B, .., N, d): real numbers, contiguous. */
struct tensor *op_token_mean(struct graph *g, struct tensor *x,
                             const struct token_regions *regions);

/* x minus that mean.  x: (B, .., N, d). Returns real numbers, contiguous. */
struct tensor *op_token_centre(struct graph *g, struct tensor *x,
                               const struct token_regions *regions);

/* Mixes tokens: y[b, t, c] = sum over j of W[t, j] x[b, j, c] + bias[t].  W: (N, N), or (H, N, N) with
 * a matrix for each of H equal parts of the columns  x: (B, N, D)  bias: (N) or NULL.
 * Hosseini and Hosseini, arXiv:2403.01643, eq. 22. */
struct tensor *op_token_mix(struct graph *g, struct tensor *x, struct tensor *W,
                            struct tensor *bias);

/* The same, with W[t, j] taken as 0 in windows where tokens t and j are of different regions, which then
 * do not influence each other, to the last bit. tokens = N and B a multiple of windows (ERR_SHAPE); what
 * is needed of the regions is copied. NULL: none. */
struct tensor *op_token_mix_regions(struct graph *g, struct tensor *x, struct tensor *W,
                                    struct tensor *bias, const struct token_regions *regions);

/* Numbers of regions: 1 more than the largest. NULL: 1. */
int token_regions_count(const struct token_regions *regions);

/* Tokens projected to fewer rows, region by region: row r k + c of y is the sum over the tokens j of region
 * r of W[j, c] x[j].  x: (B, H, N, d)  W: (N, k), or (H, N, k), a parameter. Returns (B, H, R k, d), in
 * memory (B, R k, H d), R = token_regions_count. regions NULL: all tokens are of one; else tokens = N and B
 * a multiple of windows (ERR_SHAPE). Wang et al., arXiv:2006.04768, eq. 7. */
struct tensor *op_project_tokens(struct graph *g, struct tensor *x, struct tensor *W,
                                 const struct token_regions *regions);

/* Where tokens lie on a map: those before `prefix` do not, the others are its grid[0] x grid[1] patches
 * in raster order. With regions (NULL: none) patches of another region are as if off the map; so are
 * those of another window. */
struct token_map {
    int grid[2], prefix;
    const struct token_regions *regions;
};

/* Convolution of a map, each channel by itself, with zeros off the map, as large as before (PyTorch's
 * padding "same"; a correlation, as there).  x: (B, N, C)  weight: (F, 1, h, w), h and w odd, a
 * parameter  bias: (F) or NULL; F divides C, and channel c has filter c mod F. Returns (B, N, C), 0 for
 * the tokens before the map. */
struct tensor *op_depthwise(struct graph *g, struct tensor *x, struct tensor *weight,
                            struct tensor *bias, const struct token_map *map);

/* The same along the patches in raster order, as if they lay in one row, each of F equal parts of the
 * channels with a filter.  x: (B, N, C)  weight: (F, k), k odd, a parameter. Returns (B, N, C). */
struct tensor *op_line_conv(struct graph *g, struct tensor *x, struct tensor *weight,
                            const struct token_map *map);

/* Mean of the size x size patches around each one that are on the map, minus that one; size odd.
 * x: (B, N, C). Returns (B, N, C), 0 for the tokens before the map. Yu et al., arXiv:2111.11418,
 * section 3.2. */
struct tensor *op_map_pool(struct graph *g, struct tensor *x, int size,
                           const struct token_map *map);

/* Q-Shift: a quarter of the columns each from so many patches to the left, to the right, above and
 * below, 0 off the map; the tokens before the map stay as they are.  x: (B, N, C), quarter i from
 * column C i / 4 on. Duan et al., arXiv:2403.02308, section 3.2. */
struct tensor *op_map_shift(struct graph *g, struct tensor *x, int pixels,
                            const struct token_map *map);

/* How tokens follow one another: in `order` (NULL: as they lie; copied), or from its end with
 * `reversed`. With regions (NULL: none) those of each are a sequence of their own. */
struct token_sequence {
    const int *order;
    bool reversed;
    const struct token_regions *regions;
};

/* Convolution along a sequence, each channel by itself, of a token and the k - 1 before it, 0 before the
 * first.  x: (B, N, C)  weight: (C, 1, k), its last column for the token itself, a parameter  bias: (C)
 * or NULL. Returns (B, N, C). */
struct tensor *op_causal_conv(struct graph *g, struct tensor *x, struct tensor *weight,
                              struct tensor *bias, const struct token_sequence *sequence);

/* Bi-WKV: y[t] = the average of v with weights e^(k[i] - w (|t - i| - 1)), of v[t] with e^(k[t] + u),
 * column by column, over a sequence of T tokens with w = decay / T and u = first / T, which may be
 * negative.  k, v: (B, N, C)  decay, first: (C), parameters. Returns (B, N, C). Time O(N C), states real.
 * Duan et al., arXiv:2403.02308, section 3.2, u divided as in the authors' code. */
struct tensor *op_bi_wkv(struct graph *g, struct tensor *k, struct tensor *v, struct tensor *decay,
                         struct tensor *first, const struct token_sequence *sequence);

/* Selective scan along a sequence: for each channel, with n numbers h that are 0 before the first token,
 * h = exp(dt A) h + dt x B, y = h . C + D x, A = - exp A_log.  x, dt: (B, N, E)  A_log: (E, n), n at most
 * SCAN_STATES, and D: (E), parameters  B, C: (B, N, n), cast to real. Returns (B, N, E); states are real.
 * Gu and Dao, arXiv:2312.00752, eq. 2 and algorithm 2. */
struct tensor *op_selective_scan(struct graph *g, struct tensor *x, struct tensor *dt,
                                 struct tensor *A_log, struct tensor *B, struct tensor *C,
                                 struct tensor *D, const struct token_sequence *sequence);

/* Bias of the scores of a window h x w from the tokens' relative positions, for every head:
 * y[a, i, j] = table[(yi - yj + h - 1)(2 w - 1) + xi - xj + w - 1, a], tokens in raster order.
 * table: ((2 h - 1)(2 w - 1), H), a parameter  window: {h, w}. Returns (H, N, N), N = h w, real, the same
 * for all samples. Liu et al., arXiv:2103.14030, eq. 4. */
struct tensor *op_relative_bias(struct graph *g, struct tensor *table, const int window[2]);

/* A learned map, head h in its channels h d .. (h + 1) d - 1, as rows of tokens in raster order.
 * table: (H d, rows, columns), a parameter. Returns (H, rows columns, d), real, the same for all
 * samples. */
struct tensor *op_head_table(struct graph *g, struct tensor *table, int H);

/* Batch normalisation of the last axis: y = (x - mean) weight / sqrt(variance + eps) + bias, statistics
 * over all other axes.  x: (B, .., D), 2 to 4 axes  the others: (D), parameters, the running ones buffers.
 * Where the graph has noise, as in training, mean and variance are those of the samples that are there,
 * the graph needs the whole batch at once, and a run that updates makes the running ones (1 - momentum)
 * running + momentum own, the variance with n - 1 in place of n (n rows; 1 leaves them alone); else they
 * are the running ones. ERR_SHAPE where shapes do not fit or a batch has one row. arXiv:1502.03167 */
struct tensor *op_batch_norm(struct graph *g, struct tensor *x, struct tensor *weight,
                             struct tensor *bias, struct tensor *running_mean,
                             struct tensor *running_variance, double eps, double momentum);

/* Layer normalisation over the last axis.  x: (.., D)  weight, bias: (D), parameters or constants.
 * arXiv:1607.06450 */
struct tensor *op_layer_norm(struct graph *g, struct tensor *x, struct tensor *weight,
                             struct tensor *bias, double eps);

/* x / 2 (1 + erf(x / sqrt 2)), arXiv:1606.08415 */
struct tensor *op_gelu(struct graph *g, struct tensor *x);

/* f(x), element by element: MAP_RELU, MAP_ELU1 (x + 1, or e^x below 0), MAP_SQUARE, MAP_SIGMOID,
 * MAP_SILU, MAP_EXP, MAP_SOFTPLUS, MAP_MAGNITUDE (x with a size of 1e-4 to 1e4; 0 stays 0), .. of kernels/maps.def. Returns real numbers, contiguous, whatever
 * x is. The slope of relu at 0 is 0. MAP_EXP is infinite from 89 on in float. */
struct tensor *op_map(struct graph *g, struct tensor *x, enum map f);

/* The same in the graph's storage type: activations between layers. */
struct tensor *op_map_stored(struct graph *g, struct tensor *x, enum map f);

/* x in real numbers, contiguous: x itself where it is so already. */
struct tensor *op_real(struct graph *g, struct tensor *x);

/* x in the graph's storage type, heads side by side where those of x are: x itself where it is in
 * that type already. */
struct tensor *op_stored(struct graph *g, struct tensor *x);

/* x / max(|x|, eps) with the Euclidean norm |x| of each of `groups` equal parts of the last axis; 0
 * where a part is 0. The norm is a constant to the gradient where it is not above eps, and a part
 * that is 0 has gradient 0.  x: (.., D), groups divides D. Returns real numbers, contiguous. */
struct tensor *op_normalize(struct graph *g, struct tensor *x, int groups, double eps);

/* What is taken from exponents lest they overflow: nothing, the largest of the row, or the largest of all
 * columns and all tokens of a region. It is a constant to the gradient, which is the derivative where it
 * cancels, as it does from linear attention over the features alone. */
enum exp_top { TOP_NONE, TOP_ROW, TOP_TOKENS };

struct exp_terms {
    double scale, factor, eps; /* scale above 0 */
    enum exp_top top;
    const struct token_regions *regions; /* of TOP_TOKENS, as above; or NULL */
};

/* Positive random features: factor exp(scale z - scale^2 / 2 |x|^2 - top) + eps, top that of scale z.
 * z: (B, .., N, m), real, products of x with random rows  x: (B, .., N, d), or NULL: no norms.
 * Returns (B, .., N, m), real, contiguous. Choromanski et al., arXiv:2009.14794, lemma 1. */
struct tensor *op_exp_features(struct graph *g, struct tensor *z, struct tensor *x,
                               const struct exp_terms *terms);

/* Random Fourier features: factor exp(scale^2 / 2 |x|^2 - top) [sin(scale z), cos(scale z)], top that of these
 * exponents, TOP_NONE or TOP_TOKENS; eps is not used.  z, x: as above. Returns (B, .., N, 2 m), real,
 * contiguous. Peng et al., arXiv:2103.02143, eq. 4 to 6. */
struct tensor *op_trig_features(struct graph *g, struct tensor *z, struct tensor *x,
                                const struct exp_terms *terms);

/* x / max x, row by row, for numbers above 0; the largest has its part in the gradient.  x: (.., D), real.
 * exp(x - max x) is this of a softmax. */
struct tensor *op_divide_largest(struct graph *g, struct tensor *x);

/* x / min(n + eps, most), row by row.  x: (.., N, d), real  n: (.., N, 1), real. Returns (.., N, d), real. */
struct tensor *op_divide_rows(struct graph *g, struct tensor *x, struct tensor *n, double eps,
                              double most);

/* x rounded to 2^bits levels between the least number and the largest one of the batch, or with the graph
 * without noise, of running values: least number and range (1) each, buffers, which become momentum running +
 * (1 - momentum) own where a run updates. The gradient passes straight through. Where the graph has noise it
 * needs the whole batch at once.  x: (B, .., d), real, contiguous  bits: 0 (no rounding) to 16. Returns real
 * numbers. */
struct tensor *op_quantise(struct graph *g, struct tensor *x, struct tensor *least,
                           struct tensor *range, int bits, double momentum);

/* Features that point more to their largest entries, row by row: t = (max(x, 0) + 1e-6) / softplus(rho),
 * y = |t| t^p / |t^p| with Euclidean norms.  x: (.., D), real  rho: (D), a parameter  p: 1 or more. Returns
 * real numbers, contiguous. Han et al., arXiv:2308.00442, eq. 5 and 6. */
struct tensor *op_focus(struct graph *g, struct tensor *x, struct tensor *rho, int p);

/* Softmax over the last axis; with _real the result is real whatever x is. */
struct tensor *op_softmax(struct graph *g, struct tensor *x);
struct tensor *op_softmax_real(struct graph *g, struct tensor *x);

/* Zeroes elements with probability p and divides the others by 1 - p. The mask is a function of (seed,
 * "dropout:SCOPE", step, sample, element), where each of the parts that an image has in the first axis
 * (its windows) is a sample. Returns x itself where the graph has no noise, or p is 0. */
struct tensor *op_dropout(struct graph *g, struct tensor *x, double p);

/* Stochastic depth: zeroes whole samples with probability p, divides the others by 1 - p. Huang et al.,
 * arXiv:1603.09382. Stream "drop_path:SCOPE"; x itself where the graph has no noise, or p is 0. */
struct tensor *op_drop_path(struct graph *g, struct tensor *x, double p);

/* x plus standard normal numbers, a function of (seed, "PURPOSE:SCOPE", step, sample, index): row r of
 * head h takes the numbers of draw[r], so that rows may share them. x itself where the graph has no noise.
 * x: (B, H, R, d)  draw: (R), from 0, borrowed for the life of the graph. */
struct tensor *op_add_noise(struct graph *g, struct tensor *x, const char *purpose, const int *draw);

/* softmax(scale * q k^T) v, fused.  q: (B, H, N, d)  k: (B, H, M, d)  v: (B, H, M, e)
 * Returns (B, H, N, e), in memory (B, N, H e). ERR_SHAPE if B, H, M or d differ. Vaswani et al. 2017,
 * eq. 1. Keeps one row sum per (B, H, N); backward recomputes the weights. */
struct tensor *op_sdpa(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                       double scale);

struct sdpa_terms {
    struct tensor *bias; /* (H, N, M), real, added to the scaled scores of every sample; or NULL */
    const struct token_regions *regions; /* scores between tokens of different regions are minus
                                            infinity; or NULL */
    double above;   /* weights that are not above it are left out, and the others stay as they are, a sum
                       below 1; the step has no gradient; 0: none. Dass et al., arXiv:2211.05109 */
    double above_last; /* where `above` has moved to at the end of the training (struct run, progress) */
    double dropout; /* of the weights, 0: none */
};

/* The same with more terms: dropout(softmax(scale * q k^T + bias)) v. Regions want N = M = tokens and
 * B a multiple of windows (ERR_SHAPE); their ids are borrowed for the life of the graph. Tokens of
 * different regions do not influence each other, to the last bit. Dropout is that of op_dropout on the
 * weights (B, H, N, M). */
struct tensor *op_sdpa_terms(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                             double scale, const struct sdpa_terms *terms);

/* In which order products of features are evaluated: what is cheaper at the shape, sums over the keys
 * first, or weights first. */
enum linear_order { ORDER_AUTO, ORDER_LINEAR, ORDER_QUADRATIC };

struct linear_terms {
    enum linear_den den; /* of n, the sum of a query's weights: n + eps, max(n, eps), 1, or eps */
    double eps;
    bool per_key; /* eps is multiplied by the number of keys that a query sees */
    enum linear_order order;
    const struct token_regions *regions; /* a query sees the keys of its own region; NULL: all */
    enum linear_basis basis; /* where not NONE, the weights are c0 + c1 s + c2 s^2 of s = a . f, none of */
    double c[3];             /* these negative, and features of a and f in this basis are made inside */
};

/* Attention whose weights are products of features: y = a (f^T v) / den(a (f^T 1)).
 * a: (B, H, N, D) of queries  f: (B, H, M, D) of keys, both real  v: (B, H, M, e), stored or real.
 * Returns (B, H, N, e), stored, in memory (B, N, H e). ERR_SHAPE where they do not fit. Katharopoulos et
 * al., arXiv:2006.16236, eq. 5. Regions want N = M = tokens and B a multiple of windows (ERR_SHAPE) and are
 * copied; tokens of different regions do not influence each other, to the last bit. Keeps n, and in the
 * linear order D (e + 1) sums for each (B, H); no N x M tensor exists in either, nor features of a basis for
 * all tokens. */
struct tensor *op_linear_attention(struct graph *g, struct tensor *a, struct tensor *f,
                                   struct tensor *v, const struct linear_terms *terms);

/* The same with a head for each channel, without a denominator: y[i] = a[i] * sum over j of f[j] * v[j],
 * channel by channel, over the tokens j of i's region (NULL: all).  a, f: (B, N, C), real  v: (B, N, C).
 * Returns (B, N, C), stored. Regions as in op_sdpa_terms. Bolya et al., arXiv:2209.07484, eq. 7. */
struct tensor *op_channel_attention(struct graph *g, struct tensor *a, struct tensor *f,
                                    struct tensor *v, const struct token_regions *regions);

/* Groups of queries with the keys that each of them sees (kernels.h). */
struct key_groups {
    int count;
    const struct key_group *at;
};

/* Pairs of a query and a key of its own, masked ones included. */
double key_group_pairs(const struct key_group *g);

/* Softmax attention of each query to the keys of its group, which are tokens and rows of a second table:
 * softmax(scale q k^T + what the group's pattern adds) v, one softmax over both kinds.
 * q: (B, H, N, d)  k: (B, H, M, d)  v: (B, H, M, e)  row_k: (B, H, C, d)  row_v: (B, H, C, e), or both
 * NULL  table: (entries, H), a parameter, the biases that patterns name; or NULL.
 * Returns (B, H, N, e), in memory (B, N, H e). Each token is a query of one group and sees a key
 * (ERR_SHAPE); what the groups point to is borrowed for the life of the graph. Memory grows with N, M,
 * C and the patterns that differ, never with N x M; one row sum per (B, H, N) is kept. */
struct tensor *op_sdpa_tables(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                              struct tensor *row_k, struct tensor *row_v, struct tensor *table,
                              double scale, const struct key_groups *groups);

/* Mean of each set of tokens: their sum over `divisor`, 0: over their number.  x: (B, H, N, d). Returns
 * (B, H, sets, d), real. ERR_SHAPE for an empty set without a divisor. The sets are borrowed for the life of
 * the graph. */
struct tensor *op_set_mean(struct graph *g, struct tensor *x, const struct token_sets *sets,
                           double divisor);

/* One query for each set of tokens, which sees the keys of its set: the sum over them of w_m v_m, where
 * w is the softmax over m of scale q . k_m - norm / 2 |k_m|^2.  q: (B, H, sets, d), or a parameter (H, d)
 * for all sets  k: (B, H, N, d)  v: (B, H, N, e). Returns (B, H, sets, e), real. No set may be empty. */
struct tensor *op_set_softmax(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                              double scale, double norm, const struct token_sets *sets);

/* How the proposals of op_lara are weighed: by those of the tokens' own and others (opt), as one mixture
 * (bh, the balance heuristic), or by their scores (biased). */
enum lara_mis { LARA_OPT, LARA_BH, LARA_BIASED };

struct lara_terms {
    enum lara_mis mis;
    double alpha; /* of LARA_OPT: how much the tokens' own weights count */
    double scale;
    const struct token_sets *sequences; /* P of them: each token is in one, and sees that alone; NULL: 1,
                                           all tokens. Borrowed for the life of the graph */
};

/* Softmax attention estimated by importance sampling with samples omega, one of each of C proposals, normal
 * distributions around mu; the formulas stand in lara.c. q, k: (B, H, N, d)  v: (B, H, N, e)  q_bar, mu,
 * omega: (B, H, P C, d), real, the C of each sequence together; q_bar NULL unless LARA_OPT, omega may be mu.
 * Returns (B, H, N, e), in memory (B, N, H e). Memory grows with N, C and one sequence's n x C, never with
 * N x N. Zheng et al., arXiv:2204.04667. */
struct tensor *op_lara(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                       struct tensor *q_bar, struct tensor *mu, struct tensor *omega,
                       const struct lara_terms *terms);

/* (B, H, N, d) to (B, N, H d): a view where memory lies so already, else a copy. */
struct tensor *op_merge_heads(struct graph *g, struct tensor *x);

/* Cross entropy of softmax(logits) with label smoothing s, target (1 - s) onehot + s / K.
 * logits: (B, K)  labels: (B), int, -1: loss 0. Returns (B), unweighted. */
struct tensor *op_cross_entropy(struct graph *g, struct tensor *logits, struct tensor *labels,
                                double smoothing);

/* How far logits are from a teacher's, sample by sample: T^2 / K times the Kullback-Leibler divergence
 * at temperature T of the teacher's softmax from ours, or the cross entropy with the teacher's first
 * largest class (without temperature). The teacher gets no gradient. Both: (B, K), real. Returns (B),
 * unweighted. Hinton et al., arXiv:1503.02531; Touvron et al., arXiv:2012.12877, eq. 2 and 3, with
 * the scale of their code. */
enum distill_kind { DISTILL_SOFT, DISTILL_HARD };
struct tensor *op_distill(struct graph *g, struct tensor *logits, struct tensor *teacher,
                          enum distill_kind kind, double temperature);

/* --- shared by the ops -------------------------------------------------------------------------- */

/* Output like the first input, heads side by side where those are. */
void infer_unary(struct graph *g, struct node *n);

/* Fails unless input i is a parameter (or absent): its gradient is real, and always added to. */
void infer_param(struct graph *g, struct node *n, int i);

/* How many parts of the first axis of x belong to one image: its windows. 1 where x is no batch. */
int noise_parts(const struct graph *g, const struct tensor *x);

/* Whether each set has so many members at least, and all of them are tokens 0 .. N - 1. */
bool token_sets_fit(const struct token_sets *sets, int N, int least);

/* Output like the first input, and all inputs must have one shape. */
void infer_same(struct graph *g, struct node *n);

#endif
