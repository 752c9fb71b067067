/* test_run.c - batches cut into slices, lanes and threads: always the same numbers. */
#include "graph/rig.h"
#include "nn/nn.h"

/* x (B, 3, 8) and labels (B) to the loss of each sample (B), with noise and parameters of all
 * kinds. */
static struct tensor *small_net(struct graph *g)
{
    int B = g->options.batch;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(B, 3, 8), true);
    struct tensor *labels = graph_input(g, "labels", TYPE_INT, SHAPE(B), false);
    x = nn_pos_embed(g, "pos_embed", x);
    struct tensor *h = nn_layer_norm(g, "norm", x, 1e-6);
    struct qkv t = nn_qkv(g, "qkv", h, 2, true);
    h = op_merge_heads(g, op_sdpa(g, t.q, t.k, t.v, 0.5));
    graph_scope_push(g, "path");
    x = op_add(g, x, op_drop_path(g, h, 0.3));
    graph_scope_pop(g);
    graph_scope_push(g, "drop");
    x = op_dropout(g, op_gelu(g, nn_linear(g, "fc", x, 12)), 0.2);
    graph_scope_pop(g);
    x = nn_linear(g, "head", op_pool(g, x, 0, 3), 5);
    return op_cross_entropy(g, x, labels, 0.1);
}

static void begin_small(struct rig *r, int batch, int rows, int lanes, int threads)
{
    rig_begin(r, batch, true);
    r->lanes = lanes;
    r->threads = threads;
    rig_ready(r, small_net(r->graph), rows);
    rig_randomize(r, 0.7);
}

static bool same_bits(const real *a, const real *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* Everything that a run gives is the same in both, bit by bit. */
static void check_same_bits(const struct rig *a, const struct rig *b)
{
    CHECK(rig_norm(a->y, a->y_count) > 0);
    CHECK(rig_norm(a->dx[0], a->count[0]) > 0);
    CHECK(same_bits(a->y, b->y, a->y_count));
    CHECK(same_bits(a->dx[0], b->dx[0], a->count[0]));
    CHECK(same_bits(a->params.grads, b->params.grads, a->params.trained));
}

static void check_near(const struct rig *a, const struct rig *b)
{
    CHECK_NEAR(rig_distance(a->y, b->y, a->y_count), 0, rig_rounding);
    CHECK_NEAR(rig_distance(a->dx[0], b->dx[0], a->count[0]), 0, rig_rounding);
    CHECK_NEAR(rig_distance(a->params.grads, b->params.grads, a->params.trained), 0, rig_rounding);
}

TEST(runner__gives_the_same_bits_whatever_the_threads)
{
    struct rig one, r;
    begin_small(&one, 2, 17, 4, 1);
    rig_run(&one);
    for (int threads = 1; threads <= 5; threads++) {
        begin_small(&r, 2, 17, 4, threads);
        for (int again = 0; again < 2; again++) {
            test_about("%d threads, run %d", threads, again);
            rig_run(&r);
            check_same_bits(&r, &one);
        }
        rig_end(&r);
    }
    rig_end(&one);
}

/* Images (B, 1, 80, 80) through a block whose products are large enough to be shared. */
static struct tensor *large_net(struct graph *g)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(g->options.batch, 1, 80, 80), false);
    x = nn_linear(g, "embed", op_patchify(g, x, 8, 8), 128);
    struct qkv t = nn_qkv(g, "qkv", nn_layer_norm(g, "norm1", x, 1e-6), 4, true);
    struct tensor *h = nn_linear(g, "proj", op_merge_heads(g, op_sdpa(g, t.q, t.k, t.v, 0.2)), 128);
    x = op_add(g, x, op_drop_path(g, h, 0.3));
    h = op_gelu(g, nn_linear(g, "fc1", nn_layer_norm(g, "norm2", x, 1e-6), 512));
    return op_add(g, x, nn_linear(g, "fc2", h, 128));
}

