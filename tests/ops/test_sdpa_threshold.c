/* test_sdpa_threshold.c - the threshold of weights moves as the training goes on. */
#include "graph/rig.h"
#include "ops/ops.h"

enum { N = 3, D = 4 };

/* The norm of y at some point of a training in which the threshold moves from 0.05 to 1. */
static double norm_at(double progress)
{
    const struct sdpa_terms terms = {.above = 0.05, .above_last = 1};
    struct rig r;
    rig_begin(&r, 1, true);
    struct tensor *q = graph_sample(r.graph, SHAPE(1, 1, N, D));
    struct tensor *k = graph_sample(r.graph, SHAPE(1, 1, N, D));
    struct tensor *v = graph_sample(r.graph, SHAPE(1, 1, N, D));
    rig_ready(&r, op_sdpa_terms(r.graph, q, k, v, 0.5, &terms), 1);
    r.feed.progress = progress;
    rig_run(&r);
    double norm = rig_norm(r.y, r.y_count);
    for (int i = 0; i < 3; i++)
        CHECK((rig_norm(r.dx[i], r.count[i]) > 0) == (norm > 0));
    rig_end(&r);
    return norm;
}

TEST(sdpa__leaves_nothing_when_the_threshold_has_reached_its_last_value)
{
    CHECK(norm_at(0) > 0.1);
    CHECK_NEAR(norm_at(1), 0, 0);
}
