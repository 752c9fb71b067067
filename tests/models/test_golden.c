/* test_golden.c - every ViT case of tests/golden, computed with PyTorch in double precision:
 * logits, loss, activations, gradient of the input and of every parameter. */
#include "golden.h"

TEST(formula__gives_the_published_entries)
{
    const struct shape x = SHAPE(3, 3, 12, 8), cls = SHAPE(1, 1, 24), patch = SHAPE(24, 3, 4, 4);
    const struct shape norm = SHAPE(24), qkv = SHAPE(72, 24), align = SHAPE(7, 7);
    CHECK_NEAR(golden_entry("x", &x, 0), -0.547454833984375, 0);
    CHECK_NEAR(golden_entry("x", &x, 863), 1.668426513671875, 0);
    CHECK_NEAR(golden_entry("cls_token", &cls, 1), -0.22087860107421875, 0);
    CHECK_NEAR(golden_entry("patch_embed.proj.weight", &patch, 0), -0.16775131225585938, 0);
    CHECK_NEAR(golden_entry("blocks.0.norm1.weight", &norm, 23), 0.9541358947753906, 0);
    CHECK_NEAR(golden_entry("blocks.0.norm1.bias", &norm, 1), 0.14865493774414062, 0);
    CHECK_NEAR(golden_entry("blocks.0.attn.qkv.weight", &qkv, 0), -0.08681106567382812, 0);
    CHECK_NEAR(golden_entry("blocks.0.attn.align.weight", &align, 48), 0.01296234130859375, 0);
}

TEST(vit__agrees_with_pytorch_in_every_case)
{
    const char *const *path = golden_cases("vit");
    int cases = 0;
    for (; path[cases]; cases++) {
        struct golden c;
        golden_begin(&c, path[cases], 3, 1, 1);
        CHECK_INT(c.B, 3);
        golden_check(&c);
        golden_end(&c);
    }
    CHECK(cases >= 20);
}

/* The same numbers within rounding. */
static void check_same(const struct golden *a, const struct golden *b)
{
    const struct rig *x = &a->rig, *y = &b->rig;
    double tolerance = 10 * rig_rounding;
    CHECK_NEAR(rig_distance(x->y, y->y, y->y_count), 0, tolerance);
    CHECK_NEAR(rig_distance(x->dx[0], y->dx[0], y->count[0]), 0, tolerance);
    CHECK_NEAR(rig_distance(x->params.grads, y->params.grads, y->params.trained), 0, tolerance);
}

TEST(vit__agrees_however_the_batch_is_cut)
{
    static const int cuts[][3] = {{1, 3, 2}, {2, 2, 2}, {4, 2, 1}};
    const char *const *path = golden_cases("vit");
    for (int i = 0; path[i]; i++) {
        struct golden whole;
        golden_begin(&whole, path[i], 3, 1, 1);
        for (size_t k = 0; k < sizeof cuts / sizeof cuts[0]; k++) {
            struct golden c;
            golden_begin(&c, path[i], cuts[k][0], cuts[k][1], cuts[k][2]);
            golden_check(&c);
            check_same(&c, &whole);
            golden_end(&c);
        }
        golden_end(&whole);
    }
}

/* A run on NaN leaves NaN in values, gradients and scratch; nothing of it may be read afterwards.
 */
TEST(vit__reads_nothing_that_an_earlier_batch_left)
{
    const char *const *path = golden_cases("vit");
    for (int i = 0; path[i]; i++) {
        struct golden c;
        golden_begin(&c, path[i], 2, 2, 1);
        struct rig *r = &c.rig;
        real *x = rig_copy(r, r->x[0], r->count[0]), *y = rig_copy(r, r->y, r->y_count);
        real *dx = rig_copy(r, r->dx[0], r->count[0]);
        real *grads = rig_copy(r, r->params.grads, r->params.trained);
        for (size_t k = 0; k < r->count[0]; k++)
            r->x[0][k] = (real)NAN;
        rig_run(r);
        CHECK(isnan(r->y[0]) && isnan(r->dx[0][0]));
        memcpy(r->x[0], x, r->count[0] * sizeof *x);
        rig_run(r);
        CHECK(memcmp(r->y, y, r->y_count * sizeof *y) == 0);
        CHECK(memcmp(r->dx[0], dx, r->count[0] * sizeof *dx) == 0);
        CHECK(memcmp(r->params.grads, grads, r->params.trained * sizeof *grads) == 0);
        golden_end(&c);
    }
}
