/* test_local.c - local, na and longformer: against attention over the whole map with what a patch
 * does not see at minus infinity, and where they are standard attention. Layers whose parameters
 * have the same names and shapes have the same values. */
#include <stdlib.h>

#include "layer.h"
#include "nn/nn.h"
#include "ops/ops.h"

static struct attn_site shifted_site(int rows, int columns, int window, int down, int right)
{
    struct attn_site s = layer_map(rows, columns, 0);
    s.window[0] = s.window[1] = window;
    s.shift[0] = down;
    s.shift[1] = right;
    return s;
}

/* --- who sees whom, by the definitions -------------------------------------------------------- */

/* Where a patch lies in the window of its model (or the map), how large that is, and which patches
 * of it touch it there. */
struct place {
    int window, region, at[2], side[2];
};

static struct place place_of(const struct attn_site *s, int patch)
{
    int at[2] = {patch / s->grid[1], patch % s->grid[1]};
    struct place p = {.at = {at[0], at[1]}, .side = {s->grid[0], s->grid[1]}};
    for (int axis = 0; axis < 2 && s->window[0]; axis++) {
        int moved = at[axis] - s->shift[axis];
        p.region = 2 * p.region + (moved < 0);
        moved = (moved + s->grid[axis]) % s->grid[axis];
        p.window = p.window * s->grid[axis] + moved / s->window[axis];
        p.at[axis] = moved % s->window[axis];
        p.side[axis] = s->window[axis];
    }
    return p;
}

struct rule {
    const char *json;
    bool (*sees)(const struct place *a, const struct place *b, const int *number);
    int number[2];
};

/* Windows of number[0], keys as many as number[1] outside of them. */
static bool in_window(const struct place *a, const struct place *b, const int *number)
{
    for (int axis = 0; axis < 2; axis++) {
        int first = a->at[axis] / number[0] * number[0];
        if (b->at[axis] < first - number[1] || b->at[axis] >= first + number[0] + number[1])
            return false;
    }
    return true;
}

/* number[0] around the patch, moved inwards. */
static bool around(const struct place *a, const struct place *b, const int *number)
{
    for (int axis = 0; axis < 2; axis++) {
        int side = a->side[axis], size = number[0] < side ? number[0] : side;
        int first = a->at[axis] - number[0] / 2;
        while (first < 0)
            first++;
        while (first + size > side)
            first--;
        if (b->at[axis] < first || b->at[axis] >= first + size)
            return false;
    }
    return true;
}

static bool near(const struct place *a, const struct place *b, const int *number)
{
    return abs(a->at[0] - b->at[0]) <= number[0] / 2 && abs(a->at[1] - b->at[1]) <= number[0] / 2;
}

/* number[0] on each side in raster order, every number[1]-th. */
static bool along(const struct place *a, const struct place *b, const int *number)
{
    int apart = abs(a->at[0] * a->side[1] + a->at[1] - b->at[0] * b->side[1] - b->at[1]);
    return apart % number[1] == 0 && apart / number[1] <= number[0];
}

static const struct rule rules[] = {
    {"{\"name\": \"local\", \"window\": 2, \"rpe\": false}", in_window, {2, 0}},
    {"{\"name\": \"local\", \"window\": 2, \"overlap\": true, \"rpe\": false}", in_window, {2, 1}},
    {"{\"name\": \"local\", \"window\": 1, \"overlap\": true, \"rpe\": false}", in_window, {1, 1}},
    {"{\"name\": \"na\", \"kernel\": 3, \"rpe\": false}", around, {3, 0}},
    {"{\"name\": \"na\", \"kernel\": 5, \"rpe\": false}", around, {5, 0}},
    {"{\"name\": \"na\", \"kernel\": 3, \"edge\": \"clip\", \"rpe\": false}", near, {3, 0}},
    {"{\"name\": \"longformer\", \"form\": \"na\", \"window\": 1}", around, {3, 0}},
    {"{\"name\": \"longformer\", \"form\": \"clip\", \"window\": 2}", near, {5, 0}},
    {"{\"name\": \"longformer\", \"window\": 2}", along, {2, 1}},
    {"{\"name\": \"longformer\", \"window\": 7}", along, {7, 1}},
    {"{\"name\": \"longformer\", \"window\": 1, \"dilation\": 3}", along, {1, 3}},
};

enum { RULES = sizeof rules / sizeof rules[0] };

static bool sees(const struct rule *rule, const struct attn_site *s, int query, int key)
{
    if (query < s->prefix || key < s->prefix)
        return true;
    struct place a = place_of(s, query - s->prefix), b = place_of(s, key - s->prefix);
    return a.window == b.window && a.region == b.region && rule->sees(&a, &b, rule->number);
}

/* --- the layer over the whole map ------------------------------------------------------------- */

