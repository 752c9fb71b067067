/* test_compose.c - ops against compositions of others, and against loops written out. */
#include "pair.h"

/* --- against other ops --------------------------------------------------------------------------
 */

static struct tensor *input(struct graph *g, struct shape shape)
{
    return graph_input(g, "x", TYPE_REAL, shape, true);
}

static struct tensor *param(struct graph *g, const char *name, struct shape shape)
{
    return graph_param(g, name, shape, INIT_NORMAL(1));
}

static struct tensor *linear_or_product(struct graph *g, bool product)
{
    struct tensor *x = input(g, SHAPE(2, 3, 5)), *W = param(g, "W", SHAPE(4, 5));
    return product ? op_matmul_nt(g, x, W) : op_linear(g, x, W, NULL);
}

static struct tensor *linear_of_columns(struct graph *g, bool copied)
{
    struct tensor *x = graph_columns(g, input(g, SHAPE(2, 3, 9)), 2, 5);
    struct tensor *W = param(g, "W", SHAPE(4, 5)), *bias = param(g, "bias", SHAPE(4));
    return op_linear(g, copied ? op_scale(g, x, 1) : x, W, bias);
}

static struct tensor *mix_or_product(struct graph *g, bool product)
{
    struct tensor *x = input(g, SHAPE(2, 3, 5)), *W = param(g, "W", SHAPE(3, 3));
    return product ? op_matmul(g, W, x) : op_token_mix(g, x, W, NULL);
}

static struct tensor *transposed_products(struct graph *g, bool second)
{
    struct tensor *a = input(g, SHAPE(2, 3, 4)), *b = input(g, SHAPE(2, 3, 5));
    struct tensor *c = input(g, SHAPE(2, 5, 6)), *ab = op_matmul_tn(g, a, b); /* (2, 4, 5) */
    if (second)
        return op_matmul(g, ab, c);
    return op_matmul_tn(g, a, op_matmul(g, b, c));
}

static struct tensor *scale_or_sum(struct graph *g, bool sum)
{
    struct tensor *x = input(g, SHAPE(2, 3, 5));
    return sum ? op_add(g, x, op_add(g, x, x)) : op_scale(g, x, 3);
}

static struct tensor *square_or_product(struct graph *g, bool sum)
{
    struct tensor *x = input(g, SHAPE(2, 3, 5)), *y = input(g, SHAPE(2, 3, 5));
    struct tensor *s = op_add(g, x, y);
    if (!sum)
        return op_multiply(g, s, s);
    struct tensor *xx = op_multiply(g, x, x), *yy = op_multiply(g, y, y);
    return op_add(g, op_add(g, xx, yy), op_scale(g, op_multiply(g, x, y), 2));
}

static struct tensor *pool_all_or_two(struct graph *g, bool two)
{
    struct tensor *x = input(g, SHAPE(2, 4, 5));
    if (!two)
        return op_pool(g, x, 0, 4);
    return op_scale(g, op_add(g, op_pool(g, x, 0, 2), op_pool(g, x, 2, 2)), 0.5);
}

/* The gradient of a pool is the first that is written, or added to another. */
static struct tensor *pool_and_reader(struct graph *g, bool early)
{
    struct tensor *x = input(g, SHAPE(2, 4, 5)), *h = op_scale(g, x, 1);
    struct tensor *first = early ? op_pool(g, h, 1, 1) : NULL;
    struct tensor *mean = op_pool(g, op_multiply(g, h, h), 0, 3);
    return op_multiply(g, mean, first ? first : op_pool(g, h, 1, 1));
}

static struct tensor *merged_before_or_after(struct graph *g, bool after)
{
    struct tensor *x = input(g, SHAPE(2, 3, 4, 5));
    return after ? op_gelu(g, op_merge_heads(g, x)) : op_merge_heads(g, op_gelu(g, x));
}

/* The token is position row 0, and x gets the other rows. */
static struct tensor *token_and_rows(struct graph *g, bool split)
{
    struct tensor *x = input(g, SHAPE(2, 3, 5)), *token = param(g, "token", SHAPE(1, 1, 5));
    struct tensor *rows = param(g, "rows", SHAPE(1, 4, 5));
    struct tensor *y = op_add_token(g, split ? op_scale(g, x, 1) : x, token);
    return op_add_rows(g, split ? op_scale(g, y, 1) : y, rows);
}

