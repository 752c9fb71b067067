/* test_sequences.c - Bi-WKV, the selective scan and the convolution along a sequence against the
 * sums that they stand for: over all pairs of tokens, in double. */
#include <math.h>
#include <stdlib.h>

#include "graph/rig.h"
#include "ops/ops.h"

enum { MOST = 200 };

static double tolerance(void)
{
    return sizeof(real) == 8 ? 1e-11 : 1e-5;
}

/* Golden inputs of the specification: sin(0.7 i + 0.3 c). */
static void golden(real *to, size_t n, int c, double scale)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (real)(scale * sin(0.7 * (double)i + 0.3 * c));
}

static void check_close(const real *got, const double *want, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabs(want[i]) > most ? fabs(want[i]) : most;
    for (size_t i = 0; i < n; i++)
        CHECK_NEAR(got[i], want[i], tolerance() * (1 + most));
}

/* Sum, sum of squares, first and last number, as the specification prints them. */
static void check_printed(const real *x, size_t n, const double printed[4])
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    double rounding = 2e-10 + 10 * tolerance();
    CHECK_NEAR(sum, printed[0], rounding * 10);
    CHECK_NEAR(rig_dot(x, x, n), printed[1], rounding * 10);
    CHECK_NEAR(x[0], printed[2], rounding);
    CHECK_NEAR(x[n - 1], printed[3], rounding);
}

/* --- Bi-WKV -------------------------------------------------------------------------------------
 */

struct wkv {
    struct rig rig;
    int T, C;
};

static void wkv_begin(struct wkv *o, int B, int T, int C, const struct token_sequence *sequence)
{
    struct rig *r = &o->rig;
    *o = (struct wkv){.T = T, .C = C};
    rig_begin(r, B, false);
    struct tensor *k = graph_input(r->graph, "k", TYPE_REAL, SHAPE(B, T, C), true);
    struct tensor *v = graph_input(r->graph, "v", TYPE_REAL, SHAPE(B, T, C), true);
    struct tensor *decay = graph_param(r->graph, "decay", SHAPE(C), INIT_NORMAL(1));
    struct tensor *first = graph_param(r->graph, "first", SHAPE(C), INIT_NORMAL(1));
    rig_ready(r, op_bi_wkv(r->graph, k, v, decay, first, sequence), B);
}

/* log of the weight of token i for token t, channel c. */
static double wkv_log(const struct wkv *o, int c, int t, int i, double w, double u)
{
    double k = (double)o->rig.x[0][i * o->C + c];
    return k + (i == t ? u : -w * (abs(t - i) - 1));
}

/* y, dk, dv, ddecay, dfirst of one image by sums over all pairs, channel by channel. */
struct dense {
    double y[MOST * 3], dk[MOST * 3], dv[MOST * 3], ddecay[3], dfirst[3];
};

static void wkv_dense(const struct wkv *o, struct dense *d)
{
    const struct rig *r = &o->rig;
    *d = (struct dense){.ddecay = {0}};
    for (int c = 0; c < o->C; c++) {
        double w = (double)rig_value(r, "decay")[c] / o->T;
        double u = (double)rig_value(r, "first")[c] / o->T;
        for (int t = 0; t < o->T; t++) {
            double P[MOST], most = -HUGE_VAL, sum = 0, y = 0, g = (double)r->dy[t * o->C + c];
            for (int i = 0; i < o->T; i++)
                most = fmax(most, wkv_log(o, c, t, i, w, u));
            for (int i = 0; i < o->T; i++)
                sum += P[i] = exp(wkv_log(o, c, t, i, w, u) - most);
            for (int i = 0; i < o->T; i++)
                y += (P[i] /= sum) * (double)r->x[1][i * o->C + c];
            d->y[t * o->C + c] = y;
            for (int i = 0; i < o->T; i++) {
                double dlog = P[i] * g * ((double)r->x[1][i * o->C + c] - y);
                d->dv[i * o->C + c] += P[i] * g;
                d->dk[i * o->C + c] += dlog;
                d->dfirst[c] += i == t ? dlog / o->T : 0;
                d->ddecay[c] -= i == t ? 0 : dlog * (abs(t - i) - 1) / o->T;
            }
        }
    }
}