/* Standard attention without bias, where what a rule hides is at minus infinity. */
static void begin_dense(struct layer *l, const struct rule *rule, const struct attn_site *s)
{
    struct rig *r = &l->rig;
    rig_begin(r, s->B, false);
    l->site = *s;
    layer_choose(l, "\"standard\"");
    struct graph *g = r->graph;
    real *mask = rig_alloc(r, (size_t)s->N * (size_t)s->N * sizeof *mask);
    for (int i = 0; i < s->N; i++)
        for (int j = 0; j < s->N; j++)
            mask[i * s->N + j] = sees(rule, s, i, j) ? 0 : (real)-INFINITY;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(s->B, s->N, s->D), true);
    graph_scope_push(g, "attn");
    struct qkv t = nn_qkv(g, "qkv", x, s->H, true);
    struct tensor *y = op_scale(g, op_matmul_nt(g, t.q, t.k), attn_scale(s));
    y = op_add_table(g, graph_reshape(g, y, SHAPE(s->B * s->H, s->N, s->N)), mask);
    y = op_softmax(g, graph_reshape(g, y, SHAPE(s->B, s->H, s->N, s->N)));
    y = nn_linear(g, "proj", op_merge_heads(g, op_matmul(g, y, t.v)), s->D);
    graph_scope_pop(g);
    rig_ready(r, y, s->B);
    rig_randomize(r, 1);
}

static void check_equal(struct layer *a, struct layer *b)
{
    rig_run(&a->rig);
    rig_run(&b->rig);
    CHECK(rig_norm(b->rig.y, b->rig.y_count) > 0.1);
    CHECK_NEAR(rig_distance(a->rig.y, b->rig.y, b->rig.y_count), 0, rig_rounding);
    CHECK_NEAR(rig_distance(a->rig.dx[0], b->rig.dx[0], b->rig.count[0]), 0, 3 * rig_rounding);
    for (int i = 0; i < b->rig.params.count; i++) {
        const struct param *p = b->rig.params.list[i];
        CHECK_NEAR(rig_distance(rig_grad(&a->rig, p->name), rig_grad(&b->rig, p->name), p->count),
                   0, 3 * rig_rounding);
    }
    layer_end(a);
    layer_end(b);
}

static bool takes(const char *json, const struct attn_site *s)
{
    struct layer l;
    struct error error;
    rig_begin(&l.rig, 1, false);
    layer_choose(&l, json);
    bool works = attn_check(&l.attention, s, &error) == OK;
    layer_end(&l);
    return works;
}

TEST(patches__see_what_the_definition_says_and_prefix_tokens_see_all)
{
    const struct attn_site sites[] = {
        layer_map(4, 4, 0),
        layer_map(6, 10, 1),
        layer_map(2, 6, 2),
        shifted_site(8, 12, 4, 0, 0),
        shifted_site(8, 8, 4, 2, 2),
        shifted_site(4, 12, 4, 0, 1),
        shifted_site(12, 12, 6, 3, 3),
    };
    int compared = 0;
    for (int i = 0; i < RULES; i++)
        for (size_t k = 0; k < sizeof sites / sizeof sites[0]; k++) {
            struct layer a, b;
            test_about("%s at site %zu", rules[i].json, k);
            if (!takes(rules[i].json, &sites[k]))
                continue;
            layer_begin(&a, rules[i].json, sites[k]);
            begin_dense(&b, &rules[i], &sites[k]);
            check_equal(&a, &b);
            compared++;
        }
    CHECK(compared > 6 * RULES);
}

/* --- identities ------------------------------------------------------------------------------- */

TEST(a_window_as_large_as_the_map__is_standard_attention)
{
    static const char *const json[] = {
        "{\"name\": \"local\", \"window\": 4, \"rpe\": false}",
        "{\"name\": \"na\", \"kernel\": 7, \"rpe\": false}",
        "{\"name\": \"na\", \"kernel\": 7, \"edge\": \"clip\", \"rpe\": false}",
        "{\"name\": \"longformer\", \"window\": 15}",
        "{\"name\": \"longformer\", \"form\": \"na\"}",
        "{\"name\": \"longformer\", \"form\": \"clip\"}",
    };
    for (size_t i = 0; i < sizeof json / sizeof json[0]; i++)
        for (int prefix = 0; prefix < 3; prefix++) {
            struct layer a, b;
            test_about("%s, prefix %d", json[i], prefix);
            layer_begin(&a, json[i], layer_map(4, 4, prefix));
            layer_begin(&b, "\"standard\"", layer_map(4, 4, prefix));
            check_equal(&a, &b);
        }
}

/* Identical to W-MSA, table and all. */
TEST(local__is_standard_attention_in_windows_that_are_not_shifted)
{
    struct layer a, b;
    layer_begin(&a, "{\"name\": \"local\", \"window\": 4}", layer_map(8, 12, 0));
    layer_begin(&b, "\"standard\"", shifted_site(8, 12, 4, 0, 0));
    check_equal(&a, &b);
}

