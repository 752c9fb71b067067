/* test_products.c - the products that ops say they do: MACs and the ceiling of bench follow. */
#include <math.h>

#include "graph/rig.h"
#include "ops/ops.h"

/* Of all products of a node, and of the last ones that have the same operands: an op may multiply
 * its operands part by part. */
struct sum {
    const struct node *node;
    double macs;
    int a, b;                /* the last operands */
    double out, a_read, b_read; /* elements of their results, and what is read of them */
};

/* The products read every element of an operand equally often, and at least once. */
static void check_operand(const struct node *n, int i, double elements)
{
    if (i == PRODUCT_BETWEEN)
        return;
    CHECK(i >= 0 && i < n->inputs);
    double times = elements / (double)tensor_count(n->in[i]);
    CHECK(times >= 1);
    CHECK_NEAR(times, floor(times), 0);
}

/* An op with MACs of its own has masks, lists of keys or other work beside its products. */
static void check_operands(const struct sum *sum)
{
    if (sum->macs == 0 || sum->node->op->macs)
        return;
    check_operand(sum->node, sum->a, sum->a_read);
    check_operand(sum->node, sum->b, sum->b_read);
}

static void check_product(const struct product *p, void *context)
{
    struct sum *sum = context;
    CHECK(p->m > 0 && p->n > 0 && p->k > 0 && p->count >= 1);
    bool part = sum->a == p->a && sum->b == p->b && p->a != PRODUCT_BETWEEN &&
                p->b != PRODUCT_BETWEEN;
    if (!part) {
        check_operands(sum);
        *sum = (struct sum){.node = sum->node, .macs = sum->macs, .a = p->a, .b = p->b};
    }
    sum->a_read += p->count * p->m * p->k;
    sum->b_read += p->count * p->k * p->n;
    sum->macs += p->count * p->m * p->n * p->k;
    sum->out += p->count * p->m * p->n;
}

TEST(every_op__has_products_that_give_its_output_and_its_macs)
{
    int nodes = 0;
    for (int i = 0; op_at(i); i++) {
        if (!op_at(i)->products)
            continue;
        test_about("%s", op_at(i)->name);
        struct rig r;
        rig_begin(&r, 2, true);
        op_at(i)->sample(r.graph);
        CHECK_INT(r.graph->error.status, OK);
        for (int k = 0; k < r.graph->node_count; k++) {
            struct sum sum = {.node = r.graph->nodes[k]};
            if (!sum.node->op->products)
                continue;
            sum.node->op->products(sum.node, check_product, &sum);
            check_operands(&sum);
            nodes++;
            if (sum.node->op->macs) {
                CHECK(sum.macs > 0.5 * node_macs(sum.node));
                continue;
            }
            CHECK_NEAR(sum.out, tensor_count(sum.node->out), 0);
            CHECK_NEAR(sum.macs, node_macs(sum.node), 0);
        }
        rig_end(&r);
    }
    CHECK(nodes >= 4);
}

static double macs_of_last(struct rig *r)
{
    CHECK_INT(r->graph->error.status, OK);
    return node_macs(r->graph->nodes[r->graph->node_count - 1]);
}

TEST(node_macs__follow_the_shapes)
{
    struct rig r;
    rig_begin(&r, 2, true);
    struct graph *g = r.graph;
    struct tensor *x = graph_sample(g, SHAPE(2, 3, 4));
    op_linear(g, x, graph_param(g, "W", SHAPE(5, 4), INIT_ZEROS), NULL);
    CHECK_NEAR(macs_of_last(&r), 2 * 3 * 4 * 5, 0);
    op_token_mix(g, x, graph_param(g, "heads", SHAPE(2, 3, 3), INIT_ZEROS), NULL);
    CHECK_NEAR(macs_of_last(&r), 2 * 3 * 3 * 4, 0);
    struct tensor *q = graph_sample(g, SHAPE(2, 2, 3, 4)), *k = graph_sample(g, SHAPE(2, 2, 5, 4));
    op_sdpa(g, q, k, graph_sample(g, SHAPE(2, 2, 5, 7)), 1);
    CHECK_NEAR(macs_of_last(&r), 2 * 2 * 3 * 5 * (4 + 7), 0);
    op_matmul_nt(g, q, k);
    CHECK_NEAR(macs_of_last(&r), 2 * 2 * 3 * 5 * 4, 0);
    op_matmul_tn(g, graph_param(g, "E", SHAPE(5, 6), INIT_ZEROS), k);
    CHECK_NEAR(macs_of_last(&r), 2 * 2 * 6 * 5 * 4, 0);
    op_gelu(g, x);
    CHECK_NEAR(macs_of_last(&r), 0, 0);
    rig_end(&r);
}

static double seven(const struct node *n)
{
    (void)n;
    return 7;
}

TEST(node_macs__are_those_that_an_op_counts_itself)
{
    const struct op op = {.name = "seven", .macs = seven, .products = linear_op.products};
    const struct node n = {.op = &op};
    CHECK_NEAR(node_macs(&n), 7, 0);
}
