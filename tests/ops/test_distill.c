/* test_distill.c - op_distill against PyTorch's losses for DeiT. */
#include "graph/rig.h"
#include "ops/ops.h"

enum { B = 2, K = 3 };

static const double ours[B * K] = {0.5, -1.25, 2, 0.25, 1.5, -0.75};
static const double theirs[B * K] = {1, 0.5, -0.5, -2, 0.75, 0.75};

/* Of torch.nn.functional: kl_div(log_softmax(x / 3), log_softmax(z / 3), log_target=True) summed over
 * classes, times 9 / K; and cross_entropy(x, z.argmax(1)). Gradients by autograd, of the sum with the
 * factors 1 and -2. */
static const double soft_loss[B] = {0.4933989658064705, 0.3320474918086628};
static const double soft_grad[B * K] = {-0.09582044273640462, -0.1710598917423737,
                                        0.2668803344787783, -0.2853096506924507,
                                        -0.10487363650240211, 0.3901832871948531};
static const double hard_loss[B] = {1.7326219831020326, 0.3306726094072241};
static const double hard_grad[B * K] = {-0.8231798178925557, 0.030726740326436432,
                                        0.7924530775661193, -0.4116732079953031,
                                        0.5631193176978702, -0.15144610970256703};

static void check_kind(enum distill_kind kind, double temperature, const double *loss,
                       const double *grad)
{
    const double tolerance = sizeof(real) == sizeof(double) ? 1e-14 : 1e-6;
    struct rig r;
    rig_begin(&r, B, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(B, K), true);
    struct tensor *z = graph_input(r.graph, "teacher", TYPE_REAL, SHAPE(B, K), false);
    rig_ready(&r, op_distill(r.graph, x, z, kind, temperature), B);
    for (int i = 0; i < B * K; i++) {
        r.x[0][i] = (real)ours[i];
        r.x[1][i] = (real)theirs[i];
    }
    r.dy[0] = 1;
    r.dy[1] = -2;
    rig_run(&r);
    for (int i = 0; i < B; i++)
        CHECK_NEAR(r.y[i], loss[i], tolerance);
    for (int i = 0; i < B * K; i++)
        CHECK_NEAR(r.dx[0][i], grad[i], tolerance);
    rig_end(&r);
}

TEST(distill__soft_is_the_divergence_at_a_temperature)
{
    check_kind(DISTILL_SOFT, 3, soft_loss, soft_grad);
}

TEST(distill__hard_is_the_cross_entropy_with_the_first_largest)
{
    check_kind(DISTILL_HARD, 1, hard_loss, hard_grad);
}

TEST(distill__of_large_logits_stays_finite_and_of_equal_ones_is_0)
{
    for (int same = 0; same < 2; same++) {
        struct rig r;
        rig_begin(&r, B, false);
        struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(B, K), true);
        struct tensor *z = graph_input(r.graph, "teacher", TYPE_REAL, SHAPE(B, K), false);
        rig_ready(&r, op_distill(r.graph, x, z, DISTILL_SOFT, 0.5), B);
        for (int i = 0; i < B * K; i++) {
            r.x[0][i] = (real)(1e4 * ours[i]);
            r.x[1][i] = same ? r.x[0][i] : (real)(1e4 * theirs[i]);
        }
        rig_run(&r);
        for (int i = 0; i < B; i++)
            CHECK(isfinite(r.y[i]) && (same ? fabs((double)r.y[i]) < 1e-9 : r.y[i] > 0));
        for (int i = 0; i < B * K; i++)
            CHECK(isfinite(r.dx[0][i]) && (!same || r.dx[0][i] == 0));
        rig_end(&r);
    }
}

TEST(distill__wants_as_many_classes)
{
    struct rig r;
    rig_begin(&r, B, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(B, K), true);
    struct tensor *z = graph_input(r.graph, "teacher", TYPE_REAL, SHAPE(B, K + 1), false);
    op_distill(r.graph, x, z, DISTILL_SOFT, 1);
    CHECK_INT(graph_plan(r.graph, &r.error), ERR_SHAPE);
    CHECK_CONTAINS(r.error.text, "distill: (2, 3) and (2, 4)");
    rig_end(&r);
}
