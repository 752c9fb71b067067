/* test_map.c - the functions of maps.def against libm in double. */
#include <math.h>

#include "grid.h"
#include "test.h"

static double relu(double x)
{
    return x > 0 ? x : 0;
}

static double relu_slope(double x)
{
    return x > 0;
}

static double elu1(double x)
{
    return x > 0 ? x + 1 : exp(x);
}

static double elu1_slope(double x)
{
    return x > 0 ? 1 : exp(x);
}

static double square(double x)
{
    return x * x;
}

static double square_slope(double x)
{
    return 2 * x;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double sigmoid_slope(double x)
{
    return sigmoid(x) * sigmoid(-x);
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static double silu_slope(double x)
{
    return sigmoid(x) * (1 + x * sigmoid(-x));
}

static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

/* x of a size of 1e-4 to 1e4. */
static double magnitude(double x)
{
    return x == 0 ? 0 : copysign(fmin(fmax(fabs(x), 1e-4), 1e4), x);
}

static double magnitude_slope(double x)
{
    return fabs(x) >= 1e-4 && fabs(x) <= 1e4;
}

static double cos_slope(double x)
{
    return -sin(x);
}

static const struct {
    const char *name;
    double (*value)(double x), (*slope)(double x);
} maps[MAP_COUNT] = {
    [MAP_RELU] = {"relu", relu, relu_slope},
    [MAP_ELU1] = {"elu1", elu1, elu1_slope},
    [MAP_SQUARE] = {"square", square, square_slope},
    [MAP_SIGMOID] = {"sigmoid", sigmoid, sigmoid_slope},
    [MAP_SILU] = {"silu", silu, silu_slope},
    [MAP_EXP] = {"exp", exp, exp},
    [MAP_SIN] = {"sin", sin, cos},
    [MAP_COS] = {"cos", cos, cos_slope},
    [MAP_SOFTPLUS] = {"softplus", softplus, sigmoid},
    [MAP_MAGNITUDE] = {"magnitude", magnitude, magnitude_slope},
};

static const size_t sizes[][2] = {{1, 1}, {1, 7}, {7, 16}, {5, 17}, {3, 197}, {4, 1200}};

static void check_maps(enum type type, size_t gap)
{
    for (int i = 0; i < MAP_COUNT * (int)(sizeof sizes / sizeof *sizes); i++) {
        enum map f = (enum map)(i % MAP_COUNT);
        size_t rows = sizes[i / MAP_COUNT][0], cols = sizes[i / MAP_COUNT][1];
        struct grid x = grid_random(type, rows, cols, gap, 6),
                    dy = grid_random(type, rows, cols, 0, 2);
        struct grid y = grid_poisoned(type, rows, cols, 0);
        struct grid real_y = grid_poisoned(TYPE_REAL, rows, cols, gap);
        CHECK(maps[f].value && maps[f].slope);
        kernel_map(y.vec, f, x.vec, rows, cols);
        kernel_map(real_y.vec, f, x.vec, rows, cols);
        for (size_t k = 0; k < rows * cols; k++)
            y.value[k] = real_y.value[k] = maps[f].value(x.value[k]);
        grid_check(&y, tolerance_of(5e-7));
        grid_check(&real_y, tolerance_of(5e-7));
        for (int beta = 0; beta <= 1; beta++) {
            struct grid dx = grid_output(beta, type, rows, cols, gap), same = grid_copy(&dy);
            kernel_map_grad(dx.vec, beta, f, x.vec, dy.vec, rows, cols);
            kernel_map_grad(same.vec, beta, f, x.vec, same.vec, rows, cols);
            for (size_t k = 0; k < rows * cols; k++) {
                double grad = dy.value[k] * maps[f].slope(x.value[k]);
                dx.value[k] += grad;
                same.value[k] = beta * dy.value[k] + grad;
            }
            grid_check(&dx, tolerance_of(1e-6));
            grid_check(&same, tolerance_of(1e-6));
        }
        kernel_map(x.vec, f, x.vec, rows, cols); /* in place */
        for (size_t k = 0; k < rows * cols; k++)
            CHECK_NEAR(grid_get(&x, k / cols, k % cols), grid_get(&y, k / cols, k % cols), 0);
    }
}

TEST(map__is_its_function)
{
    each_level(check_maps);
}

/* Dense points in -30..30: values relative to themselves, slopes to what they are made of. */
static void check_maps_exactly(enum type type, size_t gap)
{
    if (type == TYPE_BF16 || gap)
        return;
    enum { POINTS = 60001 };
    static real x[POINTS], y[POINTS], one[POINTS], dx[POINTS];
    struct vec vx = {x, TYPE_REAL, POINTS}, vy = {y, TYPE_REAL, POINTS};
    struct vec v1 = {one, TYPE_REAL, POINTS}, vdx = {dx, TYPE_REAL, POINTS};
    for (int f = 0; f < MAP_COUNT; f++) {
        test_about("%s at %s", maps[f].name, kernels_isa());
        for (int i = 0; i < POINTS; i++) {
            x[i] = (real)((i - 30000) * 1e-3);
            one[i] = 1;
        }
        kernel_map(vy, (enum map)f, vx, 1, POINTS);
        kernel_map_grad(vdx, 0, (enum map)f, vx, v1, 1, POINTS);
        for (int i = 0; i < POINTS; i++) {
            double at = (double)x[i], value = maps[f].value(at), slope = maps[f].slope(at);
            double parts = f == MAP_SILU ? sigmoid(at) * (1 + fabs(at)) : fabs(slope);
            CHECK_NEAR(y[i], value, tolerance_of(6e-7) * fabs(value));
            CHECK_NEAR(dx[i], slope, tolerance_of(1e-6) * parts);
        }
    }
}

TEST(map__errs_by_rounding_only)
{
    each_level(check_maps_exactly);
}

static void check_extremes(enum type type, size_t gap)
{
    for (int f = 0; f < MAP_COUNT; f++) {
        struct grid x = grid_random(type, 1, 4, gap, 1), y = grid_poisoned(TYPE_REAL, 1, 4, 0);
        struct grid one = grid_random(TYPE_REAL, 1, 4, 0, 1),
                    dx = grid_poisoned(TYPE_REAL, 1, 4, 0);
        static const double at[] = {-1e4, 1e4, 0, (double)NAN};
        for (size_t i = 0; i < 4; i++) {
            grid_set(&x, 0, i, at[i]);
            grid_set(&one, 0, i, 1);
        }
        kernel_map(y.vec, (enum map)f, x.vec, 1, 4);
        kernel_map_grad(dx.vec, 0, (enum map)f, x.vec, one.vec, 1, 4);
        for (size_t i = 0; i < 2; i++) {
            double value = maps[f].value(grid_get(&x, 0, i));
            if (isinf(value))
                CHECK(isinf(grid_get(&y, 0, i)));
            else
                CHECK_NEAR(grid_get(&y, 0, i), value, 1e-6 * fabs(value));
        }
        CHECK_NEAR(grid_get(&y, 0, 2), maps[f].value(0), 1e-6);
        CHECK_NEAR(grid_get(&dx, 0, 2), maps[f].slope(0), 1e-6);
        CHECK(isnan(grid_get(&y, 0, 3)));
        CHECK(isfinite(grid_get(&dx, 0, 0)));
    }
}

TEST(map__is_finite_where_it_can_be_and_keeps_nan)
{
    each_level(check_extremes);
}
