/* test_ops.c - what every line of ops.def must have, and what wrong shapes get. */
#include "graph/rig.h"
#include "ops/ops.h"
#include "wrong.h"

TEST(op_at__ends_with_null)
{
    int count = 0;
    while (op_at(count))
        count++;
    CHECK(count >= 20);
    CHECK(op_at(-1) == NULL && op_at(count + 1) == NULL);
}

TEST(every_op__is_complete_and_has_a_name_of_its_own)
{
    for (int i = 0; op_at(i); i++) {
        const struct op *op = op_at(i);
        CHECK(op->name && op->name[0]);
        test_about("%s", op->name);
        CHECK(op->infer && op->forward && op->backward && op->sample);
        CHECK(op->takes & TYPE_REAL);
        for (int k = 0; k < i; k++)
            CHECK(strcmp(op->name, op_at(k)->name) != 0);
    }
}

static struct tensor *own_memory(struct graph *g, struct tensor *t)
{
    return t->root == t ? t : graph_op_copy(g, t);
}

/* The op once more on the inputs of its last node, added to what that gave: gradients are added to.
 */
static struct tensor *record_again(struct graph *g, const struct op *op)
{
    int i = g->node_count - 1;
    while (i >= 0 && g->nodes[i]->op != op)
        i--;
    CHECK(i >= 0);
    struct node *n = g->nodes[i];
    struct tensor *y = graph_record(g, op, n->options, n->in, n->inputs);
    return op_add(g, own_memory(g, n->out), own_memory(g, y));
}

static void ready_sample(struct rig *r, const struct op *op, bool twice)
{
    test_about(twice ? "%s twice" : "%s", op->name);
    rig_begin(r, 2, true);
    struct tensor *y = op->sample(r->graph);
    if (twice)
        y = record_again(r->graph, op);
    CHECK_INT(r->graph->error.status, OK);
    r->graph->options.batch = y->shape.dim[0];
    rig_ready(r, y, y->shape.dim[0]);
    rig_randomize(r, 1);
}

TEST(every_op__is_in_its_own_sample)
{
    for (int i = 0; op_at(i); i++) {
        struct rig r;
        ready_sample(&r, op_at(i), false);
        bool found = false;
        for (int k = 0; k < r.graph->node_count; k++)
            found = found || r.graph->nodes[k]->op == op_at(i);
        CHECK(found);
        rig_end(&r);
    }
}

TEST(every_op__has_the_gradient_of_its_forward)
{
    if (sizeof(real) < sizeof(double))
        SKIP("needs the double build");
    for (int i = 0; op_at(i); i++) {
        for (int twice = 0; twice < 2; twice++) {
            struct rig r;
            ready_sample(&r, op_at(i), twice);
            rig_check_gradients(&r, 1e-8);
            rig_end(&r);
        }
    }
}

TEST(every_op__reaches_all_inputs_and_parameters_of_its_sample)
{
    for (int i = 0; op_at(i); i++) {
        struct rig r;
        ready_sample(&r, op_at(i), false);
        rig_run(&r);
        for (int k = 0; k < r.graph->input_count; k++)
            if (r.dx[k])
                CHECK(rig_norm(r.dx[k], r.count[k]) > 0);
        for (int k = 0; k < r.params.count; k++) {
            const real *grad = param_grad(&r.params, r.params.list[k]);
            if (grad)
                CHECK(rig_norm(grad, r.params.list[k]->count) > 0);
        }
        rig_end(&r);
    }
}

/* --- wrong shapes -------------------------------------------------------------------------------
 */

static struct tensor *input(struct graph *g, struct shape shape)
{
    return graph_input(g, "x", TYPE_REAL, shape, true);
}

static struct tensor *param(struct graph *g, const char *name, struct shape shape)
{
    return graph_param(g, name, shape, INIT_NORMAL(1));
}

static void wrong_add(struct graph *g)
{
    op_add(g, input(g, SHAPE(2, 3, 4)), input(g, SHAPE(2, 3, 5)));
}

static void wrong_multiply(struct graph *g)
{
    op_multiply(g, input(g, SHAPE(2, 3, 4)), input(g, SHAPE(2, 3)));
}