/* Two samples in one lane. */
static void run_large(struct rig *r, enum type type, int batch, int threads)
{
    rig_begin(r, batch, true);
    r->graph->options.type = type;
    r->graph->options.team =
        threads < 5 ? threads : 1; /* one does all where there is scratch for one */
    r->threads = threads;
    struct tensor *y = large_net(r->graph);
    graph_fuse(r->graph);
    rig_ready(r, y, 2);
    rig_run(r);
}

TEST(runner__gives_the_same_bits_whatever_the_threads_of_a_lane)
{
    for (int which = 0; which < 4; which++) {
        enum type type = which & 1 ? TYPE_BF16 : TYPE_REAL;
        struct rig one, r;
        if (type == TYPE_BF16 && sizeof(real) == sizeof(double))
            continue;
        run_large(&one, type, 1 + which / 2, 1);
        CHECK(rig_norm(one.y, one.y_count) > 0);
        for (int threads = 2; threads <= 5; threads++) {
            run_large(&r, type, 1 + which / 2, threads);
            for (int again = 0; again < 3; again++) {
                test_about("%s, slices of %d, %d threads, run %d", which & 1 ? "bf16" : "fp32",
                           1 + which / 2, threads, again);
                CHECK(same_bits(r.y, one.y, one.y_count));
                CHECK(same_bits(r.params.grads, one.params.grads, one.params.trained));
                rig_run(&r);
            }
            rig_end(&r);
        }
        rig_end(&one);
    }
}

TEST(runner__depends_on_slices_and_lanes_by_rounding_alone)
{
    struct rig whole, r;
    begin_small(&whole, 12, 12, 1, 1);
    rig_run(&whole);
    static const int cut[][2] = {{1, 1}, {1, 3}, {2, 4}, {3, 2}, {5, 2}, {5, 8}, {7, 1}, {20, 2}};
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        test_about("slices of %d, %d lanes", cut[i][0], cut[i][1]);
        begin_small(&r, cut[i][0], 12, cut[i][1], 2);
        rig_run(&r);
        check_near(&r, &whole);
        rig_end(&r);
    }
    rig_end(&whole);
}

TEST(runner__pads_the_last_slice_with_samples_that_do_not_count)
{
    struct rig ragged, padded;
    begin_small(&ragged, 3, 7, 2, 1);
    begin_small(&padded, 3, 9, 2, 1);
    memset(padded.x[0] + ragged.count[0], 0, 2 * 24 * sizeof(real));
    memset(padded.dy + 7, 0, 2 * sizeof(real));
    padded.labels[1][7] = padded.labels[1][8] = 0;
    rig_run(&ragged);
    rig_run(&padded);
    check_same_bits(&ragged, &padded);
    rig_end(&ragged);
    rig_end(&padded);
}

TEST(runner__forgets_the_rows_of_a_longer_last_slice)
{
    struct rig r, fresh;
    begin_small(&r, 4, 7, 1, 1);
    begin_small(&fresh, 4, 5, 1, 1);
    for (size_t i = 5 * 24; i < 7 * 24; i++)
        r.x[0][i] = (real)NAN;
    rig_run(&r);
    r.feed.rows = 5;
    rig_run(&r);
    rig_run(&fresh);
    CHECK(same_bits(r.y, fresh.y, 5));
    CHECK(same_bits(r.params.grads, fresh.params.grads, r.params.trained));
    rig_random(r.x[0], r.count[0], "input 0", 1); /* finite rows with a gradient */
    r.feed.rows = 7;
    rig_run(&r);
    r.feed.rows = 5;
    rig_run(&r);
    CHECK(same_bits(r.params.grads, fresh.params.grads, r.params.trained));
    rig_end(&r);
    rig_end(&fresh);
}

TEST(runner__writes_no_more_rows_than_the_batch_has)
{
    struct rig r;
    begin_small(&r, 4, 8, 1, 1);
    r.feed.rows = 5;
    rig_run(&r);
    r.y[5] = r.y[7] = -7;
    r.dx[0][5 * 24] = r.dx[0][8 * 24 - 1] = -7;
    rig_run(&r);
    CHECK(r.y[5] == -7 && r.y[7] == -7);
    CHECK(r.dx[0][5 * 24] == -7 && r.dx[0][8 * 24 - 1] == -7);
    rig_end(&r);
}

