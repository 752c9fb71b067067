/* test_extremes.c - outputs and gradients of every attention are finite numbers for tokens that are
 * zero, huge or all negative, for one token alone, and for 4096 tokens. */
#include "layer.h"

/* Fills the tokens. */
typedef void fill(real *x, size_t n);

static void all_zero(real *x, size_t n)
{
    memset(x, 0, n * sizeof *x);
}

static void huge(real *x, size_t n)
{
    rig_random(x, n, "huge", 1e4);
}

static void all_negative(real *x, size_t n)
{
    rig_random(x, n, "negative", 1);
    for (size_t i = 0; i < n; i++)
        x[i] = -(real)fabs((double)x[i]);
}

static void all_equal(real *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (real)0.5;
}

static bool finite(const real *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static void check_finite(struct layer *l)
{
    const struct rig *r = &l->rig;
    rig_run(&l->rig);
    CHECK(finite(r->y, r->y_count));
    CHECK(finite(r->dx[0], r->count[0]));
    for (int i = 0; i < r->params.count; i++) {
        const struct param *p = r->params.list[i];
        if (p->flags & (PARAM_FROZEN | PARAM_BUFFER))
            continue;
        test_about("gradient of %s of %s", p->name, l->attention.name);
        CHECK(finite(rig_grad(r, p->name), p->count));
    }
}

/* A layer as it starts, on a square map without class token; false where it refuses the place. */
static bool begin(struct layer *l, const char *name, int side, int D, int H)
{
    const struct attn_site site = {
        .B = 1, .N = side * side, .D = D, .H = H, .grid = {side, side}, .blocks = 2};
    const char *json = test_text("\"%s\"", name);
    struct error error;
    rig_begin(&l->rig, 1, false);
    layer_choose(l, json);
    bool works = attn_check(&l->attention, &site, &error) == OK;
    layer_end(l);
    if (!works)
        return false;
    layer_begin(l, json, site);
    for (int i = 0; i < l->rig.params.count; i++)
        CHECK_OK(param_initialize(l->rig.params.list[i], 7, &error), error);
    return true;
}

static int check_tokens(fill *tokens, int side, int D, int H)
{
    int checked = 0;
    for (int i = 0; attn_kinds(i); i++) {
        struct layer l;
        test_about("%s", attn_kinds(i)->name);
        if (!begin(&l, attn_kinds(i)->name, side, D, H))
            continue;
        tokens(l.rig.x[0], l.rig.count[0]);
        check_finite(&l);
        layer_end(&l);
        checked++;
    }
    return checked;
}

TEST(every_attention__is_finite_for_extreme_tokens)
{
    static fill *const fills[] = {all_zero, huge, all_negative, all_equal};
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++)
        CHECK(check_tokens(fills[i], 4, 16, 2) >= 4);
}

TEST(every_attention__is_finite_for_one_token)
{
    CHECK(check_tokens(all_negative, 1, 16, 2) >= 4);
}

TEST(every_attention__is_finite_for_4096_tokens)
{
    CHECK(check_tokens(all_negative, 64, 16, 2) >= 4);
}