static void check_wkv(struct wkv *o)
{
    static struct dense want;
    struct rig *r = &o->rig;
    size_t n = (size_t)o->T * (size_t)o->C;
    rig_run(r);
    wkv_dense(o, &want);
    check_close(r->y, want.y, n);
    check_close(r->dx[0], want.dk, n);
    check_close(r->dx[1], want.dv, n);
    check_close(rig_grad(r, "decay"), want.ddecay, (size_t)o->C);
    check_close(rig_grad(r, "first"), want.dfirst, (size_t)o->C);
}

TEST(bi_wkv__is_the_sum_over_all_pairs) /* T-WKV-1 */
{
    static const int lengths[] = {1, 2, 5, 196};
    static const double scales[] = {1, 30, 700}; /* of decay and first: of both signs */
    for (int i = 0; i < 12; i++) {
        struct wkv o;
        test_about("%d tokens, decay up to %g", lengths[i % 4], scales[i / 4]);
        wkv_begin(&o, 1, lengths[i % 4], 3, &(struct token_sequence){.order = NULL});
        rig_randomize(&o.rig, scales[i / 4]);
        check_wkv(&o);
        rig_end(&o.rig);
    }
}

TEST(bi_wkv__gives_the_printed_values)
{
    struct wkv o;
    struct rig *r = &o.rig;
    wkv_begin(&o, 1, 16, 4, &(struct token_sequence){.order = NULL});
    golden(r->x[0], 64, 1, 1);
    golden(r->x[1], 64, 2, 1);
    golden(rig_value(r, "decay"), 4, 3, 3); /* w = 3 F / 16 */
    golden(rig_value(r, "first"), 4, 4, 1);
    golden(r->dy, 64, 9, 1);
    rig_run(r);
    for (int c = 0; c < 4; c++) { /* printed: those of w and u */
        rig_grad(r, "decay")[c] *= 16;
        rig_grad(r, "first")[c] *= 16;
    }
    check_printed(r->y, 64,
                  (const double[]){27.3536420320, 11.8703682879, 0.3649755007, 0.4870456903});
    check_printed(r->dx[0], 64, (const double[]){0, 0.0157165594, 0.0048998364, -0.0018767350});
    check_printed(r->dx[1], 64,
                  (const double[]){0.4329949987, 0.0752333681, 0.0262505082, -0.0086173633});
    check_printed(rig_grad(r, "decay"), 4,
                  (const double[]){-0.3994049486, 0.2811742998, 0.1189564372, 0.1641271303});
    check_printed(rig_grad(r, "first"), 4,
                  (const double[]){-0.9568663866, 0.2364436853, -0.3054084870, -0.1851454152});
    rig_end(r);
}

TEST(bi_wkv__without_decay_averages_by_softmax) /* T-WKV-2 */
{
    struct wkv o;
    struct rig *r = &o.rig;
    wkv_begin(&o, 1, 9, 3, &(struct token_sequence){.order = NULL});
    for (int c = 0; c < 3; c++)
        rig_value(r, "decay")[c] = rig_value(r, "first")[c] = 0;
    check_wkv(&o);
    for (int c = 0; c < 3; c++) {
        double sum = 0;
        for (int t = 0; t < 9; t++) {
            sum += (double)r->dx[0][3 * t + c];
            CHECK_NEAR(r->y[3 * t + c], r->y[c], tolerance());
        }
        CHECK_NEAR(sum, 0, 10 * tolerance());
    }
    rig_end(r);
}

