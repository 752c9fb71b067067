/* test_token_maps.c - convolution, pooling and shift of a map against sums over its rows and
 * columns. */
#include <math.h>

#include "graph/rig.h"
#include "ops/ops.h"

enum { ROWS = 4, COLUMNS = 5, PREFIX = 2, N = PREFIX + ROWS * COLUMNS, C = 6, WINDOWS = 2 };

/* Of two windows in turn: one undivided, one in four parts. */
static unsigned char id[WINDOWS * N];

static const struct token_regions *four_parts(void)
{
    static const struct token_regions regions = {.windows = WINDOWS, .tokens = N, .id = id};
    for (int t = PREFIX; t < N; t++) {
        int patch = t - PREFIX;
        id[N + t] = (unsigned char)(2 * (patch / COLUMNS >= 3) + (patch % COLUMNS >= 2));
    }
    return &regions;
}

static double tolerance(void)
{
    return sizeof(real) == 8 ? 1e-12 : 5e-6;
}

/* Token at a place, -1 off the map or in another region than token t of the sample. */
static int token_at(const struct token_map *map, int sample, int t, int row, int column)
{
    if (row < 0 || row >= ROWS || column < 0 || column >= COLUMNS)
        return -1;
    int other = PREFIX + row * COLUMNS + column;
    const unsigned char *of = id + sample % WINDOWS * N;
    return map->regions && of[t] != of[other] ? -1 : other;
}

static int row_of(int t)
{
    return (t - PREFIX) / COLUMNS;
}

static int column_of(int t)
{
    return (t - PREFIX) % COLUMNS;
}

typedef double value_at(const struct rig *r, const struct token_map *map, int b, int t, int c);

static double input(const struct rig *r, int b, int t, int c)
{
    return t < 0 ? 0 : (double)r->x[0][(b * N + t) * C + c];
}

/* Compares all outputs; the gradient is that of a linear function, which the walks over all ops
 * check, so that here <dy, f(x)> = <f'(dy), x> suffices. */
static void check(struct tensor *(*record)(struct graph *g, struct tensor *x,
                                           const struct token_map *map),
                  value_at *value, bool divided)
{
    struct rig r;
    const struct token_map map = {
        .grid = {ROWS, COLUMNS}, .prefix = PREFIX, .regions = divided ? four_parts() : NULL};
    test_about(divided ? "in regions" : "whole");
    rig_begin(&r, 4, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(4, N, C), true);
    rig_ready(&r, record(r.graph, x, &map), 4);
    rig_randomize(&r, 1);
    rig_run(&r);
    for (int i = 0; i < 4 * N * C; i++)
        CHECK_NEAR(r.y[i], value(&r, &map, i / C / N, i / C % N, i % C), tolerance());
    const struct param *bias = params_find(&r.params, "bias");
    double from_bias = bias ? rig_dot(bias->value, rig_grad(&r, "bias"), C) : 0;
    CHECK_NEAR(rig_dot(r.dy, r.y, r.y_count), rig_dot(r.dx[0], r.x[0], r.count[0]) + from_bias,
               100 * tolerance());
    rig_end(&r);
}

static void check_both(struct tensor *(*record)(struct graph *g, struct tensor *x,
                                                const struct token_map *map),
                       value_at *value)
{
    check(record, value, false);
    check(record, value, true);
}

/* --- convolution --------------------------------------------------------------------------------
 */

static struct tensor *record_depthwise(struct graph *g, struct tensor *x,
                                       const struct token_map *map)
{
    struct tensor *weight = graph_param(g, "weight", SHAPE(C, 1, 3, 7), INIT_NORMAL(1));
    struct tensor *bias = graph_param(g, "bias", SHAPE(C), INIT_NORMAL(1));
    return op_depthwise(g, x, weight, bias, map);
}

static double depthwise_at(const struct rig *r, const struct token_map *map, int b, int t, int c)
{
    if (t < PREFIX)
        return 0;
    double sum = (double)rig_value(r, "bias")[c];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 7; j++)
            sum += (double)rig_value(r, "weight")[(c * 3 + i) * 7 + j] *
                   input(r, b, token_at(map, b, t, row_of(t) + i - 1, column_of(t) + j - 3), c);
    return sum;
}

TEST(depthwise__sums_the_patches_around)
{
    check_both(record_depthwise, depthwise_at);
}

