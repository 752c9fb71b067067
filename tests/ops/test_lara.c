/* test_lara.c - importance sampling from proposals: golden values of efficient-attention.md, 15.1, on a 4 x 4
 * map with d = 4, alpha 2 and mixed landmarks; and what must hold for any numbers. */
#include "graph/rig.h"
#include "ops/ops.h"

enum { N = 16, C = 4, D = 4 };
enum { Q, K, V, Q_BAR, K_BAR, NOISE };

/* F of that section: sin(0.7 i + 0.3 c). */
static void wave(real *to, int n, int c)
{
    for (int i = 0; i < n; i++)
        to[i] = (real)sin(0.7 * i + 0.3 * c);
}

static struct tensor *input(struct rig *r, int rows)
{
    return graph_input(r->graph, "x", TYPE_REAL, SHAPE(1, 1, rows, D), true);
}

static void make(struct rig *r, enum lara_mis mis, int landmarks)
{
    static const int waves[] = {1, 2, 3, 4, 5, 8};
    struct tensor *in[NOISE + 1];
    rig_begin(r, 1, false);
    struct graph *g = r->graph;
    for (int i = 0; i <= NOISE; i++)
        in[i] = input(r, i < Q_BAR ? N : landmarks);
    struct tensor *scores = op_scale(g, op_matmul_nt_real(g, in[K_BAR], in[K_BAR]), 0.5);
    struct tensor *k_bar = op_matmul_real(g, op_softmax_real(g, scores), in[K_BAR]);
    struct tensor *mu = op_add(g, in[Q_BAR], k_bar), *omega = op_add(g, mu, in[NOISE]);
    const struct lara_terms terms = {.mis = mis, .alpha = 2, .scale = 0.5};
    rig_ready(r, op_lara(g, in[Q], in[K], in[V], mis == LARA_OPT ? in[Q_BAR] : NULL, mu, omega, &terms), 1);
    for (int i = 0; i <= NOISE; i++)
        wave(r->x[i], (i < Q_BAR ? N : landmarks) * D, waves[i]);
    wave(r->dy, N * D, 9);
}

static void check_golden(const real *x, int n, double sum, double squares, double first, double last)
{
    const double tolerance = sizeof(real) == 8 ? 2e-10 : 5e-5;
    double s = 0, q = 0;
    for (int i = 0; i < n; i++) {
        s += (double)x[i];
        q += (double)x[i] * (double)x[i];
    }
    CHECK_NEAR(s, sum, 10 * tolerance);
    CHECK_NEAR(q, squares, 10 * tolerance);
    CHECK_NEAR(x[0], first, tolerance);
    CHECK_NEAR(x[n - 1], last, tolerance);
}

TEST(lara__has_the_values_of_its_specification)
{
    struct rig r;
    make(&r, LARA_OPT, C);
    rig_run(&r);
    check_golden(r.y, N * D, -4.0799663264, 9.3336402950, 0.6150337329, 0.1976583795);
    check_golden(r.dx[Q], N * D, -0.0311717209, 9.2662460804, 0.0398935711, 0.0630994401);
    check_golden(r.dx[K], N * D, 1.2007995441, 9.4024610084, -0.6530753227, -0.1924472724);
    check_golden(r.dx[Q_BAR], C * D, -1.1296124365, 1.3550082813, -0.5426308252, 0.2168404324);
    check_golden(r.dx[K_BAR], C * D, -1.8466897908, 2.1414541650, -0.5016278448, 0.1357895454);
    rig_end(&r);
}

/* Rows of v that are all alike come out; the gradients of v add up to those of y. */
TEST(lara__gives_means_of_values)
{
    for (int mis = LARA_OPT; mis <= LARA_BIASED; mis++) {
        struct rig r;
        make(&r, (enum lara_mis)mis, C);
        for (int i = 0; i < N * D; i++)
            r.x[V][i] = (real)(1 + i % D);
        rig_run(&r);
        for (int c = 0; c < D; c++) {
            double dv = 0, dy = 0;
            for (int i = 0; i < N; i++) {
                CHECK_NEAR(r.y[i * D + c], 1 + c, 1e-5);
                dv += (double)r.dx[V][i * D + c];
                dy += (double)r.dy[i * D + c];
            }
            CHECK_NEAR(dv, dy, 1e-5);
        }
        rig_end(&r);
    }
}

TEST(lara__with_equal_keys_gives_the_mean_of_all_values) /* T-LARA-1 */
{
    struct rig r;
    make(&r, LARA_OPT, C);
    for (int i = 0; i < N * D; i++)
        r.x[K][i] = (real)(0.3 * (i % D) - 0.2);
    rig_run(&r);
    for (int c = 0; c < D; c++) {
        double mean = 0;
        for (int i = 0; i < N; i++)
            mean += (double)r.x[V][i * D + c] / N;
        for (int i = 0; i < N; i++)
            CHECK_NEAR(r.y[i * D + c], mean, 1e-5);
    }
    rig_end(&r);
}

TEST(lara__with_one_proposal_does_not_depend_on_the_query) /* T-LARA-1 */
{
    for (int mis = LARA_OPT; mis <= LARA_BIASED; mis++) {
        struct rig r;
        make(&r, (enum lara_mis)mis, 1);
        rig_run(&r);
        for (int i = D; i < N * D; i++)
            CHECK_NEAR(r.y[i], r.y[i % D], 1e-5);
        CHECK(rig_norm(r.dx[K], N * D) > 1e-2);
        rig_end(&r);
    }
}
