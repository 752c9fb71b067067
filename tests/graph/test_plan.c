/* test_plan.c - plans replayed: every step of forward and backward stamps what it writes with its
 * owner's number and looks whether what it reads still bears it. */
#include <stdlib.h>

#include "graph/rig.h"
#include "nn/nn.h"

enum { SLOT = 64 }; /* bytes: planned places are multiples of it */

struct replay {
    const struct graph *g;
    int *owner;           /* of each slot of the block, 0: nobody */
    bool *written;        /* of each column of each root's gradient */
    size_t *first_column; /* where a root's columns start in `written` */
};

static size_t slots_of(const struct tensor *root)
{
    return (tensor_count(root) * type_size(root->type) + SLOT - 1) / SLOT;
}

static int value_id(const struct tensor *root)
{
    return 2 * root->index + 1;
}

static int grad_id(const struct tensor *root)
{
    return 2 * root->index + 2;
}

static void stamp(struct replay *p, size_t at, const struct tensor *root, int id)
{
    CHECK_INT(at % SLOT, 0);
    CHECK(at + slots_of(root) * SLOT <= p->g->block_bytes);
    for (size_t i = 0; i < slots_of(root); i++)
        p->owner[at / SLOT + i] = id;
}

static void expect(const struct replay *p, size_t at, const struct tensor *root, int id)
{
    for (size_t i = 0; i < slots_of(root); i++)
        CHECK_INT(p->owner[at / SLOT + i], id);
}

static void write_value(struct replay *p, const struct tensor *t)
{
    if (t)
        stamp(p, t->root->data_at, t->root, value_id(t->root));
}

static void read_value(const struct replay *p, const struct tensor *t)
{
    if (t && !t->root->param && t->root->input < 0)
        expect(p, t->root->data_at, t->root, value_id(t->root));
}

static bool has_own_grad(const struct replay *p, const struct tensor *t)
{
    return t && t->root->needs_grad && !t->root->param && t->root != p->g->loss->root;
}

/* The first of t's columns, found by where it lies in its root. */
static bool *columns_of(const struct replay *p, const struct tensor *t)
{
    return p->written + p->first_column[t->root->index] + t->offset % tensor_cols(t->root);
}

/* Number of columns of t whose gradient is written. */
static int written(const struct replay *p, const struct tensor *t)
{
    int count = 0;
    for (int c = 0; c < t->columns; c++)
        count += columns_of(p, t)[c];
    return count;
}

static void set_written(struct replay *p, const struct tensor *t)
{
    for (int c = 0; c < t->columns; c++)
        columns_of(p, t)[c] = true;
}

static void clear_grad(struct replay *p, const struct tensor *root)
{
    CHECK_INT(written(p, root), 0);
    stamp(p, root->grad_at, root, grad_id(root));
    set_written(p, root);
}

/* A gradient is written over only where nothing was, and added to only where all of it was. */
static void write_grad(struct replay *p, const struct tensor *t, int beta)
{
    int before = written(p, t);
    if (written(p, t->root))
        expect(p, t->root->grad_at, t->root, grad_id(t->root));
    CHECK_INT(before, beta ? t->columns : 0);
    stamp(p, t->root->grad_at, t->root, grad_id(t->root));
    set_written(p, t);
}

static void read_grad(const struct replay *p, const struct tensor *t)
{
    if (!has_own_grad(p, t))
        return;
    CHECK_INT(written(p, t->root), t->root->columns);
    expect(p, t->root->grad_at, t->root, grad_id(t->root));
}

static void replay_forward(struct replay *p, const struct node *n)
{
    write_value(p, n->out);
    write_value(p, n->scratch);
    for (int k = 0; k < OP_MAX_SAVED; k++)
        write_value(p, n->saved[k]);
    for (int k = 0; k < n->inputs; k++)
        read_value(p, n->in[k]);
    read_value(p, n->out);
    read_value(p, n->scratch);
    for (int k = 0; k < OP_MAX_SAVED; k++)
        read_value(p, n->saved[k]);
}

static void replay_backward(struct replay *p, const struct node *n)
{
    write_value(p, n->scratch_backward);
    for (int k = 0; k < n->inputs; k++)
        if (n->clear[k] && has_own_grad(p, n->in[k]))
            clear_grad(p, n->in[k]->root);
    for (int k = 0; k < n->inputs; k++)
        if (has_own_grad(p, n->in[k]))
            write_grad(p, n->in[k], n->beta[k]);
    for (int k = 0; k < n->inputs; k++)
        if (n->op->backward_reads & READS_IN(k))
            read_value(p, n->in[k]);
    if (n->op->backward_reads & READS_OUT)
        read_value(p, n->out);
    for (int k = 0; k < OP_MAX_SAVED; k++)
        read_value(p, n->saved[k]);
    read_value(p, n->scratch_backward);
    read_grad(p, n->out);
}

