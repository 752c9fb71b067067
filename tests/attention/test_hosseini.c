/* test_hosseini.c - identities that hold between standard, optimized, efficient and super attention
 * (Hosseini and Hosseini, arXiv:2403.01643) and inside each of them. Weights lie as out x in: the
 * paper's Q = X W is x W^T here. I1, I2, ... number the identities. */
#include "layer.h"
#include "nn/nn.h"

enum { B = 2, N = 5, D = 6, H = 3 };

static const char standard[] = "\"standard\"", optimized[] = "\"optimized\"";
static const char efficient[] = "\"efficient\"", super[] = "\"super\"";
static const char super_bias[] = "{\"name\": \"super\", \"wa_bias\": true}";

static void begin(struct layer *l, const char *json)
{
    layer_begin(l, json, layer_site(B, N, D, H));
}

/* Weight and bias of the output projection. */
static void copy_proj(struct layer *to, const struct layer *from)
{
    layer_copy_rows(to, "proj.weight", 0, from, "proj.weight", 0, D);
    layer_copy_rows(to, "proj.bias", 0, from, "proj.bias", 0, D);
}

/* Rows of weight and bias of the input projections. */
static void copy_inner(struct layer *to, const char *to_name, int to_first,
                       const struct layer *from, const char *from_name, int from_first, int rows)
{
    const char *kind[] = {"weight", "bias"};
    for (int i = 0; i < 2; i++)
        layer_copy_rows(to, test_text("%s.%s", to_name, kind[i]), to_first, from,
                        test_text("%s.%s", from_name, kind[i]), from_first, rows);
}

static void set_zero(struct layer *l, const char *name)
{
    memset(layer_value(l, name), 0, layer_count(l, name) * sizeof(real));
}

/* Outputs and gradients of x are the same within a few roundings. */
static void check_equal(struct layer *a, struct layer *b)
{
    rig_run(&a->rig);
    rig_run(&b->rig);
    CHECK(rig_norm(b->rig.y, b->rig.y_count) > 0.1);
    CHECK_NEAR(rig_distance(a->rig.y, b->rig.y, b->rig.y_count), 0, rig_rounding / 10);
    CHECK_NEAR(rig_distance(a->rig.dx[0], b->rig.dx[0], b->rig.count[0]), 0, rig_rounding);
}

static void check_equal_grads(const struct layer *a, const char *a_name, const struct layer *b,
                              const char *b_name)
{
    size_t n = layer_count(b, b_name);
    CHECK(rig_norm(layer_grad(b, b_name), n) > 1e-3);
    CHECK_NEAR(rig_distance(layer_grad(a, a_name), layer_grad(b, b_name), n), 0, rig_rounding);
}

TEST(standard__with_values_not_projected_is_optimized) /* I1 */
{
    struct layer s, o;
    begin(&s, standard);
    begin(&o, optimized);
    copy_inner(&s, "qkv", 0, &o, "qk", 0, 2 * D);
    layer_identity(layer_value(&s, "qkv.weight") + 2 * D * D, D);
    memset(layer_value(&s, "qkv.bias") + 2 * D, 0, D * sizeof(real));
    copy_proj(&s, &o);
    check_equal(&s, &o);
    check_equal_grads(&s, "proj.weight", &o, "proj.weight");
    CHECK_NEAR(rig_distance(layer_grad(&s, "qkv.weight"), layer_grad(&o, "qk.weight"), 2 * D * D),
               0, rig_rounding);
    layer_end(&s);
    layer_end(&o);
}

TEST(optimized__with_keys_not_projected_is_efficient) /* I2 */
{
    struct layer o, e;
    begin(&o, optimized);
    begin(&e, efficient);
    copy_inner(&o, "qk", 0, &e, "q", 0, D);
    layer_identity(layer_value(&o, "qk.weight") + D * D, D);
    memset(layer_value(&o, "qk.bias") + D, 0, D * sizeof(real));
    copy_proj(&o, &e);
    check_equal(&o, &e);
    check_equal_grads(&o, "proj.weight", &e, "proj.weight");
    layer_end(&o);
    layer_end(&e);
}