TEST(ops__agree_with_compositions_of_others)
{
    static const struct {
        const char *name;
        pair_record *record;
    } cases[] = {
        {"linear, matmul_nt", linear_or_product},
        {"linear of columns", linear_of_columns},
        {"token_mix, matmul", mix_or_product},
        {"(a^T b) c, a^T (b c)", transposed_products},
        {"scale, add", scale_or_sum},
        {"(x + y)^2", square_or_product},
        {"pool in two parts", pool_all_or_two},
        {"pool beside others", pool_and_reader},
        {"merge_heads", merged_before_or_after},
        {"token and rows", token_and_rows},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_about("%s", cases[i].name);
        check_pair(cases[i].record);
    }
}

/* --- against loops ------------------------------------------------------------------------------
 */

TEST(cross_entropy__is_minus_log_softmax_with_smoothing)
{
    enum { B = 6, K = 5 };
    const double s = 0.1;
    struct rig r;
    rig_begin(&r, B, false);
    struct tensor *x = op_scale(r.graph, input(r.graph, SHAPE(B, K)), 4);
    struct tensor *labels = graph_sample_labels(r.graph, B);
    rig_ready(&r, op_cross_entropy(r.graph, x, labels, s), B);
    r.labels[1][4] = -1; /* not counted */
    rig_run(&r);
    for (int b = 0; b < B; b++) {
        double sum = 0, want = 0;
        for (int c = 0; c < K; c++)
            sum += exp(4 * (double)r.x[0][K * b + c]);
        for (int c = 0; c < K; c++) {
            double p = exp(4 * (double)r.x[0][K * b + c]) / sum;
            double target = (c == r.labels[1][b] ? 1 - s : 0) + s / K;
            bool counts = r.labels[1][b] >= 0;
            want -= counts ? target * log(p) : 0;
            CHECK_NEAR(r.dx[0][K * b + c], counts ? 4 * (double)r.dy[b] * (p - target) : 0,
                       10 * rig_rounding);
        }
        CHECK_NEAR(r.y[b], want, 10 * rig_rounding);
    }
    rig_end(&r);
}

TEST(cross_entropy__of_large_logits_stays_finite)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *x = op_scale(r.graph, input(r.graph, SHAPE(2, 3)), 1e4);
    rig_ready(&r, op_cross_entropy(r.graph, x, graph_sample_labels(r.graph, 2), 0), 2);
    rig_run(&r);
    for (int i = 0; i < 2; i++)
        CHECK(isfinite(r.y[i]) && r.y[i] >= 0);
    for (int i = 0; i < 6; i++)
        CHECK(isfinite(r.dx[0][i]));
    rig_end(&r);
}

/* A strided convolution whose kernel is the patch. x: (B, C, H, W)  W: (D, C, h, w) */
struct conv {
    int B, C, H, W, h, w, D;
};

static size_t pixel(const struct conv *o, int b, int c, int i, int j)
{
    return (((size_t)b * (size_t)o->C + (size_t)c) * (size_t)o->H + (size_t)i) * (size_t)o->W +
           (size_t)j;
}

static size_t weight(const struct conv *o, int d, int c, int i, int j)
{
    return (((size_t)d * (size_t)o->C + (size_t)c) * (size_t)o->h + (size_t)i) * (size_t)o->w +
           (size_t)j;
}

/* Output d at patch (row, column) of image b, and its share of the gradients. */
static double convolve(const struct conv *o, const struct rig *r, double *dx, double *dW, int b,
                       int d, int row, int column, double dy)
{
    const real *W = rig_value(r, "W");
    double sum = 0;
    for (int c = 0; c < o->C; c++)
        for (int i = 0; i < o->h; i++)
            for (int j = 0; j < o->w; j++) {
                size_t at = pixel(o, b, c, row * o->h + i, column * o->w + j);
                size_t k = weight(o, d, c, i, j);
                sum += (double)r->x[0][at] * (double)W[k];
                dx[at] += dy * (double)W[k];
                dW[k] += dy * (double)r->x[0][at];
            }
    return sum;
}

TEST(patchify__with_linear_is_a_strided_convolution)
{
    const struct conv o = {.B = 2, .C = 3, .H = 6, .W = 12, .h = 2, .w = 4, .D = 5};
    double dx[2 * 3 * 6 * 12] = {0}, dW[5 * 3 * 2 * 4] = {0};
    struct rig r;
    rig_begin(&r, o.B, false);
    struct tensor *x = input(r.graph, SHAPE(o.B, o.C, o.H, o.W));
    struct tensor *W = param(r.graph, "W", SHAPE(o.D, o.C, o.h, o.w));
    rig_ready(&r, op_linear(r.graph, op_patchify(r.graph, x, o.h, o.w), W, NULL), o.B);
    rig_run(&r);
    size_t at = 0;
    for (int b = 0; b < o.B; b++)
        for (int row = 0; row < o.H / o.h; row++)
            for (int column = 0; column < o.W / o.w; column++)
                for (int d = 0; d < o.D; d++, at++)
                    CHECK_NEAR(r.y[at],
                               convolve(&o, &r, dx, dW, b, d, row, column, (double)r.dy[at]),
                               10 * rig_rounding);
    CHECK_INT(at, r.y_count);
    for (size_t i = 0; i < r.count[0]; i++)
        CHECK_NEAR(r.dx[0][i], dx[i], 10 * rig_rounding);
    for (size_t i = 0; i < sizeof dW / sizeof dW[0]; i++)
        CHECK_NEAR(rig_grad(&r, "W")[i], dW[i], 10 * rig_rounding);
    rig_end(&r);
}