/* The table of a kernel that reaches everywhere, read backwards, is that of a window. */
TEST(na__has_its_biases_at_key_minus_query)
{
    struct layer a, b;
    layer_begin(&a, "{\"name\": \"na\", \"kernel\": 5}", layer_map(4, 4, 0));
    layer_begin(&b, "{\"name\": \"local\", \"window\": 4}", layer_map(4, 4, 0));
    real *from = layer_value(&a, "relative_position_bias_table");
    real *to = layer_value(&b, "relative_position_bias_table");
    for (int i = 0; i < 49; i++)
        for (int h = 0; h < 2; h++)
            to[(48 - i) * 2 + h] = from[i * 2 + h];
    rig_run(&a.rig);
    rig_run(&b.rig);
    CHECK_NEAR(rig_distance(a.rig.y, b.rig.y, b.rig.y_count), 0, rig_rounding);
    const real *da = layer_grad(&a, "relative_position_bias_table");
    const real *db = layer_grad(&b, "relative_position_bias_table");
    for (int i = 0; i < 49 * 2; i++)
        CHECK_NEAR(da[i], db[(48 - i / 2) * 2 + i % 2], 10 * rig_rounding);
    layer_end(&a);
    layer_end(&b);
}

/* Projections of their own change what prefix tokens give, and nothing else; equal ones change
 * nothing. */
TEST(longformer__projects_anew_for_prefix_tokens_alone)
{
    static const char shared[] = "{\"name\": \"longformer\", \"window\": 2}";
    static const char own[] = "{\"name\": \"longformer\", \"window\": 2, \"shared\": false}";
    struct layer a, b;
    layer_begin(&a, shared, layer_map(4, 4, 1));
    layer_begin(&b, own, layer_map(4, 4, 1));
    rig_run(&a.rig);
    rig_run(&b.rig);
    const size_t N = 17, D = 12;
    for (size_t i = 0; i < 2; i++) {
        const real *y = a.rig.y + i * N * D, *z = b.rig.y + i * N * D;
        CHECK(rig_distance(z, y, D) > 1e-2);
        CHECK_NEAR(rig_distance(z + D, y + D, (N - 1) * D), 0, rig_rounding);
    }
    layer_copy_rows(&b, "qkv_global.weight", 0, &a, "qkv.weight", 0, 36);
    layer_copy_rows(&b, "qkv_global.bias", 0, &a, "qkv.bias", 0, 36);
    rig_run(&b.rig);
    CHECK_NEAR(rig_distance(b.rig.y, a.rig.y, a.rig.y_count), 0, rig_rounding);
    CHECK_NEAR(rig_distance(b.rig.dx[0], a.rig.dx[0], a.rig.count[0]), 0, 3 * rig_rounding);
    layer_end(&a);
    layer_end(&b);
}

/* --- what is refused -------------------------------------------------------------------------- */

TEST(options__that_do_not_fit_are_named_with_what_would)
{
    static const struct {
        const char *json;
        int rows, columns, window;
        const char *text;
    } wrong[] = {
        {"{\"name\": \"local\", \"window\": 5}", 14, 14, 0,
         "window: 5 does not divide a map of 14 x 14"},
        {"{\"name\": \"local\", \"window\": 5}", 14, 14, 0, "1, 2, 7, 14"},
        {"{\"name\": \"local\", \"window\": 8}", 4, 4, 0, "window: 8"},
        {"\"local\"", 3, 4, 0, "\"overlap\": true"},
        {"\"local\"", 14, 14, 7, "window: 7 is all of a window"},
        {"{\"name\": \"na\", \"kernel\": 4}", 8, 8, 0, "kernel: 4 is even (3 and 5 are odd)"},
        {"\"na\"", 14, 14, 7, "kernel: 7"},
        {"{\"name\": \"longformer\", \"window\": 48}", 14, 14, 7, "window: 48"},
        {"{\"name\": \"longformer\", \"form\": \"na\"}", 14, 14, 7, "window: "},
        {"{\"name\": \"longformer\", \"form\": \"clip\", \"dilation\": 2}", 8, 8, 0, "dilation: 2"},
        {"{\"name\": \"longformer\", \"dilation\": 64}", 8, 8, 0, "dilation: 64 is past the 64 patches"},
        {"{\"name\": \"lara\", \"landmarks\": 10}", 3, 4, 0, "landmarks: 10 is not a square number (9 and 1"},
        {"{\"name\": \"qt\", \"alpha0\": 0, \"gamma0\": 0}", 4, 4, 0, "gamma0: "},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct attn_site s = layer_map(wrong[i].rows, wrong[i].columns, 0);
        s.window[0] = s.window[1] = wrong[i].window;
        layer_check_refused(wrong[i].json, s, wrong[i].text);
    }
}