/* Two samples a slice, each in three parts. */
TEST(runner__gives_outputs_that_are_parts_of_samples)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(2, 6, 4), true);
    struct tensor *y = op_scale(r.graph, graph_reshape(r.graph, x, SHAPE(6, 2, 4)), 3);
    rig_ready(&r, y, 5);
    CHECK_INT(r.y_count, 5 * 24);
    r.feed.rows = 3;
    r.y[3 * 24] = -7;
    rig_run(&r);
    for (int i = 0; i < 3 * 24; i++) {
        CHECK(r.y[i] == 3 * r.x[0][i]);
        CHECK(r.dx[0][i] == 3 * r.dy[i]);
    }
    CHECK(r.y[3 * 24] == -7);
    rig_end(&r);
}

TEST(graph_output__refuses_what_does_not_count_samples)
{
    struct rig r;
    rig_begin(&r, 2, false);
    struct tensor *table = graph_param(r.graph, "table", SHAPE(9, 3), INIT_NORMAL(1));
    graph_scope_push(r.graph, "attn");
    graph_output(r.graph, op_relative_bias(r.graph, table, (const int[]){2, 2}));
    CHECK_INT(graph_plan(r.graph, &r.error), ERR_SHAPE);
    CHECK_CONTAINS(r.error.text, "attn.relative_bias (3, 4, 4) cannot be an output");
    CHECK_CONTAINS(r.error.text, "2 samples");
    rig_end(&r);
}

TEST(runner__draws_noise_by_step_and_sample_of_the_batch)
{
    struct rig whole, part;
    begin_small(&whole, 2, 10, 1, 1);
    begin_small(&part, 3, 4, 1, 1);
    whole.feed.step = part.feed.step = 3;
    rig_run(&whole);
    memcpy(part.x[0], whole.x[0] + 6 * 24, 4 * 24 * sizeof(real));
    memcpy(part.labels[1], whole.labels[1] + 6, 4 * sizeof(int));
    part.feed.sample = 6;
    rig_run(&part);
    CHECK_NEAR(rig_distance(part.y, whole.y + 6, 4), 0, rig_rounding);
    part.feed.sample = 5;
    rig_run(&part);
    CHECK(rig_distance(part.y, whole.y + 6, 4) > 1e-3);
    part.feed.sample = 6;
    part.feed.step = 4;
    rig_run(&part);
    CHECK(rig_distance(part.y, whole.y + 6, 4) > 1e-3);
    rig_end(&whole);
    rig_end(&part);
}

TEST(runner__adds_to_gradients_only_where_they_are_kept)
{
    struct rig r;
    begin_small(&r, 2, 8, 3, 2);
    size_t n = r.params.trained;
    rig_run(&r);
    real *first = rig_copy(&r, r.params.grads, n);
    rig_random(r.x[0], r.count[0], "other", 1);
    rig_run(&r);
    real *second = rig_copy(&r, r.params.grads, n), *sum = rig_copy(&r, first, n);
    CHECK(rig_distance(second, first, n) > 0.1);
    for (size_t i = 0; i < n; i++)
        sum[i] += second[i];

    rig_random(r.x[0], r.count[0], "input 0", 1);
    runner_run(r.runner, &r.feed);
    rig_random(r.x[0], r.count[0], "other", 1);
    r.feed.keep_grads = true;
    rig_run(&r);
    CHECK_NEAR(rig_distance(r.params.grads, sum, n), 0, rig_rounding);
    rig_end(&r);
}

TEST(runner__without_a_seed_runs_forward_alone)
{
    struct rig r;
    begin_small(&r, 2, 5, 2, 2);
    rig_run(&r);
    real *y = rig_copy(&r, r.y, r.y_count);
    real *grads = rig_copy(&r, r.params.grads, r.params.trained);
    r.feed.seed = NULL;
    rig_run(&r);
    CHECK(same_bits(r.y, y, r.y_count));
    CHECK(same_bits(r.params.grads, grads, r.params.trained));
    rig_end(&r);
}

