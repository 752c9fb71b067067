/* kernels.h - the loops over memory that ops consist of. No graph types, no allocation. A call runs
 * on the calling thread alone unless kernels_team gave it more. Arguments: outputs first, then
 * inputs, then sizes.
 *
 * `beta` is 0 (overwrite, never read) or 1 (add to what is there). Statistics, parameters and their
 * gradients (const real *, real *) are real; what comes as struct vec may also be bf16. Outputs may
 * be the same memory as an input of the same shape where the comment says "in place". */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/vec.h"

/* --- choice of the instruction set ------------------------------------------------------------ */

/* Picks the kernels for this CPU, or the lower level that ATTNBENCH_ISA names (portable, avx2,
 * avx512, avx512+bf16, amx). Called once at the start, before any thread. ERR_INPUT for a name that
 * is unknown or a level that this CPU lacks. The levels with bf16 products of their own are tried
 * on small products first and passed over where they err. */
MUST_USE enum status kernels_init(struct error *err);

const char *kernels_isa(void); /* "portable", "avx2", "avx512", "avx512+bf16", "amx" */

/* A sentence on a level that failed its trial and is not used, or NULL. */
const char *kernels_isa_note(void);

/* Sets flush-to-zero for the calling thread: denormals cost a hundredfold. */
void kernels_thread_init(void);

/* From now on the kernels that this thread calls outside of parallel regions may share their work
 * among so many threads, itself included; 1 at first. Results are the same, bit by bit. */
void kernels_team(int threads);

/* --- element by element ----------------------------------------------------------------------- */

/* y = beta y + scale x. In place. */
void kernel_accumulate(struct vec y, int beta, struct vec x, double scale, size_t rows,
                       size_t cols);

/* y = a + b. In place. */
void kernel_add(struct vec y, struct vec a, struct vec b, size_t rows, size_t cols);

/* y = beta y + a * b, element by element. */
void kernel_multiply(struct vec y, int beta, struct vec a, struct vec b, size_t rows, size_t cols);

/* y[r] = x[r] + p[r mod period], p: (period, cols). In place. */
void kernel_add_rows(struct vec y, struct vec x, const real *p, size_t rows, size_t cols,
                     size_t period);

/* dp[r mod period] += dy[r], in the order of r. */
void kernel_add_rows_grad(real *dp, struct vec dy, size_t rows, size_t cols, size_t period);

/* y[r] = beta y[r] + factor[r / period] x[r]. In place. */
void kernel_scale_rows(struct vec y, int beta, struct vec x, const real *factor, size_t rows,
                       size_t cols, size_t period);

/* y[r, c] = beta y[r, c] + gamma[c] x[r, c] */
void kernel_scale_cols(struct vec y, int beta, struct vec x, const real *gamma, size_t rows,
                       size_t cols);

/* dgamma[c] += sum over r of dy[r, c] x[r, c] */
void kernel_scale_cols_grad(real *dgamma, struct vec x, struct vec dy, size_t rows, size_t cols);

/* sums[c] += sum over r of x[r, c] */
void kernel_column_sums(real *sums, struct vec x, size_t rows, size_t cols);

/* y = x / 2 (1 + erf(x / sqrt 2)); Hendrycks and Gimpel, arXiv:1606.08415, exact form. In place. */
void kernel_gelu(struct vec y, struct vec x, size_t rows, size_t cols);

/* dx = beta dx + dy gelu'(x). dx may be dy. */
void kernel_gelu_grad(struct vec dx, int beta, struct vec x, struct vec dy, size_t rows,
                      size_t cols);

/* Functions of one number: MAP_RELU, .. of maps.def. */
enum map {
#define MAP(NAME, name, value, slope) MAP_##NAME,
#include "kernels/maps.def"
#undef MAP
    MAP_COUNT
};

/* y = f(x), relative error some units in the last place of real. In place. */
void kernel_map(struct vec y, enum map f, struct vec x, size_t rows, size_t cols);

/* dx = beta dx + dy f'(x). dx may be dy. */
void kernel_map_grad(struct vec dx, int beta, enum map f, struct vec x, struct vec dy, size_t rows,
                     size_t cols);

