/* test_variants.c - what every line of variants.def must hold: a walk over the registry. */
#include "layer.h"
#include "ops/ops.h"

/* Places where a variant may find itself; one that cannot work at a place says so in its check. */
static const struct attn_site sites[] = {
    {.B = 2,
     .N = 5,
     .D = 12,
     .H = 3,
     .grid = {2, 2},
     .prefix = 1,
     .blocks = 2,
     .qkv_bias = true,
     .proj_bias = true},
    {.B = 3, .N = 16, .D = 16, .H = 4, .grid = {4, 4}, .block = 1, .blocks = 2},
    {.B = 1, .N = 14, .D = 8, .H = 1, .grid = {3, 4}, .prefix = 2, .blocks = 1, .qkv_bias = true},
    {.B = 2, .N = 49, .D = 24, .H = 2, .grid = {7, 7}, .block = 5, .blocks = 12, .proj_bias = true},
    {.B = 2,
     .N = 24,
     .D = 12,
     .H = 2,
     .grid = {4, 6},
     .block = 1,
     .blocks = 2,
     .qkv_bias = true,
     .proj_bias = true,
     .window = {2, 3},
     .shift = {1, 1}},
    {.B = 3, .N = 16, .D = 16, .H = 4, .grid = {4, 4}, .blocks = 4, .window = {4, 2}},
    {.B = 2,
     .N = 18,
     .D = 12,
     .H = 1,
     .grid = {3, 6},
     .block = 3,
     .blocks = 4,
     .proj_bias = true,
     .window = {3, 2},
     .shift = {0, 1}},
};

enum { SITES = sizeof sites / sizeof sites[0] };

/* Options beside the defaults that change what is recorded. */
static const char *const options[] = {
    "{\"name\": \"super\", \"base\": \"optimized\", \"wa_bias\": true}",
    "{\"name\": \"super\", \"base\": \"standard\", \"wa_share\": false}",
    "{\"name\": \"super\", \"wa_init\": \"orthogonal\", \"wa_bias\": true, \"wa_share\": false}",
    "{\"name\": \"super\", \"wa_mask\": true, \"wa_bias\": true}",
    "{\"name\": \"local\", \"window\": 2, \"overlap\": true}",
    "{\"name\": \"na\", \"kernel\": 3}",
    "{\"name\": \"na\", \"kernel\": 3, \"edge\": \"clip\", \"rpe\": false}",
    "{\"name\": \"longformer\", \"window\": 2, \"shared\": false}",
    "{\"name\": \"longformer\", \"window\": 1, \"dilation\": 2}",
    "{\"name\": \"longformer\", \"form\": \"na\", \"window\": 1}",
    "{\"name\": \"linformer\", \"pool\": 2}",
    "{\"name\": \"eva\", \"group\": 2, \"param\": \"sum\"}",
    "{\"name\": \"eva\", \"group\": 2, \"scale\": \"prf\"}",
    "{\"name\": \"eva\", \"group\": 2, \"param\": \"evabyte\", \"mass_bias\": true}",
    "{\"name\": \"eva\", \"window\": 2, \"group\": 2, \"param\": \"no_ln\"}",
    "{\"name\": \"eva\", \"window\": 2, \"group\": 4, \"visibility\": \"remainder\"}",
    "{\"name\": \"flasheva\", \"window\": 2, \"group\": 2, \"overlap\": true, "
    "\"group_mean\": \"code\"}",
    "{\"name\": \"eva\", \"group\": 1, \"param\": \"mean\", \"rpe\": false}",
    "{\"name\": \"elu_linear\", \"order\": \"linear\"}",
    "{\"name\": \"elu_linear\", \"order\": \"quadratic\"}",
    "{\"name\": \"hedgehog\", \"form\": \"exp\", \"tie\": true}",
    "{\"name\": \"hedgehog\", \"form\": \"joint\", \"init\": \"kaiming\"}",
    "{\"name\": \"hedgehog\", \"init\": \"zeros\"}",
    "{\"name\": \"based\", \"f\": 3, \"order\": \"linear\"}",
    "{\"name\": \"aft_simple\", \"form\": \"matrix\"}",
    "{\"name\": \"qt\", \"reduce\": \"pool\"}",
    "{\"name\": \"qt\", \"reduce\": \"chunk\", \"ape\": false}",
    "{\"name\": \"qt_exact\", \"basis\": \"full\", \"ape\": true}",
    "{\"name\": \"qt_exact\", \"basis\": \"kron\"}",
    "{\"name\": \"qt_released\", \"ape\": false}",
    "{\"name\": \"taylor1\", \"centre\": \"feature\"}",
    "{\"name\": \"angular\", \"form\": \"castling\"}",
    "{\"name\": \"focused\", \"p\": 1, \"kernel\": 3}",
    "{\"name\": \"vicinity\", \"product\": true}",
    "{\"name\": \"vicinity\", \"clamp\": true}",
    "{\"name\": \"performer\", \"map\": \"hyp\", \"m\": 7, \"scaling\": true}",
    "{\"name\": \"performer\", \"map\": \"relu\", \"orthogonal\": false}",
    "{\"name\": \"rfa\", \"m\": 200, \"scaling\": true, \"order\": \"quadratic\"}",
    "{\"name\": \"lara\", \"landmarks\": 4, \"proposal\": \"no_param_pool_mixed\", "
    "\"mis\": \"biased\"}",
    "{\"name\": \"lara\", \"landmarks\": 4, \"samples\": \"antithetic\"}",
    "{\"name\": \"lara\", \"landmarks\": 4, \"proposal\": \"pool\", \"mis\": \"bh\", "
    "\"pool_module\": \"dense\", \"noise\": false}",
    "{\"name\": \"dijiang\", \"map\": \"exp\", \"radial\": \"chi\"}",
    "{\"name\": \"dijiang\", \"projection\": \"paper\", \"norm\": \"group_norm\", "
    "\"group_eps\": 0.1}", /* less is steep: two channels of a group become their sign */
    "{\"name\": \"pool\", \"size\": 5}",
    "{\"name\": \"sepconv\", \"kernel\": 3, \"expand\": 1}",
    "{\"name\": \"vrwkv\", \"shift\": 0, \"key_norm\": true}",
    "{\"name\": \"vrwkv\", \"shift\": 2, \"init\": \"global\"}",
    "{\"name\": \"vim\", \"expand\": 1, \"state\": 3, \"conv\": 2, \"rank\": 2}",
};