TEST(super__with_the_identity_as_kernel_is_its_base) /* I3 */
{
    static const char *const base[][2] = {
        {"efficient", "q"}, {"optimized", "qk"}, {"standard", "qkv"}};
    for (int i = 0; i < 3; i++) {
        struct layer s, e;
        test_about("base %s", base[i][0]);
        begin(&s,
              test_text("{\"name\": \"super\", \"base\": \"%s\", \"wa_bias\": true}", base[i][0]));
        begin(&e, test_text("\"%s\"", base[i][0]));
        copy_inner(&s, base[i][1], 0, &e, base[i][1], 0, (i + 1) * D);
        layer_identity(layer_value(&s, "align.weight"), N);
        set_zero(&s, "align.bias");
        copy_proj(&s, &e);
        check_equal(&s, &e);
        const char *weight = test_text("%s.weight", base[i][1]);
        check_equal_grads(&s, weight, &e, weight);
        check_equal_grads(&s, "proj.weight", &e, "proj.weight");
        layer_end(&s);
        layer_end(&e);
    }
}

/* Keys' projection into that of the queries, values' into that of the output: W^Q W^K^T, b_Q W^K^T,
 * W^V W^O, b_V W^O + b_O. */
static void absorb(struct layer *e, const struct layer *s)
{
    const real *q = layer_value(s, "qkv.weight"), *k = q + D * D, *v = k + D * D;
    const real *bias = layer_value(s, "qkv.bias"), *o = layer_value(s, "proj.weight");
    for (int i = 0; i < D; i++) {
        double b_q = 0, b_o = (double)layer_value(s, "proj.bias")[i];
        for (int m = 0; m < D; m++) {
            b_q += (double)bias[m] * (double)k[m * D + i];
            b_o += (double)bias[2 * D + m] * (double)o[i * D + m];
        }
        layer_value(e, "q.bias")[i] = (real)b_q;
        layer_value(e, "proj.bias")[i] = (real)b_o;
        for (int j = 0; j < D; j++) {
            double w_q = 0, w_o = 0;
            for (int m = 0; m < D; m++) {
                w_q += (double)k[m * D + i] * (double)q[m * D + j];
                w_o += (double)o[i * D + m] * (double)v[m * D + j];
            }
            layer_value(e, "q.weight")[i * D + j] = (real)w_q;
            layer_value(e, "proj.weight")[i * D + j] = (real)w_o;
        }
    }
}

TEST(efficient__absorbs_keys_and_values_of_one_head) /* I4 */
{
    struct layer s, e;
    layer_begin(&s, standard, layer_site(B, N, D, 1));
    layer_begin(&e, efficient, layer_site(B, N, D, 1));
    absorb(&e, &s);
    check_equal(&s, &e);
    layer_end(&s);
    layer_end(&e);
}

TEST(efficient__absorbs_keys_and_values_that_keep_to_their_heads_and_no_others) /* I5 */
{
    struct layer s, e;
    begin(&s, standard);
    begin(&e, efficient);
    absorb(&e, &s);
    rig_run(&s.rig);
    rig_run(&e.rig);
    CHECK(rig_distance(s.rig.y, e.rig.y, e.rig.y_count) > 1e-2);
    for (int i = D; i < 3 * D; i++)
        for (int j = 0; j < D; j++)
            if (i % D / (D / H) != j / (D / H))
                layer_value(&s, "qkv.weight")[i * D + j] = 0;
    absorb(&e, &s);
    check_equal(&s, &e);
    layer_end(&s);
    layer_end(&e);
}

TEST(key_bias__changes_nothing_and_has_no_gradient) /* I6 */
{
    static const char *const names[][2] = {{"standard", "qkv.bias"}, {"optimized", "qk.bias"}};
    for (int i = 0; i < 2; i++) {
        struct layer a, b;
        test_about("%s", names[i][0]);
        begin(&a, test_text("\"%s\"", names[i][0]));
        begin(&b, test_text("\"%s\"", names[i][0]));
        rig_random(layer_value(&a, names[i][1]) + D, D, "another key bias", 1);
        check_equal(&a, &b);
        const real *grad = layer_grad(&a, names[i][1]);
        CHECK_NEAR(rig_norm(grad + D, D) / rig_norm(grad, D), 0, rig_rounding);
        layer_end(&a);
        layer_end(&b);
    }
}