static void wrong_add_rows(struct graph *g)
{
    op_add_rows(g, input(g, SHAPE(2, 3, 4)), param(g, "p", SHAPE(1, 4, 4)));
}

static void wrong_add_table(struct graph *g)
{
    static const real table[12];
    op_add_table(g, input(g, SHAPE(3, 4)), table);
}

static void wrong_add_token(struct graph *g)
{
    op_add_token(g, input(g, SHAPE(2, 3, 4)), param(g, "p", SHAPE(1, 1, 5)));
}

static void wrong_cross_entropy(struct graph *g)
{
    op_cross_entropy(g, input(g, SHAPE(2, 3)), graph_sample_labels(g, 3), 0);
}

static void wrong_labels(struct graph *g)
{
    op_cross_entropy(g, input(g, SHAPE(2, 3)), input(g, SHAPE(2)), 0);
}

static void wrong_layer_norm(struct graph *g)
{
    op_layer_norm(g, input(g, SHAPE(2, 3, 4)), param(g, "w", SHAPE(4)), param(g, "b", SHAPE(3)),
                  1e-6);
}

static void wrong_linear(struct graph *g)
{
    op_linear(g, input(g, SHAPE(2, 3, 4)), param(g, "w", SHAPE(4, 5)), NULL);
}

static void wrong_bias(struct graph *g)
{
    op_linear(g, input(g, SHAPE(2, 3, 4)), param(g, "w", SHAPE(5, 4)), param(g, "b", SHAPE(4)));
}

static void wrong_weight(struct graph *g)
{
    op_linear(g, input(g, SHAPE(2, 3, 4)), input(g, SHAPE(5, 4)), NULL);
}

static void wrong_matmul(struct graph *g)
{
    op_matmul(g, input(g, SHAPE(2, 3, 4)), input(g, SHAPE(2, 3, 4)));
}

static void wrong_matmul_tn(struct graph *g)
{
    op_matmul_tn(g, input(g, SHAPE(2, 3, 4)), input(g, SHAPE(2, 4, 5)));
}

static void wrong_matmul_nt(struct graph *g)
{
    op_matmul_nt(g, input(g, SHAPE(2, 3, 4)), input(g, SHAPE(4, 5)));
}

static void wrong_outer_axes(struct graph *g)
{
    op_matmul(g, input(g, SHAPE(2, 3, 4)), input(g, SHAPE(3, 4, 5)));
}

static void wrong_rank(struct graph *g)
{
    op_matmul(g, input(g, SHAPE(4)), input(g, SHAPE(4, 5)));
}

static void wrong_merge_heads(struct graph *g)
{
    op_merge_heads(g, input(g, SHAPE(2, 3, 4)));
}

static void wrong_patchify(struct graph *g)
{
    op_patchify(g, input(g, SHAPE(2, 1, 10, 12)), 4, 4);
}

static void wrong_images(struct graph *g)
{
    op_patchify(g, input(g, SHAPE(2, 8, 8)), 4, 4);
}

static void wrong_order(struct graph *g)
{
    op_permute_tokens(g, input(g, SHAPE(2, 3, 4)), (const int[]){1, 0}, 2);
}

static void wrong_token(struct graph *g)
{
    op_permute_tokens(g, input(g, SHAPE(2, 3, 4)), (const int[]){1, 0, 3}, 3);
}

static void wrong_twin(struct graph *g)
{
    op_permute_tokens(g, input(g, SHAPE(2, 3, 4)), (const int[]){1, 0, 1}, 3);
}

static void wrong_bias_table(struct graph *g)
{
    op_relative_bias(g, param(g, "table", SHAPE(14, 2)), (const int[]){2, 3});
}

static void wrong_pool(struct graph *g)
{
    op_pool(g, input(g, SHAPE(2, 3, 4)), 1, 3);
}

static void wrong_scale_cols(struct graph *g)
{
    op_scale_cols(g, input(g, SHAPE(2, 3, 4)), param(g, "gamma", SHAPE(3)));
}

static void wrong_sdpa(struct graph *g)
{
    op_sdpa(g, input(g, SHAPE(2, 2, 3, 4)), input(g, SHAPE(2, 2, 5, 4)),
            input(g, SHAPE(2, 2, 6, 4)), 1);
}