/* y = beta y + x keep / (1 - p), keep drawn from the random block of (stream, step, sample,
 * element): row r belongs to sample `sample` + r / period; the element is its number inside the
 * sample. */
void kernel_dropout(struct vec y, int beta, struct vec x, size_t rows, size_t cols, size_t period,
                    double p, uint64_t stream, uint64_t step, uint64_t sample);

/* --- rows ------------------------------------------------------------------------------------- */

/* Places of rows, which belong together `period` at a time: row t of them is, elsewhere, row at[t] of
 * the same ones. The functions below take rows first .. first + rows - 1 of x or y as they lie here,
 * and find the others by the order. */
struct row_order {
    const int *at; /* (period): each of 0 .. period - 1 once; to gather any numbers will do, and to
                      scatter any that differ */
    size_t period;
};

/* y[r] = beta y[r] + factor[(first + r) / period] x[order of first + r]; factor NULL: 1. */
void kernel_gather_rows(struct vec y, int beta, struct vec x, const struct row_order *order,
                        const real *factor, size_t first, size_t rows, size_t cols);

/* y[order of first + r] = beta y[..] + x[r] */
void kernel_scatter_rows(struct vec y, int beta, struct vec x, const struct row_order *order,
                         size_t first, size_t rows, size_t cols);

/* y = exp(x - max x) / sum, row by row. In place. */
void kernel_softmax(struct vec y, struct vec x, size_t rows, size_t cols);

/* dx = beta dx + y (dy - sum y dy) */
void kernel_softmax_grad(struct vec dx, int beta, struct vec y, struct vec dy, size_t rows,
                         size_t cols);

/* y = (x - mean) rstd weight + bias, rstd = 1 / sqrt(variance + eps); Ba et al., arXiv:1607.06450.
 * mean, rstd: (rows), written. Two passes over a row in registers or L1: no cancellation. */
void kernel_layer_norm(struct vec y, real *mean, real *rstd, struct vec x, const real *weight,
                       const real *bias, double eps, size_t rows, size_t cols);

/* dweight += sum dy xhat, dbias += sum dy (both may be NULL), dx = beta dx + the gradient (dx.data
 * may be NULL). dx may be dy. */
void kernel_layer_norm_grad(struct vec dx, int beta, real *dweight, real *dbias, struct vec x,
                            const real *mean, const real *rstd, const real *weight, struct vec dy,
                            size_t rows, size_t cols);

/* The same with row r of y, or of dy, at the place that the order gives it (NULL: r); rows are whole
 * periods, and dx may not be dy. */
void kernel_layer_norm_to(struct vec y, const struct row_order *order, real *mean, real *rstd,
                          struct vec x, const real *weight, const real *bias, double eps,
                          size_t rows, size_t cols);
void kernel_layer_norm_grad_from(struct vec dx, int beta, real *dweight, real *dbias, struct vec x,
                                 const real *mean, const real *rstd, const real *weight,
                                 struct vec dy, const struct row_order *order, size_t rows,
                                 size_t cols);

/* y = x / max(|x|, eps) for each of `groups` equal parts of a row, 0 where |x| is 0; |x| is the root
 * of the sum of squares. norm: (rows, groups), written: |x|. In place. */
void kernel_normalize(struct vec y, real *norm, struct vec x, int groups, double eps, size_t rows,
                      size_t cols);

/* dx = beta dx + (dy - y (y . dy)) / |x|; beta dx + dy / eps where |x| is not above eps, beta dx
 * where it is 0. */
void kernel_normalize_grad(struct vec dx, int beta, struct vec y, const real *norm, struct vec dy,
                           int groups, double eps, size_t rows, size_t cols);

/* Which rows of a matrix belong together: row r to group number[r] of 0 .. count - 1, each of which
 * has a row; number NULL: all to one, count 1. */
struct token_groups {
    const unsigned char *number;
    int count;
};

/* Softmax down each column, over the rows of each group: y = exp(x - max x) / sum. y: real. */
void kernel_token_softmax(struct vec y, struct vec x, const struct token_groups *groups,
                          size_t rows, size_t cols);

/* dx = beta dx + y (dy - sum y dy), the sums over the rows of the group */
void kernel_token_softmax_grad(struct vec dx, int beta, struct vec y, struct vec dy,
                               const struct token_groups *groups, size_t rows, size_t cols);