/* The i-th configuration: the defaults of each variant, then the options above; NULL past the end.
 */
static const char *json_at(int i)
{
    int variants = 0;
    while (attn_kinds(variants))
        variants++;
    if (i < variants)
        return test_text("\"%s\"", attn_kinds(i)->name);
    i -= variants;
    return i < (int)(sizeof options / sizeof options[0]) ? options[i] : NULL;
}

/* The layer at a site; false where the variant refuses the place. */
static bool begin_at(struct layer *l, const char *json, int site)
{
    struct error error;
    test_about("%s at site %d", json, site);
    rig_begin(&l->rig, 1, false);
    layer_choose(l, json);
    bool works = attn_check(&l->attention, &sites[site], &error) == OK;
    if (!works)
        CHECK(error.status == ERR_INPUT && strstr(error.text, ": "));
    layer_end(l);
    if (works)
        layer_begin(l, json, sites[site]);
    return works;
}

TEST(every_variant__has_names_texts_and_functions)
{
    int i = 0;
    for (; attn_kinds(i); i++) {
        const struct kind *kind = attn_kinds(i);
        const struct attn_variant *v = kind->impl;
        CHECK(kind->name && kind->name[0]);
        test_about("%s", kind->name);
        CHECK_STR(v->name, kind->name);
        CHECK(v->summary && v->summary[0] && v->paper && v->paper[0]);
        CHECK(v->complexity && strncmp(v->complexity, "O(", 2) == 0);
        CHECK(v->build && v->macs);
        CHECK((v->fields != NULL) == (v->options_size > 0));
        for (int k = 0; k < i; k++)
            CHECK(strcmp(kind->name, attn_kinds(k)->name) != 0);
    }
    CHECK(i >= 4);
    CHECK(attn_kinds(-1) == NULL && attn_kinds(i + 1) == NULL);
}

