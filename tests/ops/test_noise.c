/* test_noise.c - dropout and stochastic depth: rates, and where their random numbers come from. */
#include "graph/rig.h"
#include "ops/ops.h"

typedef struct tensor *noise_op(struct graph *g, struct tensor *x, double p);

/* `op` on samples (3, 5) under the scope `name`. x: all ones. */
static void begin_noise(struct rig *r, noise_op *op, const char *name, int batch, int rows,
                        double p)
{
    rig_begin(r, batch, true);
    struct tensor *x = graph_input(r->graph, "x", TYPE_REAL, SHAPE(batch, 3, 5), true);
    graph_scope_push(r->graph, "%s", name);
    struct tensor *y = op(r->graph, x, p);
    graph_scope_pop(r->graph);
    rig_ready(r, y, rows);
    for (size_t i = 0; i < r->count[0]; i++)
        r->x[0][i] = 1;
}

static noise_op *const noise_ops[] = {op_dropout, op_drop_path};

TEST(noise__of_probability_zero_or_in_evaluation_is_the_input_itself)
{
    for (int i = 0; i < 2; i++) {
        struct rig r;
        rig_begin(&r, 2, true);
        struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 3, 5), true);
        CHECK(noise_ops[i](r.graph, x, 0) == x);
        CHECK(noise_ops[i](r.graph, x, 0.1) != x);
        rig_end(&r);
        rig_begin(&r, 2, false);
        x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 3, 5), true);
        CHECK(noise_ops[i](r.graph, x, 0.1) == x);
        rig_end(&r);
    }
}

TEST(dropout__zeroes_elements_at_its_rate_and_scales_the_rest)
{
    struct rig r;
    const double p = 0.3, kept = 1 / (1 - p);
    begin_noise(&r, op_dropout, "a", 64, 4000, p);
    rig_run(&r);
    size_t zeros = 0, pairs = 0;
    for (size_t i = 0; i < r.y_count; i++) {
        CHECK(r.y[i] == 0 || r.y[i] == (real)kept);
        CHECK_NEAR(r.dx[0][i], r.y[i] * r.dy[i], rig_rounding);
        zeros += r.y[i] == 0;
        pairs += i > 0 && r.y[i] == 0 && r.y[i - 1] == 0;
    }
    double n = (double)r.y_count;
    CHECK_NEAR((double)zeros, p * n, 4 * sqrt(p * (1 - p) * n));
    CHECK_NEAR((double)pairs, p * p * n, 6 * sqrt(p * p * n));
    rig_end(&r);
}

TEST(drop_path__zeroes_whole_samples_at_its_rate_and_scales_the_rest)
{
    struct rig r;
    const double p = 0.2, kept = 1 / (1 - p);
    begin_noise(&r, op_drop_path, "a", 64, 4000, p);
    rig_run(&r);
    int zeros = 0;
    for (int b = 0; b < 4000; b++) {
        const real *y = r.y + 15 * b;
        CHECK(y[0] == 0 || y[0] == (real)kept);
        for (int i = 0; i < 15; i++) {
            CHECK(y[i] == y[0]);
            CHECK_NEAR(r.dx[0][15 * b + i], y[0] * r.dy[15 * b + i], rig_rounding);
        }
        zeros += y[0] == 0;
    }
    CHECK_NEAR(zeros, p * 4000, 4 * sqrt(p * (1 - p) * 4000));
    rig_end(&r);
}

/* Runs and copies y. */
static real *run_noise(struct rig *r, uint64_t step, uint64_t sample)
{
    r->feed.step = step;
    r->feed.sample = sample;
    rig_run(r);
    return rig_copy(r, r->y, r->y_count);
}

TEST(noise__is_a_function_of_name_step_and_sample_alone)
{
    for (int i = 0; i < 2; i++) {
        struct rig r, cut, other;
        size_t n = 64 * 15;
        begin_noise(&r, noise_ops[i], "a", 64, 64, 0.5);
        begin_noise(&cut, noise_ops[i], "a", 7, 64, 0.5);
        begin_noise(&other, noise_ops[i], "b", 64, 64, 0.5);
        real *y = run_noise(&r, 3, 10);
        test_about("op %d", i);
        CHECK(memcmp(run_noise(&r, 3, 10), y, n * sizeof *y) == 0);
        CHECK(memcmp(run_noise(&cut, 3, 10), y, n * sizeof *y) == 0);
        CHECK(rig_distance(run_noise(&r, 4, 10), y, n) > 0.3);
        CHECK(rig_distance(run_noise(&other, 3, 10), y, n) > 0.3);
        real *later = run_noise(&r, 3, 12); /* samples 12 .. 75 */
        CHECK(memcmp(later, y + 30, (n - 30) * sizeof *y) == 0);
        rig_end(&r);
        rig_end(&cut);
        rig_end(&other);
    }
}

/* Samples (2, 3, 5): two windows an image. */
static struct tensor *dropout_in_windows(struct graph *g, struct tensor *x, double p)
{
    x = graph_reshape(g, x, SHAPE(2 * x->shape.dim[0], 3, 5));
    return graph_reshape(g, op_dropout(g, x, p), SHAPE(x->shape.dim[0] / 2, 6, 5));
}

TEST(dropout__draws_for_windows_of_an_image_what_slices_do_not_change)
{
    struct rig r[2];
    real *y[2];
    for (int i = 0; i < 2; i++) {
        rig_begin(&r[i], i ? 7 : 64, true);
        struct tensor *x = graph_input(r[i].graph, "x", TYPE_REAL, SHAPE(i ? 7 : 64, 6, 5), true);
        rig_ready(&r[i], dropout_in_windows(r[i].graph, x, 0.5), 64);
        for (size_t k = 0; k < r[i].count[0]; k++)
            r[i].x[0][k] = 1;
        y[i] = run_noise(&r[i], 3, 10);
    }
    CHECK(memcmp(y[0], y[1], 64 * 30 * sizeof **y) == 0);
    int same = 0;
    for (int b = 0; b < 64; b++) /* no window has another's numbers */
        for (int k = 0; k < 15; k++)
            same += y[0][30 * b + k] == y[0][30 * b + 15 + k];
    CHECK_NEAR(same, 480, 4 * sqrt(240));
    rig_end(&r[0]);
    rig_end(&r[1]);
}

/* A column of samples, and a column of elements, are no copies of one another. */
TEST(dropout__draws_samples_and_elements_apart)
{
    struct rig r;
    begin_noise(&r, op_dropout, "a", 64, 4000, 0.5);
    rig_run(&r);
    int same_sample = 0, same_element = 0;
    for (int b = 1; b < 4000; b++) {
        same_sample += r.y[15 * b] == r.y[15 * b - 15];
        same_element += r.y[15 * b] == r.y[15 * b + 1];
    }
    CHECK_NEAR(same_sample, 2000, 4 * sqrt(1000));
    CHECK_NEAR(same_element, 2000, 4 * sqrt(1000));
    rig_end(&r);
}
