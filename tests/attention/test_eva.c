/* test_eva.c - identities of EVA and FlashEVA. Layers whose parameters have the same names and
 * shapes have the same values. T-EVA-1, ... number the identities. */
#include "attention/eva_geometry.h"
#include "attention/eva_layer.h"
#include "attention/neighbourhood.h"
#include "layer.h"
#include "ops/ops.h"

/* Layers with noise, as in training. */
static void begin_noisy(struct layer *l, const char *json, struct attn_site site)
{
    struct rig *r = &l->rig;
    rig_begin(r, site.B, true);
    l->site = site;
    layer_choose(l, json);
    CHECK_OK(attn_check(&l->attention, &site, &r->error), r->error);
    struct tensor *x = graph_input(r->graph, "x", TYPE_REAL, SHAPE(site.B, site.N, site.D), true);
    rig_ready(r, attn_build(r->graph, "attn", &l->attention, &site, x), site.B);
    rig_randomize(r, 1);
    r->feed.step = 3;
}

static void run_both(struct layer *a, struct layer *b)
{
    rig_run(&a->rig);
    rig_run(&b->rig);
    CHECK(rig_norm(b->rig.y, b->rig.y_count) > 0.1);
}

static double distance(const struct layer *a, const struct layer *b)
{
    return rig_distance(a->rig.y, b->rig.y, b->rig.y_count);
}

/* Outputs, gradients of x and of the parameters of b agree. */
static void check_equal(const struct layer *a, const struct layer *b)
{
    CHECK_NEAR(distance(a, b), 0, 3 * rig_rounding);
    CHECK_NEAR(rig_distance(a->rig.dx[0], b->rig.dx[0], b->rig.count[0]), 0, 10 * rig_rounding);
    for (int i = 0; i < b->rig.params.count; i++) {
        const struct param *p = b->rig.params.list[i];
        CHECK_NEAR(rig_distance(rig_grad(&a->rig, p->name), rig_grad(&b->rig, p->name), p->count),
                   0, 10 * rig_rounding);
    }
}

static void end_both(struct layer *a, struct layer *b)
{
    layer_end(a);
    layer_end(b);
}

/* Rows / window where that divides the map (14 / 7, 8 / 4), else the next side that does. */
TEST(groups__are_of_a_side_that_divides_the_map)
{
    static const struct {
        int rows, columns, group;
    } maps[] = {{14, 14, 2}, {8, 8, 2}, {6, 9, 3}, {12, 9, 3}, {40, 24, 4}};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        const struct attn_site site = layer_map(maps[i].rows, maps[i].columns, 1);
        struct layer a, b;
        layer_begin(&a, "\"eva\"", site);
        layer_begin(&b, test_text("{\"name\": \"eva\", \"group\": %d}", maps[i].group), site);
        run_both(&a, &b);
        CHECK(memcmp(a.rig.y, b.rig.y, a.rig.y_count * sizeof(real)) == 0);
        end_both(&a, &b);
    }
    layer_check_refused("\"eva\"", layer_map(3, 7, 0),
                        "group: no square but that of one patch divides a map of 3 x 7 (\"group\": 1 has");
    layer_check_refused("{\"name\": \"eva\", \"group\": 1}", layer_map(3, 7, 0), NULL);
}

TEST(a_window_as_large_as_the_map__is_standard_attention_where_nothing_is_seen_twice) /* T-EVA-1 */
{
    static const struct {
        const char *visibility;
        bool same;
    } cases[] = {{"disjoint", true}, {"remainder", true}, {"all", false}};
    for (int i = 0; i < 3; i++)
        for (int prefix = 0; prefix < 2; prefix++) {
            struct layer a, b;
            test_about("%s, prefix %d", cases[i].visibility, prefix);
            layer_begin(&a,
                        test_text("{\"name\": \"eva\", \"window\": 4, \"group\": 2, \"rpe\": "
                                  "false, \"visibility\": \"%s\"}",
                                  cases[i].visibility),
                        layer_map(4, 4, prefix));
            layer_begin(&b, "\"standard\"", layer_map(4, 4, prefix));
            run_both(&a, &b);
            if (cases[i].same)
                check_equal(&a, &b);
            else
                CHECK(distance(&a, &b) > 1e-2);
            end_both(&a, &b);
        }
}

