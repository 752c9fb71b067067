/* test_gradcheck.c - the gradient check finds what is wrong, and finds nothing wrong in what is
 * there. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "kernels/kernels.h"
#include "ops/ops.h"
#include "study/gradcheck.h"

/* y = x^2 with a backward that `faults` spoil. */
enum fault { NONE, WRONG_SIGN, SLIGHTLY_OFF, NOTHING, NAN_IN_IT, READS_BEFORE, FORGETS_TO_ADD };

struct square {
    enum fault fault;
};

static void square_forward(const struct node *n)
{
    const real *x = n->in[0]->data;
    real *y = n->out->data;
    for (size_t i = 0; i < tensor_count(n->out); i++)
        y[i] = x[i] * x[i];
}

static void square_backward(const struct node *n)
{
    const struct square *o = n->options;
    const real *x = n->in[0]->data, *dy = n->out->grad;
    real *dx = n->in[0]->grad;
    double factor = o->fault == WRONG_SIGN ? -2 : o->fault == SLIGHTLY_OFF ? 2.1 : 2;
    bool adds = o->fault == READS_BEFORE || (n->beta[0] && o->fault != FORGETS_TO_ADD);
    for (size_t i = 0; i < tensor_count(n->out); i++) {
        double grad = factor * (double)x[i] * (double)dy[i];
        if (o->fault == NOTHING)
            grad = 0;
        if (o->fault == NAN_IN_IT && i == 3)
            grad = (double)NAN;
        dx[i] = (real)grad + (adds ? dx[i] : 0);
    }
}

static void square_infer(struct graph *g, struct node *n)
{
    infer_unary(g, n);
}

static const struct op square_op = {
    .name = "square", .infer = square_infer, .forward = square_forward,
    .backward = square_backward, .backward_reads = READS_IN(0), .takes = TYPE_REAL,
};

static struct tensor *build_square(struct graph *g, const void *context)
{
    struct tensor *x = graph_sample(g, SHAPE(2, 3, 4));
    return graph_record(g, &square_op, graph_copy(g, context, sizeof(struct square)), INPUTS(x));
}

static struct gradcheck checked(enum fault fault, bool twice)
{
    struct gradcheck result;
    struct square o = {fault};
    gradcheck_graph(&result, build_square, &o, twice ? &square_op : NULL);
    return result;
}

TEST(gradcheck__a_right_gradient_passes)
{
    for (int twice = 0; twice < 2; twice++) {
        struct gradcheck r = checked(NONE, twice);
        test_about("%s", r.note);
        CHECK(r.passed);
        CHECK(r.worst > 0);
        CHECK_STR(r.note, "");
    }
}

TEST(gradcheck__a_wrong_gradient_fails)
{
    struct gradcheck r = checked(WRONG_SIGN, false);
    CHECK(!r.passed);
    CHECK(r.worst > 1);
    r = checked(SLIGHTLY_OFF, false);
    CHECK(!r.passed);
    CHECK_CONTAINS(r.note, "relative error");
    r = checked(NAN_IN_IT, false);
    CHECK(!r.passed);
}

TEST(gradcheck__a_backward_that_does_nothing_fails)
{
    struct gradcheck r = checked(NOTHING, false);
    CHECK(!r.passed);
    CHECK_CONTAINS(r.note, "input 0: its gradient is zero");
}

TEST(gradcheck__reading_where_beta_is_zero_fails)
{
    struct gradcheck r = checked(READS_BEFORE, false);
    CHECK(!r.passed);
    CHECK_CONTAINS(r.note, "memory");
}

TEST(gradcheck__a_second_reader_that_overwrites_fails)
{
    CHECK(checked(FORGETS_TO_ADD, false).passed);
    CHECK(!checked(FORGETS_TO_ADD, true).passed);
}

static struct tensor *build_unreached(struct graph *g, const void *context)
{
    (void)context;
    struct tensor *x = graph_sample(g, SHAPE(2, 3));
    graph_param(g, "unused", SHAPE(3), INIT_ONES);
    return op_softmax(g, x);
}

TEST(gradcheck__a_parameter_that_nothing_reads_fails)
{
    struct gradcheck r;
    gradcheck_graph(&r, build_unreached, NULL, NULL);
    CHECK(!r.passed);
    CHECK_CONTAINS(r.note, "unused: its gradient is zero");
}

static struct tensor *build_mismatch(struct graph *g, const void *context)
{
    (void)context;
    return op_add(g, graph_sample(g, SHAPE(2, 3)), graph_sample(g, SHAPE(2, 4)));
}

TEST(gradcheck__a_graph_that_cannot_be_recorded_fails)
{
    struct gradcheck r;
    gradcheck_graph(&r, build_mismatch, NULL, NULL);
    CHECK(!r.passed);
    CHECK_CONTAINS(r.note, "(2, 4)");
}

TEST(gradcheck__every_op_and_variant_is_listed_once)
{
    int ops = 0, variants = 0, names = 0;
    while (op_at(ops))
        ops++;
    while (attn_kinds(variants))
        variants++;
    for (; gradcheck_name(names); names++)
        for (int k = 0; k < names; k++)
            CHECK(strcmp(gradcheck_name(k), gradcheck_name(names)) != 0);
    CHECK_INT(names, ops + variants);
    CHECK(variants >= 4);
}

TEST(gradcheck__every_op_and_variant_passes)
{
    for (int i = 0; gradcheck_name(i); i++) {
        struct gradcheck r;
        gradcheck_run(&r, i);
        test_about("%s %s: %s", r.group, r.name, r.note);
        CHECK(r.passed);
        CHECK(r.worst <= gradcheck_tolerance());
    }
}