/* Replays the plan of r's graph and checks every read. */
static void replay(struct rig *r)
{
    const struct graph *g = r->graph;
    struct replay p = {.g = g};
    p.owner = rig_alloc(r, (g->block_bytes / SLOT + 1) * sizeof *p.owner);
    p.first_column = rig_alloc(r, (size_t)(g->tensor_count + 1) * sizeof *p.first_column);
    size_t columns = 0;
    for (int i = 0; i < g->tensor_count; i++) {
        p.first_column[i] = columns;
        columns += (size_t)g->tensors[i]->root->columns;
    }
    p.written = rig_alloc(r, columns * sizeof *p.written);
    for (int i = 0; i < g->node_count; i++)
        replay_forward(&p, g->nodes[i]);
    for (int i = g->node_count - 1; i >= 0; i--)
        if (g->nodes[i]->runs_backward)
            replay_backward(&p, g->nodes[i]);
    for (int i = 0; i < g->output_count; i++)
        read_value(&p, g->outputs[i]);
    for (int i = 0; i < g->input_count; i++)
        if (g->inputs[i]->keep_grad)
            read_grad(&p, g->inputs[i]);
}

/* --- random graphs ------------------------------------------------------------------------------
 */

enum { POOL = 40 };

struct pool {
    struct tensor *at[POOL];
    int count;
    uint64_t stream, draws;
};

static int draw(struct pool *p, int n)
{
    return (int)rng_below(p->stream, 0, 0, p->draws++, (uint64_t)n);
}

static struct tensor *any(struct pool *p)
{
    return p->at[draw(p, p->count)];
}

/* One as wide as t; t itself in the end. */
static struct tensor *like(struct pool *p, struct tensor *t)
{
    for (int tries = 0; tries < 8; tries++) {
        struct tensor *other = any(p);
        if (tensor_cols(other) == tensor_cols(t))
            return other;
    }
    return t;
}

/* A step of a random kind from tensors (2, 3, even) to another such tensor. */
static struct tensor *random_step(struct graph *g, struct pool *p, int number)
{
    struct tensor *t = any(p), *u = like(p, t), *v = like(p, t);
    int cols = tensor_cols(t);
    const char *name = test_text("p%d", number);
    switch (draw(p, 9)) {
    case 0:
        return op_scale(g, t, 0.7);
    case 1:
        return op_multiply(g, t, u);
    case 2:
        return op_add(g, t, u);
    case 3:
        return op_softmax(g, t);
    case 4:
        return nn_linear(g, name, t, 2 * (1 + draw(p, 4)));
    case 5:
        return nn_layer_norm(g, name, t, 0.1);
    case 6:
        return op_merge_heads(g, op_sdpa(g, graph_split_heads(g, t, 2), graph_split_heads(g, u, 2),
                                         graph_split_heads(g, v, 2), 0.7));
    default: { /* a view */
        int first = cols > 2 ? 2 * draw(p, cols / 2) : 0;
        return graph_columns(g, t, first, 2 * (1 + draw(p, (cols - first) / 2)));
    }
    }
}

static void random_graph(struct rig *r, int number)
{
    struct graph *g = r->graph;
    struct pool p = {.stream = rng_stream((uint64_t)number, "graph")};
    p.at[p.count++] = graph_input(g, "a", TYPE_REAL, SHAPE(2, 3, 4), true);
    p.at[p.count++] = graph_input(g, "b", TYPE_REAL, SHAPE(2, 3, 8), true);
    int steps = 5 + draw(&p, 25);
    for (int i = 0; i < steps; i++) {
        p.at[p.count] = random_step(g, &p, i);
        p.count++;
    }
    graph_output(g, any(&p));
    struct tensor *end = nn_linear(g, "end", p.at[p.count - 1], 2);
    rig_ready(r, end, 4);
    rig_randomize(r, 1);
}

TEST(plan__of_random_graphs_keeps_what_is_read_later)
{
    for (int i = 0; i < 300; i++) {
        struct rig r;
        test_about("graph %d", i);
        rig_begin(&r, 2, false);
        random_graph(&r, i);
        replay(&r);
        rig_end(&r);
    }
}