static void wrong_heads(struct graph *g)
{
    struct tensor *x = input(g, SHAPE(2, 2, 3, 4));
    op_sdpa(g, x, input(g, SHAPE(2, 1, 3, 4)), x, 1);
}

static void with_terms(struct graph *g, struct tensor *bias, const struct token_regions *regions)
{
    struct tensor *x = input(g, SHAPE(2, 2, 3, 4));
    op_sdpa_terms(g, x, x, x, 1, &(struct sdpa_terms){.bias = bias, .regions = regions});
}

static void wrong_score_bias(struct graph *g)
{
    with_terms(g, param(g, "bias", SHAPE(2, 3, 4)), NULL);
}

static void wrong_bias_heads(struct graph *g)
{
    with_terms(g, param(g, "bias", SHAPE(1, 3, 3)), NULL);
}

static void wrong_windows(struct graph *g)
{
    with_terms(g, NULL, &(struct token_regions){3, 3, (const unsigned char *)"abcabcabc"});
}

static void wrong_region_tokens(struct graph *g)
{
    with_terms(g, NULL, &(struct token_regions){1, 4, (const unsigned char *)"abcd"});
}

static void no_windows(struct graph *g)
{
    with_terms(g, NULL, &(struct token_regions){0, 3, (const unsigned char *)""});
}

static void wrong_token_mix(struct graph *g)
{
    op_token_mix(g, input(g, SHAPE(2, 3, 4)), param(g, "w", SHAPE(4, 4)), NULL);
}

static void wrong_token_heads(struct graph *g)
{
    op_token_mix(g, input(g, SHAPE(2, 3, 4)), param(g, "w", SHAPE(3, 3, 3)), NULL);
}

static void wrong_regions(struct graph *g)
{
    static const unsigned char region[9] = {0};
    const struct token_regions regions = {.windows = 3, .tokens = 3, .id = region};
    op_token_mix_regions(g, input(g, SHAPE(2, 3, 4)), param(g, "w", SHAPE(3, 3)), NULL, &regions);
}

static void wrong_broadcast_factor(struct graph *g)
{
    op_multiply_broadcast(g, input(g, SHAPE(2, 2, 3, 4)), param(g, "p", SHAPE(3, 1, 4)));
}

static void wrong_broadcast_column(struct graph *g)
{
    op_multiply_broadcast(g, input(g, SHAPE(2, 3, 4)), param(g, "p", SHAPE(3, 1)));
}

static void wrong_broadcast_term(struct graph *g)
{
    op_add_broadcast(g, input(g, SHAPE(2, 3, 4)), param(g, "p", SHAPE(3, 4)), 1);
}

static void wrong_broadcast_first(struct graph *g)
{
    op_add_broadcast(g, input(g, SHAPE(2, 3, 4)), param(g, "p", SHAPE(4)), 3);
}

static void wrong_concat_cols(struct graph *g)
{
    struct tensor *x = input(g, SHAPE(2, 3, 4));
    op_concat_cols(g, (struct tensor *[]){x, input(g, SHAPE(2, 2, 4))}, 2, NULL);
}

static void wrong_concat_count(struct graph *g)
{
    struct tensor *x = input(g, SHAPE(2, 3, 4));
    op_concat_cols(g, (struct tensor *[]){x, x, x, x, x}, 5, NULL);
}

static void wrong_normalize(struct graph *g)
{
    op_normalize(g, input(g, SHAPE(2, 3, 4)), 3, 0);
}

static void wrong_outer_parts(struct graph *g)
{
    op_outer(g, input(g, SHAPE(2, 3, 4)), 3);
}

static void wrong_outer_width(struct graph *g)
{
    op_outer_symmetric(g, input(g, SHAPE(2, 3, 2000)), 2);
}

static void wrong_token_softmax(struct graph *g)
{
    static const unsigned char region[8] = {0};
    const struct token_regions regions = {.windows = 2, .tokens = 4, .id = region};
    op_token_softmax(g, input(g, SHAPE(2, 3, 4)), &regions);
}

static void wrong_token_mean(struct graph *g)
{
    op_token_mean(g, input(g, SHAPE(4)), NULL);
}

