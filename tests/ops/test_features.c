/* test_features.c - the ops that feature maps are made of, against compositions of others. */
#include "pair.h"

enum { B = 2, N = 3, H = 2, D = 4 };

static struct tensor *input(struct graph *g, struct shape shape)
{
    return graph_input(g, "x", TYPE_REAL, shape, true);
}

static struct tensor *param(struct graph *g, const char *name, struct shape shape)
{
    return graph_param(g, name, shape, INIT_NORMAL(1));
}

/* (n, n), or (n, 1). */
static struct tensor *identity(struct graph *g, int n)
{
    real *values = arena_alloc(&g->memory, (size_t)n * (size_t)n * sizeof *values);
    CHECK(values != NULL);
    for (int i = 0; i < n; i++)
        values[i * n + i] = 1;
    return graph_constant(g, SHAPE(n, n), values);
}

static struct tensor *ones(struct graph *g, int n)
{
    static const real values[] = {1, 1, 1, 1, 1, 1, 1, 1};
    return graph_constant(g, SHAPE(n, 1), values);
}

/* --- operands that are repeated -----------------------------------------------------------------
 */

static struct tensor *times_row(struct graph *g, bool cols)
{
    struct tensor *x = input(g, SHAPE(B, N, D)), *gamma = param(g, "gamma", SHAPE(D));
    return cols ? op_scale_cols(g, x, gamma) : op_multiply_broadcast(g, x, gamma);
}

static struct tensor *plus_rows(struct graph *g, bool rows)
{
    struct tensor *x = input(g, SHAPE(B, N, D)), *p = param(g, "p", SHAPE(1, N, D));
    return rows ? op_add_rows(g, x, p) : op_add_broadcast(g, x, p, 0);
}

/* A row for each head of each sample, once as a matrix of equal rows. */
static struct tensor *times_heads(struct graph *g, bool written_out)
{
    struct tensor *x = graph_split_heads(g, input(g, SHAPE(B, N, H * D)), H);
    struct tensor *row = input(g, SHAPE(B, H, 1, D));
    row = op_multiply(g, row, row);
    if (!written_out)
        return op_multiply_broadcast(g, x, row);
    return op_multiply(g, x, op_matmul(g, ones(g, N), row));
}

static struct tensor *plus_heads(struct graph *g, bool written_out)
{
    struct tensor *x = graph_split_heads(g, input(g, SHAPE(B, N, H * D)), H);
    struct tensor *row = input(g, SHAPE(B, H, 1, D));
    row = op_multiply(g, row, row);
    if (!written_out)
        return op_add_broadcast(g, x, row, 0);
    return op_add(g, x, op_matmul(g, ones(g, N), row));
}

/* A row for each head of all samples, once as a matrix for each head. */
static struct tensor *times_heads_of_all(struct graph *g, bool matrix)
{
    struct tensor *x = input(g, SHAPE(B, H, N, D)), *row = param(g, "row", SHAPE(H, 1, D));
    return op_multiply_broadcast(g, x, matrix ? op_matmul(g, ones(g, N), row) : row);
}

/* The first tokens stay as they are: once as rows of zeros. */
static struct tensor *plus_patches(struct graph *g, bool padded)
{
    static const real shifted[N * (N - 1)] = {0, 0, 1, 0, 0, 1};
    struct tensor *x = input(g, SHAPE(B, N, D)), *p = param(g, "p", SHAPE(N - 1, D));
    if (!padded)
        return op_add_broadcast(g, x, p, 1);
    return op_add_broadcast(g, x, op_matmul(g, graph_constant(g, SHAPE(N, N - 1), shifted), p), 0);
}

/* x (s + t) + s - t with numbers s and t, once as rows of equal numbers. */
static struct tensor *numbers(struct graph *g, bool rows)
{
    struct tensor *x = input(g, SHAPE(B, H, N, D));
    struct tensor *s = param(g, "s", SHAPE(1)), *t = param(g, "t", SHAPE(1));
    struct tensor *sum = op_add(g, s, t), *difference = op_add(g, s, op_scale(g, t, -1));
    if (rows) {
        sum = op_matmul(g, ones(g, D), graph_reshape(g, sum, SHAPE(1, 1)));
        difference = op_matmul(g, ones(g, D), graph_reshape(g, difference, SHAPE(1, 1)));
        sum = graph_reshape(g, sum, SHAPE(D));
        difference = graph_reshape(g, difference, SHAPE(D));
    }
    return op_add_broadcast(g, op_multiply_broadcast(g, x, sum), difference, 0);
}