TEST(plan__of_random_graphs_gives_the_gradients_of_the_loss)
{
    if (sizeof(real) < sizeof(double))
        SKIP("needs the double build");
    for (int i = 0; i < 60; i++) {
        struct rig r;
        test_about("graph %d", i);
        rig_begin(&r, 2, false);
        random_graph(&r, i);
        rig_check_gradients(&r, 1e-7);
        rig_end(&r);
    }
}

/* --- one graph at a time ------------------------------------------------------------------------
 */

static struct graph *inference_chain(struct params *params, int length)
{
    struct graph_options options = {.batch = 1};
    struct graph *g = graph_create(params, &options);
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(1, 100, 64), false);
    for (int i = 0; i < length; i++)
        x = op_gelu(g, x);
    graph_output(g, x);
    return g;
}

TEST(plan__of_a_chain_needs_two_buffers_to_evaluate)
{
    struct params params;
    struct error error;
    params_init(&params);
    struct graph *g = inference_chain(&params, 10);
    CHECK_OK(graph_plan(g, &error), error);
    CHECK_INT(g->block_bytes, 2 * 6400 * sizeof(real));
    CHECK_INT(g->value_bytes, 10 * 6400 * sizeof(real));
    graph_free(g);
    params_free(&params);
}

TEST(plan__keeps_only_what_backward_reads)
{
    struct rig r;
    rig_begin(&r, 1, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(1, 100, 64), true);
    for (int i = 0; i < 10; i++)
        x = op_scale(r.graph, x, 2);
    rig_ready(&r, x, 1);
    replay(&r);
    CHECK(r.graph->block_bytes <= 3 * 6400 * sizeof(real)); /* 10 values and 10 gradients */
    rig_end(&r);

    rig_begin(&r, 1, false);
    x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(1, 100, 64), true);
    for (int i = 0; i < 10; i++)
        x = op_gelu(r.graph, x);
    rig_ready(&r, x, 1);
    replay(&r);
    CHECK(r.graph->block_bytes >= 10 * 6400 * sizeof(real)); /* gelu reads its input again */
    CHECK(r.graph->block_bytes <= 12 * 6400 * sizeof(real));
    rig_end(&r);
}

TEST(plan__lets_the_last_reader_write_and_the_others_add)
{
    struct rig r;
    rig_begin(&r, 1, false);
    struct graph *g = r.graph;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(1, 2, 4), true);
    struct tensor *a = op_scale(g, x, 2), *b = op_scale(g, x, 3), *c = op_add(g, a, b);
    rig_ready(&r, op_multiply(g, c, c), 1);
    CHECK_INT(g->nodes[0]->beta[0], 1);
    CHECK_INT(g->nodes[1]->beta[0], 0); /* backward runs from the end */
    CHECK_INT(g->nodes[3]->beta[0], 0);
    CHECK_INT(g->nodes[3]->beta[1], 1); /* the same tensor again */
    rig_run(&r);
    for (int i = 0; i < 8; i++)
        CHECK_NEAR(r.dx[0][i], 50 * r.x[0][i] * r.dy[i], 100 * rig_rounding);
    rig_end(&r);
}

TEST(plan__gives_parameters_gradients_that_add_up)
{
    struct rig r;
    rig_begin(&r, 1, false);
    struct graph *g = r.graph;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(1, 2, 3), true);
    struct tensor *gamma = graph_param(g, "gamma", SHAPE(3), INIT_ONES);
    rig_ready(&r, op_add(g, op_scale_cols(g, x, gamma), op_scale_cols(g, x, gamma)), 1);
    rig_run(&r);
    for (int c = 0; c < 3; c++) {
        double want = 2 * (double)(r.x[0][c] * r.dy[c] + r.x[0][3 + c] * r.dy[3 + c]);
        CHECK_NEAR(rig_grad(&r, "gamma")[c], want, 10 * rig_rounding);
    }
    rig_end(&r);
}

TEST(plan__gives_columns_that_nobody_reads_a_zero_gradient)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct graph *g = r.graph;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 3, 8), true);
    struct tensor *h = op_scale(g, x, 2); /* columns 2, 3 and 6, 7 are read; 3 by two */
    struct tensor *a = graph_columns(g, h, 2, 2), *b = graph_columns(g, h, 6, 2);
    struct tensor *c = graph_columns(g, h, 3, 1);
    struct tensor *sum = op_add(g, op_scale(g, a, 1), op_scale(g, b, 1));
    rig_ready(
        &r,
        op_add(g, sum,
               op_linear(g, op_scale(g, c, 1), graph_param(g, "W", SHAPE(2, 1), INIT_ONES), NULL)),
        2);
    replay(&r);
    for (int again = 0; again < 2; again++) {
        rig_run(&r);
        for (int row = 0; row < 6; row++) {
            const real *dy = r.dy + 2 * row, *dx = r.dx[0] + 8 * row;
            const double p = (double)dy[0], q = (double)dy[1];
            const double want[8] = {0, 0, p, q + p + q, 0, 0, p, q};
            for (int i = 0; i < 8; i++)
                CHECK_NEAR(dx[i], 2 * want[i], 10 * rig_rounding);
        }
    }
    rig_end(&r);
}