static void wrong_token_windows(struct graph *g)
{
    const struct token_regions regions = {.windows = 0, .tokens = 3, .id = NULL};
    op_token_centre(g, input(g, SHAPE(2, 3, 4)), &regions);
}

static void wrong_dropout(struct graph *g)
{
    op_dropout(g, input(g, SHAPE(4)), 0.5);
}

static void wrong_drop_path(struct graph *g)
{
    op_drop_path(g, input(g, SHAPE(4)), 0.5);
}

static const struct wrong wrongs[] = {
    {"add", "(2, 3, 5)", wrong_add},
    {"multiply", "(2, 3)", wrong_multiply},
    {"add_rows", "(1, 4, 4)", wrong_add_rows},
    {"add_table", "(3, 4)", wrong_add_table},
    {"add_token", "(1, 1, 5)", wrong_add_token},
    {"cross_entropy", "(3)", wrong_cross_entropy},
    {"cross_entropy", "(2, 3)", wrong_labels},
    {"layer_norm", "(2, 3, 4)", wrong_layer_norm},
    {"linear", "(4, 5)", wrong_linear},
    {"linear", "(5, 4)", wrong_bias},
    {"linear", "parameter", wrong_weight},
    {"matmul", "(2, 3, 4)", wrong_matmul},
    {"matmul_tn", "(2, 4, 5)", wrong_matmul_tn},
    {"matmul_nt", "(4, 5)", wrong_matmul_nt},
    {"matmul", "(3, 4, 5)", wrong_outer_axes},
    {"matmul", "(4)", wrong_rank},
    {"merge", "(2, 3, 4)", wrong_merge_heads},
    {"patchify", "(2, 1, 10, 12)", wrong_patchify},
    {"patchify", "(2, 8, 8)", wrong_images},
    {"permute_tokens", "(2, 3, 4)", wrong_order},
    {"permute_tokens", "token 2 of 3 is taken from 3", wrong_token},
    {"permute_tokens", "token 2 of 3 is taken from 1", wrong_twin},
    {"pool_tokens", "(2, 3, 4)", wrong_pool},
    {"relative_bias", "(14, 2)", wrong_bias_table},
    {"scale_cols", "(2, 3, 4)", wrong_scale_cols},
    {"sdpa", "(2, 2, 6, 4)", wrong_sdpa},
    {"sdpa", "(2, 1, 3, 4)", wrong_heads},
    {"sdpa", "(2, 3, 4)", wrong_score_bias},
    {"sdpa", "(1, 3, 3)", wrong_bias_heads},
    {"sdpa", "3 windows of 3 tokens", wrong_windows},
    {"sdpa", "1 windows of 4 tokens", wrong_region_tokens},
    {"sdpa", "0 windows of 3 tokens", no_windows},
    {"token_mix", "(4, 4)", wrong_token_mix},
    {"token_mix", "(3, 3, 3)", wrong_token_heads},
    {"token_mix", "3 windows of 3 tokens for (2, 3, 4)", wrong_regions},
    {"multiply_broadcast", "(3, 1, 4)", wrong_broadcast_factor},
    {"multiply_broadcast", "(3, 1)", wrong_broadcast_column},
    {"add_broadcast", "(3, 4)", wrong_broadcast_term},
    {"add_broadcast", "token 3", wrong_broadcast_first},
    {"concat_cols", "(2, 2, 4)", wrong_concat_cols},
    {"concat_cols", "5 tensors", wrong_concat_count},
    {"normalize", "3 equal parts", wrong_normalize},
    {"outer", "3 parts", wrong_outer_parts},
    {"outer", "(2, 3, 2000)", wrong_outer_width},
    {"token_softmax", "2 windows of 4 tokens", wrong_token_softmax},
    {"token_mean", "(4)", wrong_token_mean},
    {"token_mean", "0 windows of 3 tokens", wrong_token_windows},
    {"dropout", "(4)", wrong_dropout},
    {"drop_path", "(4)", wrong_drop_path},
};

TEST(ops__report_shapes_that_do_not_fit_with_their_scope)
{
    check_wrong(wrongs, sizeof wrongs / sizeof wrongs[0]);
}