TEST(every_variant__works_at_some_place_and_costs_what_its_formula_says)
{
    for (int i = 0; json_at(i); i++) {
        int places = 0;
        for (int s = 0; s < SITES; s++) {
            struct layer l;
            if (!begin_at(&l, json_at(i), s))
                continue;
            double macs = attn_macs(&l.attention, &sites[s]);
            CHECK(macs > 0 || (macs == 0 && l.rig.params.count == 0));
            CHECK_NEAR(graph_macs(l.rig.graph), sites[s].B * macs, 1e-9 * macs);
            places++;
            layer_end(&l);
        }
        CHECK(places > 0);
    }
}

/* A stand-in for a variant that must see the whole map: it passes x on, and says what it was
 * shown. */
static struct attn_site shown;

static struct tensor *global_build(struct graph *g, const void *opt, const struct attn_site *s,
                                   struct tensor *x)
{
    (void)opt;
    shown = *s;
    return op_scale(g, x, 2);
}

static double global_macs(const void *opt, const struct attn_site *s)
{
    (void)opt;
    return s->N;
}

static enum status global_check(const void *opt, const struct attn_site *s, struct error *err)
{
    (void)opt;
    return s->N == 24 ? OK : error_set(err, ERR_INPUT, "name: is shown %d tokens", s->N);
}

/* Its option: whether it is placed on the whole map. */
static enum attn_placement chosen_placement(const void *opt, const struct attn_site *s)
{
    CHECK(s->window[0] > 0);
    return *(const bool *)opt ? ATTN_GLOBAL : ATTN_INNER;
}

TEST(a_variant__is_shown_the_whole_map_or_a_window_as_its_options_say)
{
    const struct attn_variant global = {.name = "global",
                                        .placement = chosen_placement,
                                        .build = global_build,
                                        .check = global_check,
                                        .macs = global_macs};
    const struct kind kind = {.name = "global", .impl = &global};
    bool on_map = true;
    const struct choice choice = {.kind = &kind, .name = "global", .options = &on_map};
    struct rig r;
    const struct attn_site *s = &sites[4];
    rig_begin(&r, s->B, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(s->B, s->N, s->D), true);
    CHECK_OK(attn_check(&choice, s, &r.error), r.error);
    CHECK_NEAR(attn_macs(&choice, s), 24, 0);
    rig_ready(&r, attn_build(r.graph, "attn", &choice, s, x), s->B);
    CHECK(shown.N == 24 && shown.grid[0] == 4 && shown.grid[1] == 6 && shown.B == 2);
    CHECK(shown.window[0] == 2 && shown.window[1] == 3 && !shown.regions);
    CHECK(shown.shift[0] == 1 && shown.shift[1] == 1);
    rig_run(&r);
    for (size_t i = 0; i < r.y_count; i++)
        CHECK_NEAR(r.y[i], 2 * r.x[0][i], 0);
    CHECK_INT(r.params.count, 0);
    rig_end(&r);

    on_map = false;
    CHECK_INT(attn_check(&choice, s, &r.error), ERR_INPUT);
    CHECK_CONTAINS(r.error.text, "is shown 6 tokens");
    CHECK_NEAR(attn_macs(&choice, s), 4 * 6, 0);
    rig_begin(&r, s->B, false);
    x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(s->B, s->N, s->D), true);
    rig_ready(&r, attn_build(r.graph, "attn", &choice, s, x), s->B);
    CHECK(shown.B == 4 * 2 && shown.N == 6 && shown.grid[0] == 2 && shown.grid[1] == 3);
    CHECK(shown.window[0] == 2 && !shown.shift[0] && !shown.shift[1] && shown.regions);
    rig_end(&r);
}

/* Groups of one patch, as EVA's are on small maps unless told otherwise, have one member: what it is
 * weighed by makes no difference. */
static bool has_no_effect(const char *json, const char *param)
{
    return strstr(json, "eva") && !strstr(json, "group") && strstr(param, "q_pool");
}