static struct tensor *times_constant(struct graph *g, bool split)
{
    static const real both[D] = {1, -2, 0.5, 3}, one[D] = {-1, 4, 0.25, 1};
    static const real rest[D] = {-1, -0.5, 2, 3};
    struct tensor *x = input(g, SHAPE(B, N, D));
    if (!split)
        return op_multiply_broadcast(g, x, graph_constant(g, SHAPE(D), both));
    x = op_multiply_broadcast(g, x, graph_constant(g, SHAPE(D), one));
    return op_multiply_broadcast(g, x, graph_constant(g, SHAPE(D), rest));
}

/* --- over the tokens ----------------------------------------------------------------------------
 */

static const unsigned char region[2 * N] = {7, 7, 7, 5, 9, 5};
static const struct token_regions regions = {.windows = 2, .tokens = N, .id = region};

static struct tensor *mean_or_pool(struct graph *g, bool pool)
{
    struct tensor *x = input(g, SHAPE(B, N, D));
    if (!pool)
        return graph_reshape(g, op_token_mean(g, x, NULL), SHAPE(B, D));
    return op_pool(g, x, 0, N);
}

static struct tensor *centred(struct graph *g, bool written_out)
{
    struct tensor *x = graph_split_heads(g, input(g, SHAPE(B, N, H * D)), H);
    if (!written_out)
        return op_token_centre(g, x, NULL);
    struct tensor *mean = op_matmul(g, ones(g, N), op_token_mean(g, x, NULL));
    return op_add(g, x, op_scale(g, mean, -1));
}

/* The means of each region as a product with the matrix of its window. */
static struct tensor *region_means(struct graph *g, bool product)
{
    const real third = (real)(1.0 / 3);
    const real mean[2 * N * N] = {third, third, third, third, third, third, third, third, third,
                                  0.5,   0,     0.5,   0,     1,     0,     0.5,   0,     0.5};
    struct tensor *x = input(g, SHAPE(B, N, D));
    if (product)
        return op_matmul(g, graph_constant(g, SHAPE(B, N, N), mean), x);
    return op_token_mean(g, x, &regions);
}

static struct tensor *region_centred(struct graph *g, bool written_out)
{
    struct tensor *x = graph_split_heads(g, input(g, SHAPE(B, N, H * D)), H);
    if (!written_out)
        return op_token_centre(g, x, &regions);
    return op_add(g, x, op_scale(g, op_token_mean(g, x, &regions), -1));
}

/* Softmax down the columns is that along the rows of the transpose. */
static struct tensor *token_softmax(struct graph *g, bool transposed)
{
    struct tensor *x = graph_split_heads(g, input(g, SHAPE(B, N, H * D)), H);
    if (!transposed)
        return op_token_softmax(g, x, NULL);
    x = op_softmax(g, op_matmul_tn(g, x, identity(g, N)));
    return op_matmul_tn(g, x, identity(g, D));
}

/* exp x over its sum in the region: N times the mean, by the number of tokens. */
static struct tensor *region_softmax(struct graph *g, bool product)
{
    const real sum[2 * N * N] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1};
    struct tensor *x = input(g, SHAPE(B, N, D));
    struct tensor *y = op_token_softmax(g, x, &regions), *e = op_map(g, x, MAP_EXP);
    struct tensor *sums = op_matmul(g, graph_constant(g, SHAPE(B, N, N), sum), e);
    return product ? op_multiply(g, y, sums) : e;
}

/* --- columns ------------------------------------------------------------------------------------
 */

/* [2 a, b] W^T = 2 a U^T + b V^T, W = [U, V] */
static struct tensor *concatenated(struct graph *g, bool in_parts)
{
    struct tensor *x = input(g, SHAPE(B, N, 12)), *W = param(g, "W", SHAPE(5, 6));
    struct tensor *a = graph_split_heads(g, graph_columns(g, x, 0, 4), H);
    struct tensor *b = graph_split_heads(g, graph_columns(g, x, 4, 8), H);
    struct tensor *both[] = {a, b};
    if (!in_parts)
        return op_matmul_nt(g, op_concat_cols(g, both, 2, (const double[]){2, 1}), W);
    return op_add(g, op_matmul_nt(g, op_scale(g, a, 2), graph_columns(g, W, 0, 2)),
                  op_matmul_nt(g, b, graph_columns(g, W, 2, 4)));
}