TEST(value_bias__shifts_every_row_by_its_output_projection) /* I7 */
{
    struct layer l;
    real delta[D];
    begin(&l, standard);
    rig_run(&l.rig);
    real *before = rig_copy(&l.rig, l.rig.y, l.rig.y_count);
    rig_random(delta, D, "delta", 1);
    for (int i = 0; i < D; i++)
        layer_value(&l, "qkv.bias")[2 * D + i] += delta[i];
    rig_run(&l.rig);
    for (int row = 0; row < B * N; row++)
        for (int c = 0; c < D; c++)
            CHECK_NEAR(l.rig.y[row * D + c] - before[row * D + c],
                       rig_dot(delta, layer_value(&l, "proj.weight") + c * D, D),
                       10 * rig_rounding);
    layer_end(&l);
}

/* --- permutations -------------------------------------------------------------------------------
 */

static const int permutation[N] = {3, 0, 4, 1, 2};

/* to[b, t] = from[b, permutation[t]] */
static void permute_rows(real *to, const real *from)
{
    for (int row = 0; row < B * N; row++)
        memcpy(to + row * D, from + (row / N * N + permutation[row % N]) * D, D * sizeof *to);
}

/* |f(P x) - P f(x)| relative, where `change` may alter the kernel for P x. */
static double equivariance_error(struct layer *l, void (*change)(struct layer *))
{
    real *x = rig_copy(&l->rig, l->rig.x[0], l->rig.count[0]);
    real *want = rig_copy(&l->rig, x, l->rig.count[0]);
    rig_run(&l->rig);
    permute_rows(want, l->rig.y);
    permute_rows(l->rig.x[0], x);
    if (change)
        change(l);
    rig_run(&l->rig);
    return rig_distance(l->rig.y, want, l->rig.y_count);
}

/* P W P^T */
static void permute_kernel(struct layer *l)
{
    real *W = layer_value(l, "align.weight"), *old = rig_copy(&l->rig, W, N * N);
    for (int t = 0; t < N; t++)
        for (int j = 0; j < N; j++)
            W[t * N + j] = old[permutation[t] * N + permutation[j]];
}

TEST(permuted_tokens__give_permuted_outputs_unless_a_kernel_mixes_them) /* I8 */
{
    static const char *const json[] = {standard, optimized, efficient};
    struct layer l;
    for (int i = 0; i < 3; i++) {
        test_about("%s", json[i]);
        begin(&l, json[i]);
        CHECK_NEAR(equivariance_error(&l, NULL), 0, rig_rounding);
        layer_end(&l);
    }
    test_about("super, kernel permuted too");
    begin(&l, super);
    CHECK_NEAR(equivariance_error(&l, permute_kernel), 0, rig_rounding);
    layer_end(&l);
    test_about("super, kernel 2 I + 3 1 1^T");
    begin(&l, super);
    for (int i = 0; i < N * N; i++)
        layer_value(&l, "align.weight")[i] = i / N == i % N ? 5 : 3;
    CHECK_NEAR(equivariance_error(&l, NULL), 0, rig_rounding);
    layer_end(&l);
    test_about("super, any kernel");
    begin(&l, super);
    CHECK(equivariance_error(&l, NULL) > 1e-2);
    layer_end(&l);
}

