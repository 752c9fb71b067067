/* test_sdpa_threshold.c - weights below a threshold are left out, which moves as the training goes on. */
#include "graph/rig.h"
#include "ops/ops.h"

enum { N = 3, D = 4, MANY = 600 };

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

/* Attention of queries `first` to MANY - 1 over MANY keys, of which those before `plain` are equal for
 * all. */
static void run_from(struct rig *r, int first, int plain)
{
    const struct sdpa_terms terms = {.above = 0.01, .above_last = 0.01};
    rig_begin(r, 1, false);
    struct tensor *q = graph_sample(r->graph, SHAPE(1, 1, MANY - first, D));
    struct tensor *k = graph_sample(r->graph, SHAPE(1, 1, MANY, D));
    struct tensor *v = graph_sample(r->graph, SHAPE(1, 1, MANY, D));
    rig_ready(r, op_sdpa_terms(r->graph, q, k, v, 3, &terms), 1);
    real values[MANY * D], seeds[MANY * D];
    rig_random(values, MANY * D, "queries", 4);
    rig_random(seeds, MANY * D, "seeds", 1);
    memset(values, 0, (size_t)plain * D * sizeof(real));
    memcpy(r->x[0], values + first * D, (size_t)(MANY - first) * D * sizeof(real));
    memcpy(r->dy, seeds + first * D, (size_t)(MANY - first) * D * sizeof(real));
    rig_run(r);
}

/* Queries of 0 weigh all 600 keys alike, below the threshold, and fill tiles by themselves. */
TEST(sdpa__skips_tiles_without_a_large_weight)
{
    struct rig all, rest;
    for (int plain = 200; plain <= MANY; plain += 200) {
        int first = plain < MANY ? plain : 0;
        run_from(&all, 0, plain);
        run_from(&rest, first, plain);
        for (int i = 0; i < first * D; i++)
            CHECK(all.y[i] == 0 && all.dx[0][i] == 0);
        for (int i = first * D; i < MANY * D; i++)
            CHECK_NEAR(all.y[i], rest.y[i - first * D], rig_rounding * 10);
        for (int which = 1; which < 3; which++) {
            double norm = rig_norm(rest.dx[which], MANY * D);
            CHECK((norm > 0) == (plain < MANY));
            for (int i = 0; i < MANY * D; i++)
                CHECK_NEAR(all.dx[which][i], rest.dx[which][i], rig_rounding * (1 + norm));
        }
        rig_end(&all);
        rig_end(&rest);
    }
}