/* y[r] = beta y[r] + own x[r] + share (the mean of x over the rows of r's group) */
void kernel_token_mean(struct vec y, int beta, double own, double share, struct vec x,
                       const struct token_groups *groups, size_t rows, size_t cols);

enum { OUTER_MOST = 512 }; /* elements of a part below */

/* y[r] = for each of `groups` equal parts a of x[r], of n elements, at most OUTER_MOST: a_i a_j for
 * all i and j, row-major; symmetric: a_i^2, then sqrt 2 a_i a_j for i < j. y: real. */
void kernel_outer(struct vec y, struct vec x, bool symmetric, int groups, size_t rows, size_t cols);

/* dx = beta dx + the gradient; cols: of x. dy: real. */
void kernel_outer_grad(struct vec dx, int beta, struct vec x, struct vec dy, bool symmetric,
                       int groups, size_t rows, size_t cols);

/* loss[r] = (1 - s) (-log p[r, label]) + s / cols sum over c of (-log p[r, c]), p = softmax(x[r]),
 * s the label smoothing (Szegedy et al., arXiv:1512.00567, section 7). p: (rows, cols), written.
 * Rows with label < 0 have loss 0. */
void kernel_cross_entropy(real *loss, real *p, struct vec x, const int *label, double smoothing,
                          size_t rows, size_t cols);

/* dx[r] = beta dx[r] + dloss[r] (p[r] - target[r]) */
void kernel_cross_entropy_grad(struct vec dx, int beta, const real *p, const real *dloss,
                               const int *label, double smoothing, size_t rows, size_t cols);

/* --- products --------------------------------------------------------------------------------- */

enum trans { PLAIN, TRANSPOSED };

/* What is done to a product c (m, n) while it is in cache, in this order; what is NULL or false is
 * left out. All of it is computed in real; only the stores round. */
struct epilogue {
    const real *bias;    /* (n), added to every row */
    bool gelu;           /* the exact form, as kernel_gelu */
    struct vec slope;    /* (m, n), with gelu: written, its derivative there; may not be c */
    const real *factor;  /* row r is multiplied by factor[r / period] */
    size_t period;       /* at least 1 where there is a factor or an order */
    const struct row_order *order; /* row r goes to the place that this gives it, NULL: r; wants
                                      beta 0, m whole periods, and `period` to be its own */
    struct vec residual; /* (m, n), added, rows as in c; may be c where beta is 0 */
};

/* c = beta c + alpha op(a) op(b), then the epilogue (NULL: none). Row-major: op(a) is (m, k), op(b)
 * (k, n), c (m, n). m, n or k may be 0. Where a and b are both bf16 the level's bf16 instructions
 * are used: products are exact and summed in real. A result depends on the arguments alone. */
void kernel_gemm(struct vec c, int beta, double alpha, enum trans ta, struct vec a, enum trans tb,
                 struct vec b, int m, int n, int k, const struct epilogue *epilogue);

/* A right operand (k, n) rounded to bf16, in the layout of the level in use. */
struct packed {
    const void *data; /* 64-byte aligned */
    int k, n;
};

/* Bytes that kernel_pack writes for a (k, n) operand: at most 2 (k + 31) (n + 15). */
size_t kernel_packed_bytes(int k, int n);

/* Packs op(b) (k, n), real or bf16, into `to`, which is 64-byte aligned. */
void kernel_pack(void *to, enum trans tb, struct vec b, int k, int n);

/* c = beta c + a b, then the epilogue (NULL: none). a: (m, b.k), bf16, or real and then rounded to
 * bf16; sums are real. */
void kernel_gemm_packed(struct vec c, int beta, struct vec a, struct packed b, int m,
                        const struct epilogue *epilogue);

/* BLAS in use, with its kernel: "OpenBLAS 0.3.21 SkylakeX", "portable loop". */
const char *kernels_blas(void);

/* A sentence on what is wrong with the BLAS on this machine and what it costs, or NULL. */
const char *kernels_blas_note(void);

/* Address space, in bytes, that products on `threads` threads map and hardly touch: OpenBLAS takes a
 * buffer for each thread that calls it, and without the room for one waits for it for ever. */