TEST(super__with_a_permutation_as_kernel_permutes_values_alone) /* I11 */
{
    struct layer s;
    struct rig e;
    begin(&s, super);
    for (int i = 0; i < N * N; i++)
        layer_value(&s, "align.weight")[i] = permutation[i / N] == i % N;
    rig_run(&s.rig);

    rig_begin(&e, B, false);
    struct tensor *x = graph_input(e.graph, "x", TYPE_REAL, SHAPE(B, N, D), true);
    struct tensor *values = graph_input(e.graph, "values", TYPE_REAL, SHAPE(B, N, D), true), *q;
    nn_heads(e.graph, "attn.q", x, 1, H, true, &q);
    struct tensor *y = op_sdpa(e.graph, q, graph_split_heads(e.graph, x, H),
                               graph_split_heads(e.graph, values, H), attn_scale(&s.site));
    rig_ready(&e, nn_linear(e.graph, "attn.proj", op_merge_heads(e.graph, y), D), B);
    rig_randomize(&e, 1);
    permute_rows(e.x[1], e.x[0]);
    rig_run(&e);
    CHECK_NEAR(rig_distance(s.rig.y, e.y, e.y_count), 0, rig_rounding);
    layer_end(&s);
    rig_end(&e);
}

/* --- special weights ----------------------------------------------------------------------------
 */

/* Mean over the tokens of image b of `rows` (B, N, D). */
static void token_mean(double mean[D], const real *rows, int b)
{
    for (int c = 0; c < D; c++) {
        mean[c] = 0;
        for (int t = 0; t < N; t++)
            mean[c] += (double)rows[(b * N + t) * D + c] / N;
    }
}

/* Every row of y is mean(rows) W^O + b_O. */
static void check_projected_mean(const struct layer *l, const real *rows)
{
    for (int b = 0; b < B; b++) {
        double mean[D];
        token_mean(mean, rows, b);
        for (int t = 0; t < N; t++)
            for (int c = 0; c < D; c++) {
                double want = (double)layer_value(l, "proj.bias")[c];
                for (int m = 0; m < D; m++)
                    want += mean[m] * (double)layer_value(l, "proj.weight")[c * D + m];
                CHECK_NEAR(l->rig.y[(b * N + t) * D + c], want, 10 * rig_rounding);
            }
    }
}

TEST(queries_of_zero__give_the_mean_of_the_values) /* I9 */
{
    struct layer l;
    begin(&l, efficient);
    set_zero(&l, "q.weight");
    set_zero(&l, "q.bias");
    rig_run(&l.rig);
    check_projected_mean(&l, l.rig.x[0]);
    layer_end(&l);

    begin(&l, super);
    set_zero(&l, "q.weight");
    set_zero(&l, "q.bias");
    rig_run(&l.rig);
    real *mixed = rig_copy(&l.rig, l.rig.x[0], l.rig.count[0]);
    for (int i = 0; i < B * N * D; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++)
            sum += (double)layer_value(&l, "align.weight")[i / D % N * N + j] *
                   (double)l.rig.x[0][(i / D / N * N + j) * D + i % D];
        mixed[i] = (real)sum;
    }
    check_projected_mean(&l, mixed);
    layer_end(&l);
}

TEST(kernel_of_means__gives_the_mean_whatever_the_scores) /* I10 */
{
    struct layer l;
    begin(&l, super);
    for (int i = 0; i < N * N; i++)
        layer_value(&l, "align.weight")[i] = (real)1 / N;
    rig_run(&l.rig);
    check_projected_mean(&l, l.rig.x[0]);
    CHECK_NEAR(rig_norm(layer_grad(&l, "q.weight"), D * D), 0, 10 * rig_rounding);
    CHECK_NEAR(rig_norm(layer_grad(&l, "q.bias"), D), 0, 10 * rig_rounding);
    layer_end(&l);
}

TEST(one_token__attends_to_itself) /* I12 */
{
    static const char *const json[] = {optimized, efficient, super};
    static const char *const queries[] = {"qk.weight", "q.weight", "q.weight"};
    for (int i = 0; i < 3; i++) {
        struct layer l;
        test_about("%s", json[i]);
        layer_begin(&l, json[i], layer_site(B, 1, D, H));
        rig_run(&l.rig);
        double factor = i == 2 ? (double)layer_value(&l, "align.weight")[0] : 1;
        for (int b = 0; b < B; b++)
            for (int c = 0; c < D; c++)
                CHECK_NEAR(l.rig.y[b * D + c],
                           factor * rig_dot(l.rig.x[0] + b * D,
                                            layer_value(&l, "proj.weight") + c * D, D) +
                               (double)layer_value(&l, "proj.bias")[c],
                           10 * rig_rounding);
        CHECK_NEAR(rig_norm(layer_grad(&l, queries[i]), D * D), 0, 10 * rig_rounding);
        layer_end(&l);
    }
}