/* Tokens that are equal inside their groups. */
static void fill_groups(struct layer *l, int group)
{
    const struct attn_site *s = &l->site;
    const size_t D = (size_t)s->D;
    for (int b = 0; b < s->B; b++)
        for (int t = s->prefix; t < s->N; t++) {
            int row = (t - s->prefix) / s->grid[1], column = (t - s->prefix) % s->grid[1];
            int first = s->prefix + row / group * group * s->grid[1] + column / group * group;
            memcpy(l->rig.x[0] + (size_t)(b * s->N + t) * D,
                   l->rig.x[0] + (size_t)(b * s->N + first) * D, D * sizeof(real));
        }
}

TEST(groups_of_equal_tokens__are_worth_their_tokens) /* T-EVA-5 */
{
    static const struct {
        const char *json;
        int rows, columns, group;
        bool same;
    } cases[] = {
        {"\"window\": 4, \"group\": 2, \"visibility\": \"disjoint\"", 8, 4, 2, true},
        {"\"window\": 4, \"group\": 2, \"visibility\": \"remainder\"", 8, 4, 2, true},
        {"\"window\": 3, \"group\": 2, \"visibility\": \"remainder\"", 6, 6, 2, true},
        {"\"window\": 2, \"group\": 3, \"visibility\": \"remainder\"", 6, 6, 3, true},
        {"\"window\": 3, \"group\": 2, \"visibility\": \"disjoint\", \"allow_gaps\": true", 6, 6, 2,
         false},
        {"\"window\": 4, \"group\": 2", 8, 4, 2, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int prefix = 0; prefix < 2; prefix++) {
            struct layer a, b;
            test_about("%s, prefix %d", cases[i].json, prefix);
            const struct attn_site site = layer_map(cases[i].rows, cases[i].columns, prefix);
            begin_noisy(&a,
                        test_text("{\"name\": \"eva\", \"param\": \"mean\", \"mass_bias\": "
                                  "true, \"rpe\": false, %s}",
                                  cases[i].json),
                        site);
            layer_begin(&b, "\"standard\"", site);
            fill_groups(&a, cases[i].group);
            fill_groups(&b, cases[i].group);
            run_both(&a, &b);
            if (cases[i].same)
                CHECK_NEAR(distance(&a, &b), 0, 3 * rig_rounding);
            else
                CHECK(distance(&a, &b) > 1e-3);
            end_both(&a, &b);
        }
}

TEST(noise__is_in_training_alone_and_an_option) /* T-EVA-6 */
{
    struct layer still, noisy, off;
    const struct attn_site site = layer_map(8, 8, 0);
    layer_begin(&still, "\"eva\"", site);
    begin_noisy(&noisy, "\"eva\"", site);
    begin_noisy(&off, "{\"name\": \"eva\", \"noise\": false}", site);
    run_both(&still, &noisy);
    CHECK(distance(&noisy, &still) > 1e-3);
    real *y = rig_copy(&noisy.rig, noisy.rig.y, noisy.rig.y_count);
    run_both(&off, &noisy);
    CHECK(memcmp(noisy.rig.y, y, noisy.rig.y_count * sizeof *y) == 0);
    CHECK(memcmp(off.rig.y, still.rig.y, still.rig.y_count * sizeof *y) == 0);
    noisy.rig.feed.step = 4;
    rig_run(&noisy.rig);
    CHECK(rig_distance(noisy.rig.y, y, noisy.rig.y_count) > 1e-3);
    layer_end(&still);
    end_both(&noisy, &off);
}

TEST(flasheva__is_eva) /* T-FL-1 */
{
    static const char *const options[] = {
        "\"rpe\": true",
        "\"param\": \"evabyte\"",
        "\"visibility\": \"remainder\", \"scale\": \"prf\"",
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        struct layer a, b;
        test_about("%s", options[i]);
        begin_noisy(&a, test_text("{\"name\": \"flasheva\", %s}", options[i]), layer_map(8, 8, 1));
        begin_noisy(&b, test_text("{\"name\": \"eva\", %s}", options[i]), layer_map(8, 8, 1));
        run_both(&a, &b);
        check_equal(&a, &b);
        end_both(&a, &b);
    }
}

/* T-ALL-2, T-EVA-9: weights of a query sum to one. */
TEST(constant_values__stay_what_they_are)
{
    static const char *const params[] = {"default", "sum", "no_ln", "none", "evabyte", "mean"};
    for (int i = 0; i < 6; i++) {
        struct layer l;
        test_about("%s", params[i]);
        begin_noisy(&l, test_text("{\"name\": \"eva\", \"param\": \"%s\"}", params[i]),
                    layer_map(8, 8, 1));
        const size_t D = 12;
        memset(layer_value(&l, "qkv.weight") + 2 * D * D, 0, D * D * sizeof(real));
        layer_identity(layer_value(&l, "proj.weight"), (int)D);
        rig_run(&l.rig);
        const real *value = layer_value(&l, "qkv.bias") + 2 * D,
                   *bias = layer_value(&l, "proj.bias");
        for (size_t k = 0; k < l.rig.y_count; k++)
            CHECK_NEAR(l.rig.y[k], value[k % D] + bias[k % D], 10 * rig_rounding);
        layer_end(&l);
    }
}

/* --- golden values -----------------------------------------------------------------------------
 */

/* F(shape, c)[i] = sin(0.7 i + 0.3 c), times a factor. */
static void fill_sines(real *to, size_t n, double c, double factor)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (real)(factor * sin(0.7 * (double)i + 0.3 * c));
}