TEST(pool__is_the_mean_of_the_named_tokens)
{
    struct rig r;
    rig_begin(&r, 2, false);
    rig_ready(&r, op_pool(r.graph, input(r.graph, SHAPE(2, 4, 3)), 1, 2), 2);
    rig_run(&r);
    for (int b = 0; b < 2; b++)
        for (int c = 0; c < 3; c++) {
            const real *x = r.x[0] + 12 * b + c, *dx = r.dx[0] + 12 * b + c;
            double half = (double)r.dy[3 * b + c] / 2;
            CHECK_NEAR(r.y[3 * b + c], ((double)x[3] + (double)x[6]) / 2, rig_rounding);
            CHECK_NEAR(dx[0], 0, 0);
            CHECK_NEAR(dx[3], half, rig_rounding);
            CHECK_NEAR(dx[6], half, rig_rounding);
            CHECK_NEAR(dx[9], 0, 0);
        }
    rig_end(&r);
}

TEST(token_mix__has_a_matrix_for_each_part_of_the_columns_and_a_bias_for_each_row)
{
    enum { B = 2, N = 3, D = 4, H = 2 };
    struct rig r;
    rig_begin(&r, B, false);
    struct tensor *x = input(r.graph, SHAPE(B, N, D));
    struct tensor *W = param(r.graph, "W", SHAPE(H, N, N)), *bias = param(r.graph, "b", SHAPE(N));
    rig_ready(&r, op_token_mix(r.graph, x, W, bias), B);
    rig_run(&r);
    const real *w = rig_value(&r, "W"), *add = rig_value(&r, "b");
    double dx[B * N * D] = {0}, dW[H * N * N] = {0}, db[N] = {0};
    for (int b = 0; b < B; b++)
        for (int t = 0; t < N; t++)
            for (int c = 0; c < D; c++) {
                double want = (double)add[t], dy = (double)r.dy[(b * N + t) * D + c];
                for (int j = 0; j < N; j++) {
                    int k = (c / (D / H) * N + t) * N + j, from = (b * N + j) * D + c;
                    want += (double)w[k] * (double)r.x[0][from];
                    dx[from] += dy * (double)w[k];
                    dW[k] += dy * (double)r.x[0][from];
                }
                db[t] += dy;
                CHECK_NEAR(r.y[(b * N + t) * D + c], want, 10 * rig_rounding);
            }
    for (int i = 0; i < B * N * D; i++)
        CHECK_NEAR(r.dx[0][i], dx[i], 10 * rig_rounding);
    for (int i = 0; i < H * N * N; i++)
        CHECK_NEAR(rig_grad(&r, "W")[i], dW[i], 10 * rig_rounding);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(rig_grad(&r, "b")[i], db[i], 10 * rig_rounding);
    rig_end(&r);
}

TEST(layer_norm__gives_rows_of_mean_zero_and_variance_one)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *x = input(r.graph, SHAPE(2, 3, 16));
    struct tensor *w = graph_param(r.graph, "w", SHAPE(16), INIT_ONES);
    struct tensor *b = graph_param(r.graph, "b", SHAPE(16), INIT_ZEROS);
    rig_ready(&r, op_layer_norm(r.graph, x, w, b, 0), 2);
    for (int i = 0; i < 16; i++)
        r.x[0][i] += 1000; /* a mean far above the deviation */
    rig_run(&r);
    for (int row = 0; row < 6; row++) {
        double sum = 0, squares = rig_dot(r.y + 16 * row, r.y + 16 * row, 16), dx = 0;
        for (int c = 0; c < 16; c++) {
            sum += (double)r.y[16 * row + c];
            dx += (double)r.dx[0][16 * row + c];
        }
        double tolerance = row ? 20 * rig_rounding : 1e4 * rig_rounding;
        CHECK_NEAR(sum, 0, tolerance);
        CHECK_NEAR(squares, 16, tolerance);
        CHECK_NEAR(dx, 0, 20 * rig_rounding);
        CHECK_NEAR(rig_dot(r.dx[0] + 16 * row, r.y + 16 * row, 16), 0, tolerance);
    }
    rig_end(&r);
}
