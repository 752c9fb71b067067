/* test_sizes.c - parameters, products, token counts and initial kernels of the four layers of
 * Hosseini and Hosseini, arXiv:2403.01643. */
#include "layer.h"

enum { B = 2, N = 5, D = 6, H = 3 };

static const char *const names[] = {"\"standard\"", "\"optimized\"", "\"efficient\"", "\"super\""};

/* Identity I19: the toy layer of the paper's IMDB runs. */
TEST(layers__have_the_published_numbers_of_parameters)
{
    static const struct {
        const char *json;
        size_t params;
    } rows[] = {
        {"\"standard\"", 4224},
        {"\"optimized\"", 3168},
        {"\"efficient\"", 2112},
        {"\"super\"", 3136},
        {"{\"name\": \"super\", \"wa_bias\": true}", 3168},
        {"{\"name\": \"super\", \"wa_share\": false}", 3136 + 3 * 32 * 32},
        {"{\"name\": \"super\", \"base\": \"optimized\"}", 3168 + 32 * 32},
        {"{\"name\": \"super\", \"base\": \"standard\"}", 4224 + 32 * 32},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct layer l;
        test_about("%s", rows[i].json);
        layer_begin(&l, rows[i].json, layer_site(1, 32, 32, 4));
        CHECK_INT(params_counted(&l.rig.params), rows[i].params);
        layer_end(&l);
    }
}

TEST(layers__without_biases_have_only_weights)
{
    static const int want[] = {4 * D * D, 3 * D * D, 2 * D * D, 2 * D * D + N * N};
    for (int i = 0; i < 4; i++) {
        struct layer l;
        struct attn_site site = layer_site(B, N, D, H);
        site.qkv_bias = site.proj_bias = false;
        test_about("%s", names[i]);
        layer_begin(&l, names[i], site);
        CHECK_INT(params_counted(&l.rig.params), want[i]);
        layer_end(&l);
    }
}

TEST(layers__cost_the_published_numbers_of_products) /* I19: l = 256, d = 512 */
{
    static const double want[] = {335544320, 268435456, 201326592, 234881024};
    for (int i = 0; i < 4; i++) {
        struct layer l;
        struct attn_site site = layer_site(1, 256, 512, 4);
        test_about("%s", names[i]);
        rig_begin(&l.rig, 1, false);
        layer_choose(&l, names[i]);
        CHECK_NEAR(attn_macs(&l.attention, &site), want[i], 0);
        layer_end(&l);
    }
}

TEST(super__of_another_token_count_is_refused) /* I20 */
{
    struct layer l;
    struct attn_site other = layer_site(B, N + 1, D, H);
    layer_begin(&l, "\"super\"", layer_site(B, N, D, H));
    struct graph_options options = {.batch = B};
    struct graph *g = graph_create(&l.rig.params, &options);
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(B, N + 1, D), false);
    attn_build(g, "attn", &l.attention, &other, x);
    CHECK_INT(graph_plan(g, &l.rig.error), ERR_SHAPE);
    CHECK_CONTAINS(l.rig.error.text, "attn.align.weight");
    CHECK_CONTAINS(l.rig.error.text, "(5, 5)");
    CHECK_CONTAINS(l.rig.error.text, "(6, 6)");
    graph_free(g);
    layer_end(&l);
}

TEST(super__starts_with_the_kernel_that_was_chosen)
{
    static const char *const init[] = {"xavier_uniform", "identity", "orthogonal"};
    for (int i = 0; i < 3; i++) {
        struct layer l;
        struct error error;
        test_about("%s", init[i]);
        layer_begin(&l, test_text("{\"name\": \"super\", \"wa_init\": \"%s\"}", init[i]),
                    layer_site(1, 64, D, H));
        CHECK_OK(param_initialize(rig_param(&l.rig, "attn.align.weight"), 3, &error), error);
        const real *W = layer_value(&l, "align.weight");
        double bound = sqrt(3.0 / 64), largest = 0;
        for (int k = 0; k < 64 * 64; k++)
            largest = fabs((double)W[k]) > largest ? fabs((double)W[k]) : largest;
        CHECK_NEAR(rig_dot(W, W + 64, 64), 0, i == 0 ? 0.5 : 10 * rig_rounding);
        CHECK_NEAR(rig_dot(W, W, 64), 1, i == 0 ? 0.5 : 10 * rig_rounding);
        CHECK_INT(W[0] == 1 && W[1] == 0, i == 1);
        if (i == 0)
            CHECK(largest <= bound && largest > 0.99 * bound);
        layer_end(&l);
    }
}