/* NaN in all activations and gradients of a run before: beta 0 means that nothing old is read. */
TEST(runner__reads_nothing_that_an_earlier_run_left)
{
    struct rig r, fresh;
    begin_small(&fresh, 3, 8, 2, 1);
    begin_small(&r, 3, 8, 2, 1);
    rig_run(&fresh);
    for (size_t i = 0; i < r.count[0]; i++)
        r.x[0][i] = (real)NAN;
    rig_run(&r);
    CHECK(isnan(r.y[0]) && isnan(r.dx[0][0]) && isnan(r.params.grads[0]));
    memcpy(r.x[0], fresh.x[0], r.count[0] * sizeof(real));
    rig_run(&r);
    check_same_bits(&r, &fresh);
    rig_end(&r);
    rig_end(&fresh);
}

/* --- finding what is not finite -----------------------------------------------------------------
 */

static struct tensor *three_layers(struct graph *g)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 4), true);
    for (int i = 0; i < 3; i++) {
        graph_scope_push(g, "blocks.%d", i);
        x = op_gelu(g, nn_linear(g, "fc", x, 4));
        graph_scope_pop(g);
    }
    return x;
}

TEST(runner_find_bad__names_the_first_node_that_is_not_finite)
{
    struct rig r;
    char text[256];
    rig_begin(&r, 2, false);
    r.lanes = 3;
    rig_ready(&r, three_layers(r.graph), 6);
    rig_randomize(&r, 1);
    runner_find_bad(r.runner, &r.feed, text);
    CHECK_STR(text, "");
    rig_value(&r, "blocks.1.fc.weight")[5] = (real)NAN;
    runner_find_bad(r.runner, &r.feed, text);
    CHECK_STR(text, "blocks.1.fc: output of linear");
    rig_value(&r, "blocks.1.fc.weight")[5] = 1;
    r.x[0][23] = (real)INFINITY; /* the last slice's */
    runner_find_bad(r.runner, &r.feed, text);
    CHECK_STR(text, "blocks.0.fc: output of linear");
    rig_end(&r);
}

TEST(runner_find_bad__names_gradients_too)
{
    struct rig r;
    char text[256];
    rig_begin(&r, 2, false);
    rig_ready(&r, three_layers(r.graph), 6);
    rig_randomize(&r, 1);
    r.dy[3] = (real)INFINITY;
    runner_find_bad(r.runner, &r.feed, text);
    CHECK_STR(text, "blocks.2: gradient of gelu");
    r.feed.seed = NULL; /* forward alone is finite */
    runner_find_bad(r.runner, &r.feed, text);
    CHECK_STR(text, "");
    rig_end(&r);
}

TEST(runner_find_bad__names_the_parameter_whose_gradient_overflows)
{
    struct rig r;
    char text[256];
    rig_begin(&r, 1, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(1, 2), false);
    rig_ready(&r, op_scale_cols(r.graph, x, graph_param(r.graph, "gamma", SHAPE(2), INIT_ZEROS)),
              1);
    r.x[0][0] = r.dy[0] = sizeof(real) == 8 ? (real)1e200 : (real)1e30;
    runner_find_bad(r.runner, &r.feed, text);
    CHECK_STR(text, "gradient of gamma"); /* no scope */
    rig_end(&r);
}

TEST(runner_bytes__are_one_block_for_each_worker)
{
    struct rig r;
    begin_small(&r, 2, 8, 3, 2);
    CHECK_INT(runner_bytes(r.runner), 2 * r.graph->block_bytes);
    rig_end(&r);
    begin_small(&r, 2, 8, 1, 2); /* both threads work in one block */
    CHECK_INT(runner_bytes(r.runner), r.graph->block_bytes);
    rig_end(&r);
}