/* A map of 4 x 4 with one head of width 4, queries, keys and values given. */
static const struct attn_site small = {
    .B = 1, .N = 16, .D = 4, .H = 1, .grid = {4, 4}, .blocks = 1};

static struct qkv small_qkv(struct graph *g)
{
    struct qkv t;
    t.q = graph_input(g, "q", TYPE_REAL, SHAPE(1, 1, 16, 4), true);
    t.k = graph_input(g, "k", TYPE_REAL, SHAPE(1, 1, 16, 4), true);
    t.v = graph_input(g, "v", TYPE_REAL, SHAPE(1, 1, 16, 4), true);
    return t;
}

/* Sum, sum of squares, first and last entry of the output. */
static void check_golden(struct rig *r, struct tensor *y, const double want[4])
{
    const double tolerance = sizeof(real) == 8 ? 2e-10 : 1e-5;
    rig_ready(r, op_merge_heads(r->graph, y), 1);
    for (int i = 0; i < 3; i++)
        fill_sines(r->x[i], 64, i + 1, 1);
    for (int i = 0; i < r->params.count; i++) {
        struct param *p = r->params.list[i];
        bool norm = strstr(p->name, "norm"), q = strstr(p->name, "q_pool"),
             bias = p->shape.rank == 1;
        for (size_t k = 0; k < p->count; k++)
            p->value[k] = !strstr(p->name, "bias");
        if (!norm)
            fill_sines(p->value, p->count, (q ? 4 : 6) + bias, bias ? 0.1 : 0.3);
    }
    rig_run(r);
    double sum = 0;
    for (size_t i = 0; i < 64; i++)
        sum += (double)r->y[i];
    CHECK_NEAR(sum, want[0], 10 * tolerance);
    CHECK_NEAR(rig_dot(r->y, r->y, 64), want[1], 10 * tolerance);
    CHECK_NEAR(r->y[0], want[2], tolerance);
    CHECK_NEAR(r->y[63], want[3], tolerance);
    rig_end(r);
}

TEST(eva__has_its_golden_values_in_evaluation)
{
    struct rig r;
    rig_begin(&r, 1, false);
    const struct eva o = {.window = 2, .group = 2, .noise = true};
    struct qkv t = small_qkv(r.graph);
    check_golden(&r, eva_attend(r.graph, &o, &small, &t),
                 (const double[]){-0.7655449486, 3.4994353471, 0.3067159799, 0.1063050650});
}

TEST(neighbourhoods__have_their_golden_values)
{
    static const double want[][4] = {{1.4936043760, 6.8622525394, 0.2869931572, 0.4040687292},
                                     {0.8969049068, 4.7525936878, 0.3523908051, 0.2669674453}};
    for (int clip = 0; clip < 2; clip++) {
        struct rig r;
        struct group_list l;
        const struct neighbourhood n = {.grid = {4, 4}, .kernel = 3, .clip = clip};
        test_about(clip ? "clip" : "clamp");
        rig_begin(&r, 1, false);
        struct qkv t = small_qkv(r.graph);
        groups_begin(&l, r.graph, &small, neighbourhood_groups(&n));
        neighbourhood_add(&l, &n);
        check_golden(&r, groups_attend(&l, &t, NULL, NULL, NULL), want[clip]);
    }
}