TEST(every_variant__reaches_its_input_and_all_its_parameters)
{
    for (int i = 0; json_at(i); i++) {
        for (int s = 0; s < SITES; s++) {
            struct layer l;
            if (!begin_at(&l, json_at(i), s))
                continue;
            const struct rig *r = &l.rig;
            rig_run(&l.rig);
            CHECK(rig_norm(r->dx[0], r->count[0]) > 0);
            for (int k = 0; k < r->params.count; k++) {
                const struct param *p = r->params.list[k];
                CHECK_CONTAINS(p->name, "attn.");
                if (!(p->flags & (PARAM_FROZEN | PARAM_BUFFER)) &&
                    !has_no_effect(json_at(i), p->name))
                    CHECK(rig_norm(rig_grad(r, p->name), p->count) > 1e-6);
            }
            layer_end(&l);
        }
    }
}

TEST(every_variant__has_the_gradient_of_its_output) /* identity I18 */
{
    if (sizeof(real) < sizeof(double))
        SKIP("needs the double build");
    for (int i = 0; json_at(i); i++) {
        for (int s = 0; s < SITES; s++) {
            struct layer l;
            if (!begin_at(&l, json_at(i), s))
                continue;
            layer_end(&l);
            layer_begin_exact(&l, json_at(i), sites[s]);
            rig_randomize(&l.rig, 0.5); /* more: sums of thousands, whose rounding is seen */
            rig_check_gradients(&l.rig, 1e-7);
            layer_end(&l);
        }
    }
}

/* Images do not meet: what one of them is does not change the others' outputs. */
TEST(every_variant__treats_each_image_alone)
{
    for (int i = 0; json_at(i); i++) {
        struct layer l;
        if (!begin_at(&l, json_at(i), 0) && !begin_at(&l, json_at(i), 3))
            continue;
        size_t half = l.rig.y_count / 2;
        rig_run(&l.rig);
        real *y = rig_copy(&l.rig, l.rig.y, 2 * half);
        rig_random(l.rig.x[0] + half, half, "another image", 1);
        rig_run(&l.rig);
        CHECK(memcmp(l.rig.y, y, half * sizeof *y) == 0);
        CHECK(rig_distance(l.rig.y + half, y + half, half) > 1e-3);
        layer_end(&l);
    }
}

/* Half the squared distance from a target, whose gradient becomes dy. */
static double distance_to(struct layer *l, const real *target)
{
    double loss = 0;
    for (size_t i = 0; i < l->rig.y_count; i++) {
        l->rig.dy[i] = l->rig.y[i] - target[i];
        loss += 0.5 * (double)l->rig.dy[i] * (double)l->rig.dy[i];
    }
    return loss;
}

/* Step number `step` of Adam, which moves parameters however small or large their gradients are.
 * moments: twice as many as there are parameters, 0 at first. Returns the loss before it. */
static double descend(struct layer *l, const real *target, real *moments, int step)
{
    struct params *p = &l->rig.params;
    struct adamw o = {.lr = 0.03, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .scale = 1};
    o.correction1 = 1 - pow(o.beta1, step + 1);
    o.correction2 = 1 - pow(o.beta2, step + 1);
    rig_run(&l->rig);
    double loss = distance_to(l, target);
    rig_run(&l->rig);
    kernel_adamw(p->values, moments, moments + p->trained, p->grads, p->trained, &o);
    return loss;
}

TEST(every_variant__learns_from_its_own_start)
{
    for (int i = 0; json_at(i); i++) {
        for (int s = 0; s < SITES; s++) {
            struct layer l;
            struct error error;
            if (!begin_at(&l, json_at(i), s))
                continue;
            if (!l.rig.params.trained) {
                layer_end(&l);
                continue;
            }
            rig_randomize(&l.rig, 0.4);
            rig_run(&l.rig); /* the target: what these parameters give */
            real *target = rig_copy(&l.rig, l.rig.y, l.rig.y_count);
            for (int k = 0; k < l.rig.params.count; k++)
                CHECK_OK(param_initialize(l.rig.params.list[k], 7, &error), error);
            size_t bytes = 2 * l.rig.params.trained * sizeof(real);
            real *moments = memset(rig_alloc(&l.rig, bytes), 0, bytes);
            int steps = sites[s].window[0] ? 100 : 60; /* few tokens share a target in a window */
            double start = descend(&l, target, moments, 0), loss = 0;
            for (int step = 1; step <= steps; step++)
                loss = descend(&l, target, moments, step);
            CHECK(loss < 0.6 * start);
            layer_end(&l);
        }
    }
}