/* [q, gamma, 3][k, gamma, 3]^T = q k^T + gamma^2 + 9 */
static struct tensor *with_constants(struct graph *g, bool added)
{
    static const real three = 3, nine = 9;
    struct tensor *q = input(g, SHAPE(B, H, N, D)), *k = input(g, SHAPE(B, H, N, D));
    struct tensor *gamma = param(g, "gamma", SHAPE(1));
    if (added) {
        struct tensor *y =
            op_add_broadcast(g, op_matmul_nt(g, q, k), op_multiply(g, gamma, gamma), 0);
        return op_add_broadcast(g, y, graph_constant(g, SHAPE(1), &nine), 0);
    }
    struct tensor *c = graph_constant(g, SHAPE(1), &three);
    struct tensor *a[] = {q, gamma, c}, *f[] = {k, gamma, c};
    return op_matmul_nt(g, op_concat_cols(g, a, 3, NULL), op_concat_cols(g, f, 3, NULL));
}

/* A row for each sample and a table for all of them beside a tensor. */
static struct tensor *with_rows(struct graph *g, bool whole)
{
    struct tensor *x = input(g, SHAPE(B, H, N, D)), *row = input(g, SHAPE(B, 1, 1, 2));
    struct tensor *table = param(g, "table", SHAPE(N, 3));
    row = op_multiply(g, row, row);
    if (!whole)
        return op_concat_cols(g, (struct tensor *[]){x, table, row}, 3, NULL);
    struct tensor *zero = op_scale(g, graph_columns(g, x, 0, 3), 0);
    struct tensor *zeros = op_scale(g, graph_columns(g, x, 0, 2), 0);
    return op_concat_cols(g,
                          (struct tensor *[]){x, op_add_broadcast(g, zero, table, 0),
                                              op_add_broadcast(g, zeros, row, 0)},
                          3, NULL);
}

/* Scalar products of outer products are squares of scalar products. */
static struct tensor *squares(struct graph *g, bool symmetric, bool features)
{
    struct tensor *q = graph_split_heads(g, input(g, SHAPE(B, N, H * 6)), H);
    struct tensor *k = graph_split_heads(g, input(g, SHAPE(B, N, H * 6)), H), *y = NULL;
    if (features && symmetric)
        return op_matmul_nt(g, op_outer_symmetric(g, q, 2), op_outer_symmetric(g, k, 2));
    if (features)
        return op_matmul_nt(g, op_outer(g, q, 2), op_outer(g, k, 2));
    for (int i = 0; i < 2; i++) { /* of heads of their own, whose columns are no column of x */
        static const real select[2][18] = {{1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0},
                                           {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1}};
        struct tensor *part = graph_constant(g, SHAPE(3, 6), select[i]);
        struct tensor *s = op_matmul_nt(g, op_matmul_nt(g, q, part), op_matmul_nt(g, k, part));
        s = op_multiply(g, s, s);
        y = y ? op_add(g, y, s) : s;
    }
    return y;
}

static struct tensor *full_squares(struct graph *g, bool features)
{
    return squares(g, false, features);
}

static struct tensor *symmetric_squares(struct graph *g, bool features)
{
    return squares(g, true, features);
}

/* A matrix for each head of all samples, once beside matrices that agree. */
static struct tensor *head_matrices(struct graph *g, bool on_the_left)
{
    struct tensor *x = input(g, SHAPE(B, H, N, D)), *W = param(g, "W", SHAPE(H, D, D));
    if (!on_the_left)
        return op_matmul_nt(g, x, W);
    struct tensor *y = op_matmul(g, W, op_matmul_tn(g, x, identity(g, N))); /* W x^T */
    return op_matmul_tn(g, y, identity(g, D));
}

/* --- all of them --------------------------------------------------------------------------------
 */

