/* test_batch_norm.c - batch normalisation as PyTorch's BatchNorm has it: running statistics, a batch
 * that is not full, evaluation. */
#include "graph/rig.h"
#include "nn/nn.h"

enum { B = 3, N = 4, D = 2 };

/* One layer on (slice, N, D), with the batch of `rows` samples. */
static void begin(struct rig *r, int slice, int rows, bool training)
{
    rig_begin(r, slice, training);
    struct tensor *x = graph_input(r->graph, "x", TYPE_REAL, SHAPE(slice, N, D), true);
    rig_ready(r, nn_batch_norm(r->graph, "bn", x), rows);
    CHECK_INT(r->graph->whole_batch, training);
}

/* Mean and variance (over n - 1) of a column. */
static void statistics(const struct rig *r, int c, double *mean, double *variance)
{
    size_t rows = r->y_count / D;
    *mean = *variance = 0;
    for (size_t i = 0; i < rows; i++)
        *mean += (double)r->x[0][i * D + (size_t)c] / (double)rows;
    for (size_t i = 0; i < rows; i++)
        *variance += pow((double)r->x[0][i * D + (size_t)c] - *mean, 2) / (double)(rows - 1);
}

TEST(batch_norm__running_statistics_follow_with_momentum)
{
    struct rig r;
    double mean[D], variance[D], want_mean[D] = {0, 0}, want_variance[D] = {1, 1};
    begin(&r, B, B, true);
    r.feed.updates = true;
    for (int step = 0; step < 3; step++) {
        rig_random(r.x[0], r.count[0], test_text("step %d", step), 1 + step);
        rig_run(&r);
        for (int c = 0; c < D; c++) {
            statistics(&r, c, &mean[c], &variance[c]);
            want_mean[c] += 0.1 * (mean[c] - want_mean[c]);
            want_variance[c] += 0.1 * (variance[c] - want_variance[c]);
            CHECK_NEAR(rig_value(&r, "bn.running_mean")[c], want_mean[c], rig_rounding);
            CHECK_NEAR(rig_value(&r, "bn.running_var")[c], want_variance[c], rig_rounding);
        }
    }
    rig_end(&r);
}

TEST(batch_norm__running_statistics_stay_unless_a_run_updates)
{
    struct rig r;
    begin(&r, B, B, true);
    rig_run(&r);
    r.feed.seed = NULL;
    rig_run(&r);
    for (int c = 0; c < D; c++) {
        CHECK_NEAR(rig_value(&r, "bn.running_mean")[c], 0, 0);
        CHECK_NEAR(rig_value(&r, "bn.running_var")[c], 1, 0);
    }
    rig_end(&r);
}

TEST(batch_norm__running_statistics_are_what_evaluation_uses)
{
    static const double mean[D] = {0.25, -0.5}, variance[D] = {4, 0.5};
    struct rig r;
    begin(&r, B, B, false);
    r.feed.updates = true; /* nothing to be learned */
    rig_randomize(&r, 1);
    for (int c = 0; c < D; c++) {
        rig_value(&r, "bn.running_mean")[c] = (real)mean[c];
        rig_value(&r, "bn.running_var")[c] = (real)variance[c];
    }
    rig_run(&r);
    for (size_t i = 0; i < r.y_count; i++) {
        double slope = (double)rig_value(&r, "bn.weight")[i % D] / sqrt(variance[i % D] + 1e-5);
        double want = ((double)r.x[0][i] - mean[i % D]) * slope +
                      (double)rig_value(&r, "bn.bias")[i % D];
        CHECK_NEAR(r.y[i], want, rig_rounding);
        CHECK_NEAR(r.dx[0][i], slope * (double)r.dy[i], rig_rounding);
    }
    CHECK_NEAR(rig_value(&r, "bn.running_var")[0], variance[0], 0);
    rig_end(&r);
}