/* --- geometry --------------------------------------------------------------------------------- */

static struct eva_geometry square(int side, int window, int group, enum eva_visibility visibility)
{
    return (struct eva_geometry){
        .windows = {.grid = {side, side}, .window = {window, window}},
        .groups = {.grid = {side, side}, .window = {group, group}},
        .visibility = visibility,
    };
}

TEST(disjoint__hides_as_many_tokens_as_published_sizes_do)
{
    static const int cases[][5] = {{14, 7, 2, 15, 147}, {28, 7, 4, 95, 735}, {56, 7, 8, 207, 3087},
                                   {12, 4, 3, 20, 128}, {8, 4, 2, 0, 0},     {16, 4, 4, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int *c = cases[i];
        int outside;
        test_about("%d x %d, window %d, group %d", c[0], c[0], c[1], c[2]);
        const struct eva_geometry e = square(c[0], c[1], c[2], EVA_DISJOINT);
        CHECK_INT(eva_gaps(&e, &outside), c[3]);
        CHECK_INT(outside, c[4]);
        const struct eva_geometry rest = square(c[0], c[1], c[2], EVA_REMAINDER);
        CHECK_INT(eva_gaps(&rest, &outside), 0);
    }
}

/* How often each token of the map is seen by a part, by its keys and its sets. */
struct seen {
    const struct eva_sets *sets;
    int tokens, parts;
};

static void check_once(void *context, const struct eva_part *part)
{
    struct seen *s = context;
    int times[256] = {0}, key[256];
    const struct token_windows map = {.grid = {12, 12}, .prefix = 1};
    if (!s->sets) /* they are being made */
        return;
    int keys = windows_tokens(&map, &part->keys, key);
    for (int j = 0; j < keys; j++)
        times[key[j]]++;
    for (int i = 0; i < part->sets; i++) {
        const struct token_sets *all = &s->sets->sets;
        for (int m = all->first[part->set[i]]; m < all->first[part->set[i] + 1]; m++)
            times[all->token[m]]++;
    }
    CHECK_INT(times[0], 0);
    for (int t = 1; t <= s->tokens; t++)
        CHECK_INT(times[t], 1);
    s->parts++;
}

TEST(remainder__shows_each_token_once) /* T-EVA-10 */
{
    struct rig r;
    rig_begin(&r, 1, false);
    for (int shift = 0; shift < 3; shift++)
        for (int group = 1; group <= 6; group++) {
            if (12 % group)
                continue;
            struct eva_geometry e = square(12, 4, group, EVA_REMAINDER);
            struct eva_sets sets;
            struct seen seen = {.tokens = 144};
            e.windows.prefix = e.groups.prefix = 1;
            e.windows.shift[0] = shift;
            e.windows.shift[1] = 2 * shift > 3 ? 3 : 2 * shift;
            CHECK(eva_arrange(r.graph, &e, &sets, check_once, &seen));
            seen.sets = &sets;
            struct eva_sets again;
            CHECK(eva_arrange(r.graph, &e, &again, check_once, &seen));
            CHECK_INT(seen.parts, shift ? 16 : 9);
        }
    graph_free(r.graph);
    params_free(&r.params);
    arena_free(&r.memory);
}

/* --- what is refused -------------------------------------------------------------------------- */

TEST(options__that_do_not_fit_are_named_with_what_would)
{
    static const struct {
        const char *options, *text;
        int side, window;
    } wrong[] = {
        {"\"window\": 5", "window: 5 does not divide a map of 14 x 14", 14, 0},
        {"\"group\": 4", "group: 4 does not divide a map of 14 x 14 (of 1, 2, 7, 14", 14, 0},
        {"\"visibility\": \"disjoint\"", "visibility: disjoint hides 15 of the 147 tokens", 14, 0},
        {"\"window\": 7", "window: 7, but the windows are the model's", 14, 7},
        {"\"overlap\": true", "overlap: ", 14, 7},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct attn_site s = layer_map(wrong[i].side, wrong[i].side, 0);
        s.window[0] = s.window[1] = wrong[i].window;
        layer_check_refused(test_text("{\"name\": \"eva\", %s}", wrong[i].options), s,
                            wrong[i].text);
    }
}
