#include "kernels/kernels.h"
#include "study/ceiling.h"
#include "test.h"

/* Of a step of three images. */
static struct ceiling list_of(const char *attention, enum network_mode mode)
{
    const char *config = test_text(
        "{\"data\": {\"format\": \"synthetic\"},"
        " \"model\": {\"name\": \"vit\", \"image_size\": 8, \"channels\": 1, \"classes\": 3,"
        "  \"patch_size\": 4, \"dim\": 8, \"depth\": 2, \"heads\": 2, \"mlp_ratio\": 3,"
        "  \"attention\": \"%s\"}}",
        attention);
    struct error err;
    struct experiment x;
    struct ceiling c;
    CHECK_OK(kernels_init(&err), err);
    CHECK_OK(experiment_parse(&x, config, "test", &err), err);
    CHECK_OK(ceiling_list(&c, &x, mode, 3, &err), err);
    experiment_free(&x);
    return c;
}

/* How many products of that size a step has, however operands lie. */
static double count_of(const struct ceiling *c, int m, int n, int k)
{
    double count = 0;
    for (int i = 0; i < c->count; i++)
        if (c->products[i].m == m && c->products[i].n == n && c->products[i].k == k)
            count += c->products[i].count;
    return count;
}

TEST(ceiling_list__has_all_products_of_every_attention)
{
    static const char *const names[] = {"standard", "optimized", "efficient", "super"};
    for (int i = 0; i < 4; i++) {
        test_about("%s", names[i]);
        struct ceiling c = list_of(names[i], NETWORK_INFER);
        CHECK_NEAR(c.share, 1, 1e-9);
        ceiling_free(&c);
    }
}

TEST(ceiling_list__counts_the_products_of_a_step)
{
    struct ceiling c = list_of("standard", NETWORK_INFER);
    double slices = 3.0 / c.slice;
    int rows = 5 * c.slice;
    CHECK_NEAR(count_of(&c, rows, 24, 8), 2 * 2 * slices, 1e-9); /* qkv and fc1 of two blocks */
    CHECK_NEAR(count_of(&c, rows, 8, 24), 2 * slices, 1e-9);
    CHECK_NEAR(count_of(&c, 5, 5, 4), 2 * 2 * 3, 1e-9); /* scores: blocks, heads, images */
    CHECK_NEAR(count_of(&c, 5, 4, 5), 2 * 2 * 3, 1e-9);
    ceiling_free(&c);
}

TEST(ceiling_list__training_has_three_times_the_flops_but_for_the_images)
{
    struct ceiling forward = list_of("standard", NETWORK_INFER);
    struct ceiling c = list_of("standard", NETWORK_TRAIN);
    double embedding = 2.0 * 3 * 4 * 16 * 8; /* images have no gradient */
    CHECK_NEAR(c.flops, 3 * forward.flops - embedding, 1e-6);
    ceiling_free(&forward);
    ceiling_free(&c);
}

TEST(ceiling_measure__weighs_rates_by_flops)
{
    struct error err;
    struct ceiling c = list_of("standard", NETWORK_TRAIN);
    CHECK_OK(ceiling_measure(&c, 3, 2, 0.05, &err), err);
    double least = c.products[0].flops_per_second, most = least;
    for (int i = 0; i < c.count; i++) {
        double rate = c.products[i].flops_per_second;
        CHECK(rate > 0);
        CHECK(c.products[i].flops_per_second_alone > 0);
        least = rate < least ? rate : least;
        most = rate > most ? rate : most;
    }
    CHECK(least <= c.flops_per_second);
    CHECK(c.flops_per_second <= most);
    CHECK(c.flops_per_second_alone > 0);
    ceiling_free(&c);
}