TEST(features__agree_with_compositions)
{
    static const struct {
        const char *name;
        pair_record *record;
    } cases[] = {
        {"a row for all, scale_cols", times_row},
        {"rows for all, add_rows", plus_rows},
        {"times a row of each head", times_heads},
        {"plus a row of each head", plus_heads},
        {"times a row of heads of all samples", times_heads_of_all},
        {"plus rows from a token on", plus_patches},
        {"numbers", numbers},
        {"constants", times_constant},
        {"token_mean, pool", mean_or_pool},
        {"token_centre", centred},
        {"token_mean of regions", region_means},
        {"token_centre of regions", region_centred},
        {"token_softmax", token_softmax},
        {"token_softmax of regions", region_softmax},
        {"concat_cols", concatenated},
        {"concat_cols with constants", with_constants},
        {"concat_cols with rows", with_rows},
        {"outer", full_squares},
        {"outer, symmetric", symmetric_squares},
        {"matmul with a matrix for each head", head_matrices},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_about("%s", cases[i].name);
        check_pair(cases[i].record);
    }
}

TEST(matmul_real__keeps_the_products_of_bf16)
{
    struct rig r;
    rig_begin(&r, B, false);
    r.graph->options.type = TYPE_BF16;
    struct tensor *x = op_stored(r.graph, input(r.graph, SHAPE(B, N, D)));
    CHECK_INT(op_matmul_nt(r.graph, x, x)->type, TYPE_BF16);
    CHECK_INT(op_matmul_nt_real(r.graph, x, x)->type, TYPE_REAL);
    CHECK_INT(op_matmul_tn_real(r.graph, x, x)->type, TYPE_REAL);
    CHECK_INT(op_matmul_real(r.graph, x, identity(r.graph, D))->type, TYPE_REAL);
    rig_end(&r);
}

TEST(cast__is_left_out_where_nothing_changes)
{
    struct rig r;
    rig_begin(&r, B, false);
    struct tensor *x = input(r.graph, SHAPE(B, N, D));
    CHECK(op_real(r.graph, x) == x && op_stored(r.graph, x) == x);
    r.graph->options.type = TYPE_BF16;
    CHECK_INT(op_stored(r.graph, x)->type, TYPE_BF16);
    CHECK_INT(op_map(r.graph, op_stored(r.graph, x), MAP_RELU)->type, TYPE_REAL);
    CHECK_INT(op_map_stored(r.graph, x, MAP_RELU)->type, TYPE_BF16);
    rig_end(&r);
}

TEST(layer_norm__without_weights_has_rows_of_mean_0_and_variance_1)
{
    static const real one[D] = {1, 1, 1, 1}, zero[D];
    struct rig r;
    rig_begin(&r, B, false);
    struct tensor *x = op_scale(r.graph, input(r.graph, SHAPE(B, N, D)), 5);
    rig_ready(&r,
              op_layer_norm(r.graph, x, graph_constant(r.graph, SHAPE(D), one),
                            graph_constant(r.graph, SHAPE(D), zero), 0),
              B);
    rig_run(&r);
    for (int row = 0; row < B * N; row++) {
        double sum = 0, squares = 0;
        for (int c = 0; c < D; c++) {
            sum += (double)r.y[row * D + c];
            squares += (double)r.y[row * D + c] * (double)r.y[row * D + c];
        }
        CHECK_NEAR(sum, 0, 10 * rig_rounding);
        CHECK_NEAR(squares, D, 10 * rig_rounding);
    }
    CHECK_INT(r.params.count, 0);
    rig_end(&r);
}

TEST(normalize__of_a_zero_row_is_zero_and_so_is_its_gradient)
{
    struct rig r;
    rig_begin(&r, B, false);
    rig_ready(&r, op_normalize(r.graph, input(r.graph, SHAPE(B, N, D)), 2, 1e-6), B);
    for (int c = 0; c < D / 2; c++)
        r.x[0][c] = 0;
    rig_run(&r);
    for (int row = 0; row < 2 * B * N; row++) {
        double norm = rig_norm(r.y + row * D / 2, D / 2);
        CHECK_NEAR(norm, row > 0, 10 * rig_rounding);
        CHECK((rig_norm(r.dx[0] + row * D / 2, D / 2) > 0) == (row > 0));
    }
    rig_end(&r);
}