/* The same bits in all values and gradients. */
static void check_same_params(const struct rig *a, const struct rig *b)
{
    for (int i = 0; i < a->params.count; i++) {
        const struct param *p = a->params.list[i], *q = b->params.list[i];
        const real *dp = param_grad(&a->params, p), *dq = param_grad(&b->params, q);
        test_about("%s", p->name);
        CHECK(memcmp(p->value, q->value, p->count * sizeof(real)) == 0);
        CHECK(!dp || memcmp(dp, dq, p->count * sizeof(real)) == 0);
    }
}

/* A slice of five with three samples in it: the same bits as one of three. */
TEST(batch_norm__padding_has_no_part_in_anything)
{
    struct rig full, padded;
    begin(&full, B, B, true);
    begin(&padded, B + 2, B, true);
    full.feed.updates = padded.feed.updates = true;
    rig_randomize(&full, 1);
    rig_randomize(&padded, 1);
    rig_run(&full);
    rig_run(&padded);
    CHECK(memcmp(full.y, padded.y, full.y_count * sizeof(real)) == 0);
    CHECK(memcmp(full.dx[0], padded.dx[0], full.count[0] * sizeof(real)) == 0);
    check_same_params(&full, &padded);
    rig_end(&full);
    rig_end(&padded);
}

/* Of one row nothing can be said of the variance. */
TEST(batch_norm__one_row_leaves_the_running_statistics_alone)
{
    struct rig r;
    rig_begin(&r, 2, true);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, D), true);
    rig_ready(&r, nn_batch_norm(r.graph, "bn", x), 1);
    r.feed.updates = true;
    rig_run(&r);
    for (int c = 0; c < D; c++) {
        CHECK_NEAR(r.y[c], 0, 0);
        CHECK_NEAR(r.dx[0][c], 0, 0);
        CHECK_NEAR(rig_value(&r, "bn.running_mean")[c], 0, 0);
        CHECK_NEAR(rig_value(&r, "bn.running_var")[c], 1, 0);
    }
    rig_end(&r);
}

/* --- run twice ---------------------------------------------------------------------------------- */

static struct tensor *blocks(struct graph *g, bool second)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 10, 8), true);
    x = nn_linear(g, "embed", x, 8);
    for (int i = 0; i < 3; i++) {
        graph_segment(g);
        graph_scope_push(g, "blocks.%d", i);
        x = op_add(g, x, op_gelu(g, nn_batch_norm(g, "bn", nn_linear(g, "fc", x, 8))));
        graph_scope_pop(g);
    }
    graph_segment(g);
    x = nn_batch_norm(g, "bn", x);
    if (second)
        graph_recompute(g);
    return x;
}

TEST(batch_norm__recomputation_gives_the_same_and_updates_once)
{
    struct rig r[2];
    for (int second = 0; second < 2; second++) {
        rig_begin(&r[second], 2, true);
        rig_ready(&r[second], blocks(r[second].graph, second), 2);
        rig_randomize(&r[second], 1);
        r[second].feed.updates = true;
        rig_run(&r[second]);
    }
    CHECK(memcmp(r[0].y, r[1].y, r[0].y_count * sizeof(real)) == 0);
    CHECK(memcmp(r[0].dx[0], r[1].dx[0], r[0].count[0] * sizeof(real)) == 0);
    check_same_params(&r[0], &r[1]);
    CHECK(rig_value(&r[0], "blocks.0.bn.running_var")[0] != 1);
    rig_end(&r[0]);
    rig_end(&r[1]);
}

/* --- what is refused ---------------------------------------------------------------------------- */

static void check_refused(struct shape shape, const char *what)
{
    struct rig r;
    rig_begin(&r, shape.dim[0], true);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, shape, true);
    nn_batch_norm(r.graph, "bn", x);
    CHECK_INT(r.graph->error.status, ERR_SHAPE);
    CHECK_CONTAINS(r.graph->error.text, what);
    rig_end(&r);
}

TEST(batch_norm__refuses_what_has_no_statistics)
{
    check_refused(SHAPE(1, 5), "bn: batch_norm: one row has no variance");
    check_refused(SHAPE(5), "does not fit (5)");
    check_refused(SHAPE(2, 2, 2, 2, 2), "does not fit (2, 2, 2, 2, 2)");
}