double kernels_blas_mapped_bytes(int threads);

/* OpenBLAS reads OPENBLAS_CORETYPE when it is loaded, and older versions take their slowest kernel
 * on CPUs they do not know. Where that happened, and the user did not set the variable, sets it and
 * runs the program again, once, with the same arguments. Returns where nothing was to be done.
 * Called first in main. */
void kernels_blas_fix(char **argv);

/* --- attention -------------------------------------------------------------------------------- */

struct sdpa {
    int B, H, N, M, d, e; /* q: (B, H, N, d), k: (B, H, M, d), v: (B, H, M, e), y: (B, H, N, e) */
    double scale;
    const real *bias;              /* (H, N, M), added to the scaled scores; NULL: none */
    int windows;                   /* image b is window b mod `windows`; with regions alone */
    const unsigned char *region;   /* (windows, N), N = M: what tokens of different regions have as
                                      their score is minus infinity; NULL: no regions */
    const bool *mixed;             /* (windows): whether the window has several regions */
    int team;                      /* threads that there is scratch for; 0: 1 */
    double above;                  /* weights that are not above it are left out, the others stay as
                                      they are; 0: none */
    double dropout;                /* of the weights; 0: none */
    uint64_t stream, step, sample; /* of the dropout: sample of the first image */
};

/* Scratch that both directions need, in reals. Grows with N + M times a constant, never with N x M,
 * and with s->team: where more threads are in the team (kernels_team), one of them does all. */
size_t kernel_sdpa_scratch(const struct sdpa *s);

/* y = dropout(softmax(scale q k^T + bias)) v for every image and head; lse: (B, H, N), written: log
 * of the row sums, maximum included. Vaswani et al. 2017, eq. 1. */
void kernel_sdpa(struct heads y, real *lse, struct heads q, struct heads k, struct heads v,
                 const struct sdpa *s, real *scratch);

/* Gradients; each dq, dk, dv with data NULL is left out, and a dbias that is NULL. For one image and
 * head dq is written before dk and dk before dv, so that they may be the same memory with beta 0, 1,
 * 1. dbias: (H, N, M), the sum over the images in their order. */
void kernel_sdpa_grad(struct heads dq, int beta_q, struct heads dk, int beta_k, struct heads dv,
                      int beta_v, real *dbias, int beta_bias, struct heads q, struct heads k,
                      struct heads v, struct heads y, struct heads dy, const real *lse,
                      const struct sdpa *s, real *scratch);

/* How sums over keys are normalised: by n + eps, max(n, eps), 1, or the constant eps, where n is the sum
 * of a query's weights. */
enum linear_den { DEN_ADD, DEN_CLAMP, DEN_NONE, DEN_CONST };

/* Features whose products are c0 + c1 s + c2 s^2 of s = a . f (none of them negative): none, the weight is
 * s itself; each product x_i x_j once; both x_i x_j and x_j x_i; these with constant and linear terms
 * twice, as in the Kronecker square of [x, 1]. */
enum linear_basis { BASIS_NONE, BASIS_SYM, BASIS_FULL, BASIS_KRON };

struct linear_attention {
    int B, H, N, M, d, e; /* a: (B, H, N, d), f: (B, H, M, d), both real, v: (B, H, M, e) */
    enum linear_basis basis;
    double c[3];
    int D;                /* features of the basis: kernel_linear_features */
    enum linear_den den;
    double eps;
    bool per_key;      /* eps is multiplied by the number of keys */
    bool quadratic;    /* (a f^T) v in place of a (f^T v); features are not needed then */
    int windows;       /* image b is window b mod `windows`; with regions alone */
    const int *at;     /* (windows, N), N = M: the tokens region by region */
    const int *length; /* (windows, N): how many tokens the region has that begins at this place of
                          `at`; NULL: no regions. A query sees the keys of its own region */
    int team;          /* threads that there is scratch for; 0: 1 */
};

int kernel_linear_features(int d, enum linear_basis basis, const double c[3]);

/* Scratch that both directions need, in reals: grows with N + M times a constant, and with the team.
 * Reals of the sums over keys that forward leaves to backward; 0 in the quadratic order. */
size_t kernel_linear_attention_scratch(const struct linear_attention *o);
size_t kernel_linear_attention_state(const struct linear_attention *o);

