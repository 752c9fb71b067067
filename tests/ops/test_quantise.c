/* test_quantise.c - rounding to a few levels: the batch's range, running values, a batch that is not
 * full, and the gradient straight through. */
#include "graph/rig.h"
#include "ops/ops.h"

enum { B = 3, N = 4, D = 5, BITS = 4, LEVELS = 15 };

static void begin(struct rig *r, int slice, int batch, bool training)
{
    rig_begin(r, slice, training);
    struct graph *g = r->graph;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(slice, N, D), true);
    struct tensor *least = graph_param_flags(g, "least", SHAPE(1), INIT_ZEROS, PARAM_BUFFER);
    struct tensor *range = graph_param_flags(g, "range", SHAPE(1), INIT_ZEROS, PARAM_BUFFER);
    rig_ready(r, op_quantise(g, x, least, range, BITS, 0.9), batch);
    CHECK_INT(g->whole_batch, training);
}

static void extremes(const struct rig *r, size_t n, double *least, double *most)
{
    *least = *most = (double)r->x[0][0];
    for (size_t i = 1; i < n; i++) {
        *least = fmin(*least, (double)r->x[0][i]);
        *most = fmax(*most, (double)r->x[0][i]);
    }
}

TEST(quantise__takes_the_nearest_of_the_levels_between_the_extremes)
{
    struct rig r;
    double least, most;
    begin(&r, B, B, true);
    rig_run(&r);
    extremes(&r, r.y_count, &least, &most);
    double step = (most - least) / LEVELS;
    for (size_t i = 0; i < r.y_count; i++) {
        double level = ((double)r.y[i] - least) / step;
        CHECK_NEAR(level, rint(level), 1e-4);
        CHECK(fabs((double)r.y[i] - (double)r.x[0][i]) <= step * 0.5001);
        CHECK_NEAR(r.dx[0][i], r.dy[i], 0);
    }
    rig_end(&r);
}

TEST(quantise__running_values_follow_where_a_run_updates)
{
    struct rig r;
    double least, most, want_least = 0, want_range = 0;
    begin(&r, B, B, true);
    rig_run(&r);
    CHECK_NEAR(rig_value(&r, "range")[0], 0, 0);
    r.feed.updates = true;
    for (int step = 0; step < 3; step++) {
        rig_random(r.x[0], r.count[0], test_text("step %d", step), 1 + step);
        rig_run(&r);
        extremes(&r, r.y_count, &least, &most);
        want_least = 0.9 * want_least + 0.1 * least;
        want_range = 0.9 * want_range + 0.1 * (most - least);
        CHECK_NEAR(rig_value(&r, "least")[0], want_least, 10 * rig_rounding);
        CHECK_NEAR(rig_value(&r, "range")[0], want_range, 10 * rig_rounding);
    }
    rig_end(&r);
}

TEST(quantise__evaluation_uses_the_running_values)
{
    struct rig r;
    begin(&r, B, B, false);
    rig_value(&r, "least")[0] = (real)-0.5;
    rig_value(&r, "range")[0] = (real)0.75;
    rig_run(&r);
    for (size_t i = 0; i < r.y_count; i++) {
        double level = rint(((double)r.x[0][i] + 0.5) / 0.05);
        CHECK_NEAR(r.y[i], 0.05 * fmin(fmax(level, 0), LEVELS) - 0.5, 1e-6);
    }
    rig_end(&r);
}

/* A slice of five with three samples in it: the same as one of three. */
TEST(quantise__padding_has_no_part)
{
    struct rig full, padded;
    begin(&full, B, B, true);
    begin(&padded, B + 2, B, true);
    full.feed.updates = padded.feed.updates = true;
    rig_run(&full);
    rig_run(&padded);
    CHECK(memcmp(full.y, padded.y, full.y_count * sizeof(real)) == 0);
    CHECK_NEAR(rig_value(&padded, "range")[0], rig_value(&full, "range")[0], 0);
    rig_end(&full);
    rig_end(&padded);
}