TEST(bi_wkv__of_equal_values_is_that_value)
{
    struct wkv o;
    struct rig *r = &o.rig;
    wkv_begin(&o, 1, 50, 3, &(struct token_sequence){.order = NULL});
    rig_randomize(r, 20);
    double dv[3] = {0}, dy[3] = {0};
    for (int i = 0; i < 150; i++)
        r->x[1][i] = (real)(i % 3 - 0.5);
    rig_run(r);
    for (int i = 0; i < 150; i++) {
        CHECK_NEAR(r->y[i], i % 3 - 0.5, tolerance());
        dv[i % 3] += (double)r->dx[1][i];
        dy[i % 3] += (double)r->dy[i];
    }
    for (int c = 0; c < 3; c++)
        CHECK_NEAR(dv[c], dy[c], 100 * tolerance());
    rig_end(r);
}

/* Zero, huge and all-negative keys, long sequences. */
TEST(bi_wkv__stays_finite)
{
    static const double keys[] = {0, 1e4, -1e4};
    for (int i = 0; i < 6; i++) {
        struct wkv o;
        struct rig *r = &o.rig;
        wkv_begin(&o, 1, i < 3 ? 7 : 4096, 3, &(struct token_sequence){.order = NULL});
        rig_randomize(r, 1e4);
        for (size_t k = 0; k < r->count[0]; k++)
            r->x[0][k] = (real)(keys[i % 3] * (i < 3 || k % 2 ? 1 : 0.5));
        rig_run(r);
        double sum = rig_norm(r->y, r->y_count) + rig_norm(r->dx[0], r->count[0]) +
                     rig_norm(r->dx[1], r->count[1]) + rig_norm(rig_grad(r, "decay"), 3) +
                     rig_norm(rig_grad(r, "first"), 3);
        CHECK(isfinite(sum));
        CHECK(rig_norm(r->y, r->y_count) > 0);
        rig_end(r);
    }
}

/* --- sequences ----------------------------------------------------------------------------------
 */

/* Three regions of 8 tokens, and the tokens of each. */
static const unsigned char region[8] = {2, 0, 2, 1, 0, 1, 2, 0};
static const struct token_regions regions = {.windows = 1, .tokens = 8, .id = region};
static const int member[3][3] = {{1, 4, 7}, {3, 5}, {0, 2, 6}};
static const int members[3] = {3, 2, 3};

/* An op along a sequence of x (1, T, 3), its other arguments made from x. */
typedef struct tensor *record_along(struct graph *g, struct tensor *x,
                                    const struct token_sequence *s);

static struct tensor *along_wkv(struct graph *g, struct tensor *x, const struct token_sequence *s)
{
    struct tensor *decay = graph_param(g, "decay", SHAPE(3), INIT_CONSTANT(5));
    struct tensor *first = graph_param(g, "first", SHAPE(3), INIT_CONSTANT(4));
    return op_bi_wkv(g, x, op_scale(g, x, 2), decay, first, s);
}

static struct tensor *along_conv(struct graph *g, struct tensor *x, const struct token_sequence *s)
{
    struct tensor *weight = graph_param(g, "weight", SHAPE(3, 1, 3), INIT_NORMAL(1));
    return op_causal_conv(g, x, weight, graph_param(g, "bias", SHAPE(3), INIT_NORMAL(1)), s);
}

static struct tensor *along_scan(struct graph *g, struct tensor *x, const struct token_sequence *s)
{
    struct tensor *A_log = graph_param(g, "A_log", SHAPE(3, 1), INIT_NORMAL(1));
    struct tensor *D = graph_param(g, "D", SHAPE(3), INIT_NORMAL(1));
    struct tensor *B = graph_columns(g, x, 1, 1), *C = graph_columns(g, x, 0, 1);
    return op_selective_scan(g, x, op_map(g, x, MAP_SOFTPLUS), A_log, B, C, D, s);
}

static record_along *const along[] = {along_wkv, along_conv, along_scan};

enum { ALONG = sizeof along / sizeof *along };

/* Runs it on the tokens `from` of an image of 8, in this order; y and dx by place in the list. */
static void run_alone(struct rig *r, record_along *record, const int *from, int count,
                      const struct rig *image)
{
    rig_begin(r, 1, false);
    struct tensor *x = graph_input(r->graph, "x", TYPE_REAL, SHAPE(1, count, 3), true);
    rig_ready(r, record(r->graph, x, &(struct token_sequence){.order = NULL}), 1);
    for (int i = 0; i < count; i++) {
        memcpy(r->x[0] + 3 * i, image->x[0] + 3 * from[i], 3 * sizeof(real));
        memcpy(r->dy + 3 * i, image->dy + 3 * from[i], 3 * sizeof(real));
    }
    rig_run(r);
}