/* y = a (f^T v) / den, with features for a and f, for every image and head. state: written, as large as said above; n: (B, H, N),
 * written, may be NULL where den does not depend on it. Katharopoulos et al., arXiv:2006.16236, eq. 5. */
void kernel_linear_attention(struct heads y, real *state, real *n, struct heads a, struct heads f,
                             struct heads v, const struct linear_attention *o, real *scratch);

/* Gradients; each of da, df, dv with data NULL is left out. For one image and head they are written one
 * after the other, so that they may be the same memory with beta 0, 1, 1. */
void kernel_linear_attention_grad(struct heads da, int beta_a, struct heads df, int beta_f,
                                  struct heads dv, int beta_v, struct heads a, struct heads f,
                                  struct heads v, struct heads dy, const real *state,
                                  const real *n, const struct linear_attention *o, real *scratch);

/* What groups of queries add to their scores; several groups may share one. */
enum { KEY_MASKED = -2, KEY_HIDDEN = -1, KEY_PLAIN = 0 };
struct key_pattern {
    int queries, slots;
    const int *entry;  /* (queries, slots): KEY_PLAIN: nothing, 1 + i: row i of the table of biases,
                          KEY_HIDDEN: minus infinity, for what is no key of the query, KEY_MASKED: minus
                          infinity, for a key that it must not see; costs count it */
    const real *shift; /* (slots): added to all scores of a key; NULL: nothing */
};

/* Queries that see the same keys: some of the tokens, then some rows of a second table. A slot is a
 * place in this list. */
struct key_group {
    int queries, keys, rows;
    const int *query, *key, *row;      /* their numbers; rows NULL where there are none */
    const struct key_pattern *pattern; /* NULL: every key is seen, and nothing added */
};

struct sdpa_tables {
    int B, H, N, M, C, d, e; /* q: (B, H, N, d), k: (B, H, M, d), v: (B, H, M, e), of the second
                                table (B, H, C, d) and (B, H, C, e), y: (B, H, N, e) */
    double scale;
    int groups;
    const struct key_group *group;
    const int *first;      /* (groups + 1): queries of the groups before each; the last is N */
    const int *pattern_of; /* (groups): number of the pattern, or -1 */
    int patterns;
    const struct key_pattern *const *pattern;
    const size_t *pattern_at; /* (patterns + 1): entries of the patterns before each */
    bool biased;              /* whether there is a table of biases */
    const real *bias;         /* (entries, H), that table */
    int team;                 /* threads that there is scratch for; 0: 1 */
};

/* Scratch of one direction, in reals: grows with M + C + the patterns' entries + the largest group,
 * and with s->team. */
size_t kernel_sdpa_tables_scratch(const struct sdpa_tables *s, bool backward);

/* y = softmax(scale q k^T + what the pattern adds) v, over the keys of a query's group, for every
 * image and head; lse: (B, H, N), written, in the order of the groups' queries. The second table is
 * not read where C is 0. */
void kernel_sdpa_tables(struct heads y, real *lse, struct heads q, struct heads k, struct heads v,
                        struct heads row_k, struct heads row_v, const struct sdpa_tables *s,
                        real *scratch);

/* What kernel_sdpa_tables_grad writes and reads. Gradients with data NULL, and a dbias that is NULL,
 * are left out; for one image and head they are written in this order, so that some may be the same
 * memory. */
struct sdpa_tables_grad {
    struct heads dq, dk, dv, drow_k, drow_v;
    int beta_q, beta_k, beta_v, beta_row_k, beta_row_v;
    real *dbias; /* (entries, H), added to: the sum over the images in their order */
    struct heads q, k, v, row_k, row_v, y, dy;
    const real *lse;
};
void kernel_sdpa_tables_grad(const struct sdpa_tables_grad *g, const struct sdpa_tables *s,
                             real *scratch);

/* --- sets of tokens --------------------------------------------------------------------------- */

/* Set s holds token[first[s]] .. token[first[s + 1] - 1]. A token may be in several sets, or in
 * none. */
struct token_sets {
    int count;
    const int *first, *token;
};

