#include <string.h>

#include "attention/attention.h"
#include "kernels/kernels.h"
#include "study/ceiling.h"
#include "test.h"

/* Of a step of three images, in a model with this pooling; false where that cannot be. */
static bool list_in(struct ceiling *c, const char *pool, const char *attention,
                    const char *precision, enum network_mode mode)
{
    const char *config = test_text(
        "{\"data\": {\"format\": \"synthetic\"}, \"train\": {\"precision\": \"%s\"},"
        " \"model\": {\"name\": \"vit\", \"image_size\": 8, \"channels\": 1, \"classes\": 3,"
        "  \"patch_size\": 4, \"dim\": 8, \"depth\": 2, \"heads\": 2, \"mlp_ratio\": 3,"
        "  \"pool\": \"%s\", \"attention\": {%s}}}",
        precision, pool, attention);
    struct error err;
    struct experiment x;
    CHECK_OK(kernels_init(&err), err);
    if (experiment_parse(&x, config, "test", &err))
        return false;
    CHECK_OK(ceiling_list(c, &x, mode, 3, &err), err);
    experiment_free(&x);
    return true;
}

static struct ceiling list_of(const char *attention, const char *precision, enum network_mode mode)
{
    struct ceiling c;
    CHECK(list_in(&c, "cls", attention, precision, mode));
    return c;
}

static const char standard[] = "\"name\": \"standard\"";

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
    for (int i = 0; attn_kinds(i); i++) {
        test_about("%s", attn_kinds(i)->name);
        const char *attention = test_text("\"name\": \"%s\"", attn_kinds(i)->name);
        struct ceiling c;
        if (!list_in(&c, "cls", attention, "fp32", NETWORK_INFER))
            CHECK(list_in(&c, "mean", attention, "fp32", NETWORK_INFER));
        CHECK_NEAR(c.share + c.other, 1, 1e-9);
        CHECK(c.share > 0);
        ceiling_free(&c);
    }
}

TEST(ceiling_list__has_one_product_for_each_head_and_image)
{
    struct ceiling c =
        list_of("\"name\": \"super\", \"wa_share\": false", "fp32", NETWORK_INFER);
    CHECK_NEAR(c.share, 1, 1e-9);
    /* two blocks, two heads, three images: W^A V and S V', then q k^T */
    CHECK_NEAR(count_of(&c, 5, 4, 5), 2 * 2 * 2 * 3, 1e-9);
    CHECK_NEAR(count_of(&c, 5, 5, 4), 2 * 2 * 3, 1e-9);
    CHECK_NEAR(count_of(&c, 5, 8, 5), 0, 0);
    ceiling_free(&c);
}

TEST(ceiling_list__counts_the_products_of_a_step)
{
    struct ceiling c = list_of(standard, "fp32", NETWORK_INFER);
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
    struct ceiling forward = list_of(standard, "fp32", NETWORK_INFER);
    struct ceiling c = list_of(standard, "fp32", NETWORK_TRAIN);
    double embedding = 2.0 * 3 * 4 * 16 * 8; /* images have no gradient */
    CHECK_NEAR(c.flops, 3 * forward.flops - embedding, 1e-6);
    ceiling_free(&forward);
    ceiling_free(&c);
}

TEST(ceiling_list__gradients_have_the_sizes_of_operands)
{
    struct ceiling c = list_of(standard, "fp32", NETWORK_TRAIN);
    double slices = 3.0 / c.slice;
    int rows = 5 * c.slice;
    CHECK_NEAR(count_of(&c, rows, 8, 24), 3 * 2 * slices, 1e-9); /* fc2, dx of qkv and of fc1 */
    CHECK_NEAR(count_of(&c, 24, 8, rows), 2 * 2 * slices, 1e-9); /* dW of qkv and of fc1 */
    CHECK_NEAR(count_of(&c, 8, 24, rows), 2 * slices, 1e-9);     /* dW of fc2 */
    CHECK_NEAR(count_of(&c, 5, 5, 4), 2 * 2 * 2 * 3, 1e-9);      /* scores, dS */
    CHECK_NEAR(count_of(&c, 5, 4, 5), 4 * 2 * 2 * 3, 1e-9);      /* y, dq, dk, dv */
    for (int i = 0; i < c.count; i++) {
        const struct ceiling_product *p = &c.products[i];
        CHECK_INT(p->type, TYPE_REAL);
        CHECK(!p->packed);
        CHECK_INT(p->beta, p->rows == ROWS_ARE_K); /* gradients of weights are added up */
    }
    ceiling_free(&c);
}

TEST(ceiling_list__bf16_packs_weights_and_sums_their_gradients_in_real)
{
    struct ceiling c = list_of(standard, "bf16", NETWORK_TRAIN);
    int packed = 0, gradients = 0;
    for (int i = 0; i < c.count; i++) {
        const struct ceiling_product *p = &c.products[i];
        test_about("m %d, n %d, k %d", p->m, p->n, p->k);
        CHECK_INT(p->type, TYPE_BF16);
        CHECK_INT(p->packed, p->rows == ROWS_ARE_M);
        if (p->rows == ROWS_ARE_K)
            CHECK_INT(p->out, TYPE_REAL);
        packed += p->packed;
        gradients += p->rows == ROWS_ARE_K;
    }
    CHECK(packed >= 4 && gradients >= 4);
    ceiling_free(&c);
}

TEST(ceiling_measure__weighs_rates_by_flops)
{
    static const char *const precisions[] = {"fp32", "bf16"};
    for (int at = 0; at < 2; at++) {
        test_about("%s", precisions[at]);
        struct error err;
        struct ceiling c = list_of(standard, precisions[at], NETWORK_TRAIN);
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
}
