/* test_golden.c - every model of tests/golden, computed with PyTorch in double precision: logits,
 * loss, activations, gradient of the input and of every parameter. */
#include "golden_model.h"

static const struct {
    const char *kind;
    int least; /* cases */
} models[] = {{"vit", 20}, {"swin", 19}};

enum { MODELS = sizeof models / sizeof models[0] };

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

/* Every case, as one slice. */
static void check_all(bool fused, bool bf16)
{
    for (int m = 0; m < MODELS; m++) {
        const char *const *path = golden_cases(models[m].kind);
        const struct golden_how how = {3, 1, 1, fused, bf16};
        int cases = 0;
        for (; path[cases]; cases++) {
            struct golden c;
            golden_begin(&c, path[cases], &how);
            CHECK_INT(c.B, 3);
            golden_check(&c);
            golden_end(&c);
        }
        CHECK(cases >= models[m].least);
    }
}

TEST(models__agree_with_pytorch_in_every_case)
{
    check_all(false, false);
}

TEST(models__agree_with_pytorch_when_fused)
{
    check_all(true, false);
}

TEST(models__agree_with_pytorch_in_bf16)
{
    check_all(false, true);
    check_all(true, true);
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

static void check_cuts(const char *path)
{
    static const struct golden_how whole = {3, 1, 1, false, false};
    static const struct golden_how cuts[] = {
        {1, 3, 2, false, false}, {2, 2, 2, false, false}, {4, 2, 1, false, false}};
    struct golden a, b;
    golden_begin(&a, path, &whole);
    for (size_t k = 0; k < sizeof cuts / sizeof cuts[0]; k++) {
        golden_begin(&b, path, &cuts[k]);
        golden_check(&b);
        check_same(&b, &a);
        golden_end(&b);
    }
    golden_end(&a);
}

/* A run on NaN leaves NaN in values, gradients and scratch; nothing of it may be read afterwards.
 */
static void check_after_nan(const char *path)
{
    static const struct golden_how how = {2, 2, 1, false, false};
    struct golden c;
    golden_begin(&c, path, &how);
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

static void for_every_case(void (*check)(const char *path))
{
    for (int m = 0; m < MODELS; m++) {
        const char *const *path = golden_cases(models[m].kind);
        for (int i = 0; path[i]; i++)
            check(path[i]);
    }
}

TEST(models__agree_however_the_batch_is_cut)
{
    for_every_case(check_cuts);
}

TEST(models__read_nothing_that_an_earlier_batch_left)
{
    for_every_case(check_after_nan);
}