/* A pooling of tokens x or k, v: (B, H, N, d), (B, H, N, e) to y: (B, H, count, e). */
struct set_pool {
    int B, H, N, d, e;
    struct token_sets sets;
    int team; /* threads that there is scratch for; 0: 1 */
};

/* Scratch of the gradients, in reals. */
size_t kernel_set_scratch(const struct set_pool *s);

/* y = sum of the tokens of each set over `divisor`, 0: over their number. e = d. */
void kernel_set_mean(struct heads y, struct heads x, double divisor, const struct set_pool *s);
void kernel_set_mean_grad(struct heads dx, int beta, struct heads dy, double divisor,
                          const struct set_pool *s, real *scratch);

/* Softmax attention of one query a set to the tokens of the set:
 *   y = sum over m of w_m v_m,  w = softmax over m of scale query . k_m - norm / 2 |k_m|^2
 * query: (B, H, count, d), any strides, 0 among them. weight: (B, H, members of all sets), written. */
struct set_softmax {
    struct set_pool pool;
    double scale, norm;
};
void kernel_set_softmax(struct heads y, real *weight, struct heads query, struct heads k,
                        struct heads v, const struct set_softmax *s);

/* Gradients; each with data NULL is left out, and they are written in this order for an image and
 * head. Where several queries share memory (a stride is 0) dquery wants beta 1. */
void kernel_set_softmax_grad(struct heads dquery, int beta_query, struct heads dk, int beta_k,
                             struct heads dv, int beta_v, struct heads query, struct heads k,
                             struct heads v, struct heads dy, const real *weight,
                             const struct set_softmax *s, real *scratch);

/* --- mixing of tokens ------------------------------------------------------------------------- */

/* One matrix for many groups of N rows, which lie one after the other in rows of D columns; the
 * columns are `parts` equal parts with a matrix each. In group g, a window of `windows`, rows t and j
 * mix where region[t] = region[j]. */
struct mix {
    int groups, N, D, parts;
    const real *W;               /* (parts, N, N) */
    int windows, patterns;       /* patterns 0: all rows mix, and the rest is not read */
    const int *pattern;          /* (windows): of group g is entry g mod windows; 0: all rows mix */
    const unsigned char *region; /* (patterns, N), of patterns 1 .. */
};

/* Scratch that both directions need, in reals. */
size_t kernel_mix_scratch(const struct mix *o);

/* y = beta y + op(W) x + bias 1^T for every group and part; op transposes, `bias` (N) may be NULL and
 * wants beta 0. bf16 is multiplied as in kernel_gemm, W being rounded where x is bf16 and the level
 * has such products. */
void kernel_mix(struct vec y, int beta, enum trans trans, struct vec x, const real *bias,
                const struct mix *o, real *scratch);

/* dW += sum over the groups, in their order, of dy x^T where rows mix; dbias += the sums of dy over
 * groups and columns. Each may be NULL. */
void kernel_mix_grad(real *dW, real *dbias, struct vec dy, struct vec x, const struct mix *o,
                     real *scratch);

/* --- parameters ------------------------------------------------------------------------------- */

/* sum[i] += x[i] for n elements. */
void kernel_sum_into(real *sum, const real *x, size_t n);

/* Sum of the squares, in double, in a fixed order. */
double kernel_sum_squares(const real *x, size_t n);

/* One AdamW update (Loshchilov and Hutter, arXiv:1711.05101, as PyTorch computes it) of n elements:
 *   g = scale g;  w = w (1 - lr decay);  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
 *   w = w - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps) */
struct adamw {
    double lr, decay, beta1, beta2, eps;
    double correction1, correction2; /* 1 - b1^t, 1 - b2^t */
    double scale;                    /* of the gradient: clipping */
};
void kernel_adamw(real *w, real *m, real *v, const real *g, size_t n, const struct adamw *o);

/* SGD with momentum as PyTorch computes it: g = scale g + decay w; m = momentum m + g;
 * w = w - lr m (nesterov: w - lr (g + momentum m)). */
struct sgd {
    double lr, decay, momentum, scale;
    bool nesterov;
};
void kernel_sgd(real *w, real *m, const real *g, size_t n, const struct sgd *o);

/* y = decay y + (1 - decay) x: moving averages of weights. */
void kernel_average(real *y, const real *x, size_t n, double decay);

#endif