static void run_image(struct rig *r, record_along *record, const struct token_sequence *s)
{
    rig_begin(r, 1, false);
    struct tensor *x = graph_input(r->graph, "x", TYPE_REAL, SHAPE(1, 8, 3), true);
    rig_ready(r, record(r->graph, x, s), 1);
    rig_run(r);
}

static void check_tokens(const struct rig *image, const struct rig *alone, const int *from,
                         int count)
{
    for (int i = 0; i < 3 * count; i++) {
        CHECK_NEAR(image->y[3 * from[i / 3] + i % 3], alone->y[i], tolerance());
        CHECK_NEAR(image->dx[0][3 * from[i / 3] + i % 3], alone->dx[0][i], 2 * tolerance());
    }
}

TEST(sequences__follow_the_order_that_is_given)
{
    static const int order[8] = {3, 1, 0, 7, 6, 2, 5, 4}, backwards[8] = {4, 5, 2, 6, 7, 0, 1, 3};
    for (int i = 0; i < 2 * ALONG; i++) {
        struct rig image, alone;
        test_about("op %d, reversed %d", i / 2, i % 2);
        run_image(&image, along[i / 2],
                  &(struct token_sequence){.order = order, .reversed = i % 2});
        run_alone(&alone, along[i / 2], i % 2 ? backwards : order, 8, &image);
        check_tokens(&image, &alone, i % 2 ? backwards : order, 8);
        rig_end(&image);
        rig_end(&alone);
    }
}

TEST(sequences__of_regions_are_as_if_alone) /* T-ALL-6 */
{
    for (int i = 0; i < ALONG; i++) {
        struct rig image, alone;
        run_image(&image, along[i], &(struct token_sequence){.regions = &regions});
        for (int k = 0; k < 3; k++) {
            test_about("op %d, region %d", i, k);
            run_alone(&alone, along[i], member[k], members[k], &image);
            check_tokens(&image, &alone, member[k], members[k]);
            rig_end(&alone);
        }
        rig_end(&image);
    }
}

/* --- selective scan -----------------------------------------------------------------------------
 */

enum { E = 3, STATES = 2 };

struct scan_rig {
    struct rig rig;
    int T;
};

static void scan_begin(struct scan_rig *o, int T)
{
    struct rig *r = &o->rig;
    *o = (struct scan_rig){.T = T};
    rig_begin(r, 1, false);
    struct graph *g = r->graph;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(1, T, E), true);
    struct tensor *dt = graph_input(g, "dt", TYPE_REAL, SHAPE(1, T, E), true);
    struct tensor *B = graph_input(g, "B", TYPE_REAL, SHAPE(1, T, STATES), true);
    struct tensor *C = graph_input(g, "C", TYPE_REAL, SHAPE(1, T, STATES), true);
    struct tensor *A_log = graph_param(g, "A_log", SHAPE(E, STATES), INIT_NORMAL(1));
    struct tensor *D = graph_param(g, "D", SHAPE(E), INIT_NORMAL(1));
    rig_ready(
        r, op_selective_scan(g, x, dt, A_log, B, C, D, &(struct token_sequence){.order = NULL}), 1);
    for (size_t i = 0; i < r->count[1]; i++)
        r->x[1][i] = (real)fabs((double)r->x[1][i]);
}