TEST(plan__gives_an_input_of_which_columns_are_read_zeros_elsewhere)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 3, 8), true);
    rig_ready(&r, op_scale(r.graph, graph_columns(r.graph, x, 5, 2), 3), 2);
    replay(&r);
    rig_run(&r);
    for (int row = 0; row < 6; row++)
        for (int c = 0; c < 8; c++) {
            double want = c == 5 || c == 6 ? 3 * (double)r.dy[2 * row + c - 5] : 0;
            CHECK_NEAR(r.dx[0][8 * row + c], want, rig_rounding);
        }
    rig_end(&r);
}

TEST(plan__knows_columns_of_columns_from_their_neighbours)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct graph *g = r.graph;
    struct tensor *h = op_scale(g, graph_input(g, "x", TYPE_REAL, SHAPE(2, 6), true), 2);
    struct tensor *sum = op_add(g, graph_columns(g, h, 0, 2), graph_columns(g, h, 2, 2));
    struct tensor *inner = graph_columns(g, graph_columns(g, h, 2, 4), 0, 2); /* 2 and 3 again */
    sum = op_add(g, sum, op_scale(g, inner, 5));
    rig_ready(&r, op_add(g, sum, graph_columns(g, h, 4, 2)), 2);
    replay(&r);
    for (int again = 0; again < 2; again++)
        rig_run(&r);
    for (int i = 0; i < 12; i++) {
        int factor = i % 6 / 2 == 1 ? 12 : 2;
        CHECK_NEAR(r.dx[0][i], factor * r.dy[i / 6 * 2 + i % 2], 20 * rig_rounding);
    }
    rig_end(&r);
}

TEST(plan__leaves_out_branches_that_the_loss_does_not_see)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct graph *g = r.graph;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 4), true);
    struct tensor *unseen = graph_input(g, "unseen", TYPE_REAL, SHAPE(2, 4), true);
    struct tensor *dead = nn_linear(g, "dead", op_add(g, op_gelu(g, x), unseen), 4);
    graph_output(g, dead);
    rig_ready(&r, nn_linear(g, "live", x, 4), 2);
    rig_randomize(&r, 1);
    replay(&r);
    rig_random(r.dx[1], r.count[1], "stale", 1);
    rig_run(&r);
    for (int i = 0; i < 2; i++)
        CHECK(!g->nodes[i]->runs_backward);
    CHECK(rig_norm(rig_grad(&r, "dead.weight"), 16) == 0);
    CHECK(rig_norm(rig_grad(&r, "live.weight"), 16) > 0);
    CHECK(rig_norm(r.dx[1], r.count[1]) == 0);
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < 4; i++) {
            double want = 0;
            for (int o = 0; o < 4; o++)
                want += (double)r.dy[4 * b + o] * (double)rig_value(&r, "live.weight")[4 * o + i];
            CHECK_NEAR(r.dx[0][4 * b + i], want, 10 * rig_rounding);
        }
    rig_end(&r);
}

TEST(plan__needs_no_gradient_through_frozen_parameters_and_inputs_without)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct graph *g = r.graph;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 4), false);
    struct tensor *frozen =
        graph_param_flags(g, "frozen", SHAPE(4, 4), INIT_NORMAL(1), PARAM_FROZEN);
    struct tensor *h = op_gelu(g, op_linear(g, x, frozen, NULL));
    rig_ready(&r, nn_linear(g, "head", h, 3), 2);
    replay(&r);
    CHECK(!g->nodes[0]->runs_backward && !g->nodes[1]->runs_backward);
    CHECK(g->nodes[2]->runs_backward);
    rig_run(&r);
    CHECK(rig_norm(rig_grad(&r, "head.weight"), 12) > 0);
    CHECK(rig_grad(&r, "frozen") == NULL);
    CHECK_INT(r.params.trained, 15);
    CHECK_INT(r.params.total, 31);
    rig_end(&r);
}