TEST(super__is_linear_in_its_kernel) /* I13 */
{
    const double alpha = 0.7, beta = -1.3;
    struct layer l;
    begin(&l, super);
    set_zero(&l, "proj.bias");
    real *W = layer_value(&l, "align.weight"), *A = rig_copy(&l.rig, W, N * N);
    rig_run(&l.rig);
    real *of_A = rig_copy(&l.rig, l.rig.y, l.rig.y_count);
    rig_random(W, N * N, "another kernel", 1);
    real *C = rig_copy(&l.rig, W, N * N);
    rig_run(&l.rig);
    real *want = rig_copy(&l.rig, l.rig.y, l.rig.y_count);
    for (size_t i = 0; i < l.rig.y_count; i++)
        want[i] = (real)(alpha * (double)of_A[i] + beta * (double)want[i]);
    for (int i = 0; i < N * N; i++)
        W[i] = (real)(alpha * (double)A[i] + beta * (double)C[i]);
    rig_run(&l.rig);
    CHECK_NEAR(rig_distance(l.rig.y, want, l.rig.y_count), 0, rig_rounding);
    layer_end(&l);
}

static double own_product(const struct layer *l, const char *name, int first, int count)
{
    return rig_dot(layer_grad(l, name) + first, layer_value(l, name) + first, (size_t)count);
}

TEST(linear_factors__have_the_product_of_output_and_its_gradient) /* I14 */
{
    struct layer l;
    begin(&l, super_bias);
    set_zero(&l, "proj.bias");
    set_zero(&l, "align.bias");
    rig_run(&l.rig);
    double want = rig_dot(l.rig.dy, l.rig.y, l.rig.y_count), tolerance = 10 * rig_rounding;
    CHECK(fabs(want) > 0.1);
    CHECK_NEAR(own_product(&l, "align.weight", 0, N * N), want, tolerance);
    CHECK_NEAR(own_product(&l, "proj.weight", 0, D * D), want, tolerance);
    layer_end(&l);

    begin(&l, standard);
    set_zero(&l, "proj.bias");
    memset(layer_value(&l, "qkv.bias") + 2 * D, 0, D * sizeof(real));
    rig_run(&l.rig);
    want = rig_dot(l.rig.dy, l.rig.y, l.rig.y_count);
    CHECK_NEAR(own_product(&l, "qkv.weight", 2 * D * D, D * D), want, tolerance);
    CHECK_NEAR(own_product(&l, "proj.weight", 0, D * D), want, tolerance);
    layer_end(&l);
}

/* (S W^A) V equals S (W^A V): weights that mix mixed values, recorded the other way round. */
TEST(super__may_mix_scores_instead_of_values) /* I16 */
{
    struct layer s;
    struct rig r;
    layer_begin(&s, super, layer_site(B, N, D, 1));
    rig_run(&s.rig);

    rig_begin(&r, B, false);
    struct graph *g = r.graph;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(B, N, D), true);
    struct tensor *q = nn_linear(g, "attn.q", x, D);
    struct tensor *W = graph_param(g, "attn.align.weight", SHAPE(N, N), INIT_ZEROS);
    struct tensor *S = op_softmax(g, op_scale(g, op_matmul_nt(g, q, x), attn_scale(&s.site)));
    struct tensor *y = op_matmul(g, op_matmul(g, S, W), x);
    rig_ready(&r, nn_linear(g, "attn.proj", y, D), B);
    rig_randomize(&r, 1);
    rig_run(&r);
    CHECK_NEAR(rig_distance(s.rig.y, r.y, r.y_count), 0, rig_rounding);
    CHECK_NEAR(rig_distance(s.rig.dx[0], r.dx[0], r.count[0]), 0, rig_rounding);
    CHECK_NEAR(
        rig_distance(layer_grad(&s, "align.weight"), rig_grad(&r, "attn.align.weight"), N * N), 0,
        rig_rounding);
    layer_end(&s);
    rig_end(&r);
}