/* y[t] = sum over j <= t of C[t] . (exp(A sum of dt over j + 1 .. t) B[j]) dt[j] x[j] + D x[t] */
static double scan_dense(const struct rig *r, int t, int e)
{
    double y = (double)rig_value(r, "D")[e] * (double)r->x[0][t * E + e];
    for (int n = 0; n < STATES; n++) {
        double A = -exp((double)rig_value(r, "A_log")[e * STATES + n]), passed = 0;
        for (int j = t; j >= 0; j--) {
            double dt = (double)r->x[1][j * E + e];
            y += (double)r->x[3][t * STATES + n] * exp(A * passed) *
                 (double)r->x[2][j * STATES + n] * dt * (double)r->x[0][j * E + e];
            passed += dt;
        }
    }
    return y;
}

TEST(selective_scan__is_the_sum_over_all_earlier_tokens) /* T-SSM-1 */
{
    static const int lengths[] = {1, 2, 16, 17, 100};
    for (int i = 0; i < 5; i++) {
        struct scan_rig o;
        double want[MOST * E];
        scan_begin(&o, lengths[i]);
        rig_randomize(&o.rig, 1);
        rig_run(&o.rig);
        for (int k = 0; k < o.T * E; k++)
            want[k] = scan_dense(&o.rig, k / E, k % E);
        check_close(o.rig.y, want, o.rig.y_count);
        rig_end(&o.rig);
    }
}

TEST(selective_scan__gives_the_printed_values)
{
    struct scan_rig o;
    struct rig *r = &o.rig;
    scan_begin(&o, 8);
    golden(r->x[0], 24, 1, 1);
    golden(r->x[1], 24, 2, 1);
    for (int i = 0; i < 24; i++)
        r->x[1][i] = (real)log1p(exp((double)r->x[1][i]));
    golden(r->x[2], 16, 4, 1);
    golden(r->x[3], 16, 5, 1);
    for (int e = 0; e < E; e++) {
        rig_value(r, "A_log")[2 * e] = 0;
        rig_value(r, "A_log")[2 * e + 1] = (real)log(2);
        rig_value(r, "D")[e] = 1;
    }
    golden(r->dy, 24, 9, 1);
    rig_run(r);
    check_printed(r->y, 24,
                  (const double[]){7.0228573215, 48.7885871674, 0.8037770788, -0.4505786866});
    check_printed(r->dx[0], 24,
                  (const double[]){-7.3606436275, 43.1216793949, 0.9145417590, -0.0738214134});
    check_printed(r->dx[1], 24,
                  (const double[]){-6.7712737164, 8.3782709277, 0.1418661859, 0.0802172893});
    check_printed(r->dx[2], 16,
                  (const double[]){0.2034843778, 11.6596928224, -1.9784154914, 0.3110891213});
    check_printed(r->dx[3], 16,
                  (const double[]){1.0588684752, 10.7749166520, -1.0821302744, 0.6964441607});
    rig_end(r);
}

/* States that vanish at once: y = (C . B) dt x + D x. */
TEST(selective_scan__forgets_at_once_where_A_is_large)
{
    struct scan_rig o;
    struct rig *r = &o.rig;
    scan_begin(&o, 20);
    rig_randomize(r, 1);
    for (size_t i = 0; i < r->count[1]; i++)
        r->x[1][i] += 1;
    for (int i = 0; i < E * STATES; i++)
        rig_value(r, "A_log")[i] = 20;
    rig_run(r);
    for (int i = 0; i < 20 * E; i++) {
        double x = (double)r->x[0][i], dt = (double)r->x[1][i];
        double CB = rig_dot(r->x[2] + i / E * STATES, r->x[3] + i / E * STATES, STATES);
        CHECK_NEAR(r->y[i], CB * dt * x + (double)rig_value(r, "D")[i % E] * x, 10 * tolerance());
    }
    CHECK(isfinite(rig_norm(rig_grad(r, "A_log"), E * STATES)));
    rig_end(r);
}

/* Gradients against central differences over more than one tile of rows. */
TEST(selective_scan__has_the_gradient_of_its_forward_across_tiles)
{
    struct scan_rig o;
    if (sizeof(real) < sizeof(double))
        SKIP("needs the double build");
    scan_begin(&o, 37);
    rig_randomize(&o.rig, 1);
    rig_check_gradients(&o.rig, 1e-8);
    rig_end(&o.rig);
}