/* --- pooling ------------------------------------------------------------------------------------
 */

static struct tensor *record_pool(struct graph *g, struct tensor *x, const struct token_map *map)
{
    return op_map_pool(g, x, 3, map);
}

static double pool_at(const struct rig *r, const struct token_map *map, int b, int t, int c)
{
    double sum = 0, count = 0;
    for (int i = 0; i < 9 && t >= PREFIX; i++) {
        int from = token_at(map, b, t, row_of(t) + i / 3 - 1, column_of(t) + i % 3 - 1);
        sum += input(r, b, from, c);
        count += from >= 0;
    }
    return t < PREFIX ? 0 : sum / count - input(r, b, t, c);
}

TEST(map_pool__is_the_mean_around_minus_the_middle)
{
    check_both(record_pool, pool_at);
}

/* --- shift --------------------------------------------------------------------------------------
 */

static struct tensor *record_shift(struct graph *g, struct tensor *x, const struct token_map *map)
{
    return op_map_shift(g, x, 2, map);
}

static double shift_at(const struct rig *r, const struct token_map *map, int b, int t, int c)
{
    static const int quarter[C] = {0, 1, 1, 2, 3, 3}; /* they begin at columns 0, 1, 3 and 4 */
    static const int down[4] = {0, 0, -2, 2}, right[4] = {-2, 2, 0, 0};
    if (t < PREFIX)
        return input(r, b, t, c);
    int q = quarter[c];
    return input(r, b, token_at(map, b, t, row_of(t) + down[q], column_of(t) + right[q]), c);
}

TEST(map_shift__takes_a_quarter_from_each_side)
{
    check_both(record_shift, shift_at);
}

/* --- printed values -----------------------------------------------------------------------------
 */

static void check_printed(struct tensor *(*record)(struct graph *g, struct tensor *x),
                          const double want[4])
{
    struct rig r;
    rig_begin(&r, 1, false);
    rig_ready(&r, record(r.graph, graph_input(r.graph, "x", TYPE_REAL, SHAPE(1, 16, 4), true)), 1);
    for (int i = 0; i < 64; i++)
        r.x[0][i] = (real)sin(0.7 * i + 0.3);
    rig_run(&r);
    double sum = 0, rounding = 1e-9 + 10 * tolerance();
    for (int i = 0; i < 64; i++)
        sum += (double)r.y[i];
    CHECK_NEAR(sum, want[0], rounding);
    CHECK_NEAR(rig_dot(r.y, r.y, 64), want[1], rounding);
    CHECK_NEAR(r.y[0], want[2], rounding);
    CHECK_NEAR(r.y[63], want[3], rounding);
    rig_end(&r);
}

static const struct token_map square = {.grid = {4, 4}};

static struct tensor *square_shift(struct graph *g, struct tensor *x)
{
    return op_map_shift(g, x, 1, &square);
}

static struct tensor *square_pool(struct graph *g, struct tensor *x)
{
    return op_map_pool(g, x, 3, &square);
}

TEST(token_maps__give_the_printed_values)
{
    check_printed(square_shift, (const double[]){1.5504706397, 23.6164026511, 0, 0});
    check_printed(square_pool,
                  (const double[]){0.0350095017, 36.4496014954, -0.1834150420, -0.4445056982});
}

TEST(blend_cols__at_one_and_zero_is_one_of_both)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *a = graph_input(r.graph, "a", TYPE_REAL, SHAPE(2, 3, 4), true);
    struct tensor *b = graph_input(r.graph, "b", TYPE_REAL, SHAPE(2, 3, 4), true);
    struct tensor *mu = graph_param(r.graph, "mu", SHAPE(4), INIT_ZEROS);
    rig_ready(&r, op_blend_cols(r.graph, a, b, mu), 2);
    rig_value(&r, "mu")[1] = 1;
    rig_value(&r, "mu")[2] = (real)0.25;
    rig_run(&r);
    for (int i = 0; i < 24; i += 4) {
        const real *x = r.x[0] + i, *y = r.x[1] + i;
        CHECK_NEAR(r.y[i], y[0], 0);
        CHECK_NEAR(r.y[i + 1], x[1], 0);
        CHECK_NEAR(r.y[i + 2], 0.25 * (double)x[2] + 0.75 * (double)y[2], tolerance());
    }
    rig_end(&r);
}
