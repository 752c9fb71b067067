/* test_windows.c - who sees whom: inside windows, over the borders that a cyclic shift brings
 * together, and between images. Token by token, forward and backward, to the last bit. Identity
 * I17. */
#include <stdint.h>

#include "layer.h"

/* Attentions that work inside windows, and whether their values mix over the regions of a window.
 */
static const struct {
    const char *json;
    bool leaks;
    bool may_miss; /* weights may be 0 between tokens that could see each other */
} rows[] = {
    {"\"standard\"", false, false},
    {"\"optimized\"", false, false},
    {"\"efficient\"", false, false},
    {"\"super\"", true, false},
    {"{\"name\": \"super\", \"wa_share\": false}", true, false},
    {"{\"name\": \"super\", \"wa_mask\": true}", false, false},
    {"{\"name\": \"super\", \"wa_mask\": true, \"wa_share\": false}", false, false},
    {"{\"name\": \"super\", \"wa_mask\": true, \"base\": \"standard\", \"wa_bias\": true, "
     "\"wa_share\": false}",
     false, false},
    {"\"relu_linear\"", false, true},
    {"{\"name\": \"elu_linear\", \"order\": \"linear\"}", false, false},
    {"{\"name\": \"elu_linear\", \"order\": \"quadratic\"}", false, false},
    {"\"cosformer\"", false, true},
    {"\"hydra\"", false, false},
    {"\"shen\"", false, false},
    {"\"hedgehog\"", false, false},
    {"{\"name\": \"based\", \"f\": 3, \"order\": \"linear\"}", false, false},
    {"{\"name\": \"rebased\", \"f\": 4, \"order\": \"quadratic\"}", false, false},
    {"\"aft_simple\"", false, false},
    {"\"polynl\"", false, false},
    {"\"qt\"", false, false},
    {"{\"name\": \"qt_exact\", \"basis\": \"kron\", \"ape\": true}", false, false},
    {"\"qt_released\"", false, false},
    {"\"angular\"", false, false},
    {"{\"name\": \"angular\", \"form\": \"castling\"}", false, false},
    {"\"taylor1\"", false, false},
    {"{\"name\": \"taylor1\", \"centre\": \"none\"}", false, false},
    {"{\"name\": \"taylor1\", \"centre\": \"feature\", \"bits\": 0}", false, false},
    {"\"focused\"", false, true},
    {"\"vicinity\"", false, true},
    {"{\"name\": \"vicinity\", \"product\": true}", false, true},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static struct attn_site window_site(int rows_of_map, int columns, int h, int w, int down, int right)
{
    return (struct attn_site){.B = 2,
                              .N = rows_of_map * columns,
                              .D = 12,
                              .H = 2,
                              .grid = {rows_of_map, columns},
                              .block = 1,
                              .blocks = 2,
                              .qkv_bias = true,
                              .proj_bias = true,
                              .window = {h, w},
                              .shift = {down, right}};
}

/* Maps with windows in the middle and over one border and two; windows as wide as the map. */
static const int maps[][6] = {
    {8, 12, 4, 4, 2, 2}, {8, 12, 4, 4, 0, 0}, {6, 9, 3, 3, 1, 1},
    {8, 4, 4, 4, 2, 0},  {4, 8, 4, 2, 0, 1},  {2, 2, 2, 2, 0, 0},
};

enum { MAPS = sizeof maps / sizeof maps[0] };

static struct attn_site map_site(int i)
{
    const int *m = maps[i];
    return window_site(m[0], m[1], m[2], m[3], m[4], m[5]);
}

/* --- where a token lies, by the shift's definition ----------------------------------------------
 */

/* Window of token t, and which borders of the map lie between it and the window's first row and
 * column. */
struct place {
    int window, region;
};

static struct place place_of(const struct attn_site *s, int t)
{
    int place[2] = {t / s->grid[1], t % s->grid[1]}, window[2], wrapped[2];
    for (int axis = 0; axis < 2; axis++) {
        int moved = place[axis] - s->shift[axis];
        wrapped[axis] = moved < 0;
        window[axis] = (moved + s->grid[axis]) % s->grid[axis] / s->window[axis];
    }
    return (struct place){window[0] * (s->grid[1] / s->window[1]) + window[1],
                          2 * wrapped[0] + wrapped[1]};
}

static bool meets(const struct attn_site *s, int t, int u, bool leaks)
{
    struct place a = place_of(s, t), b = place_of(s, u);
    return a.window == b.window && (leaks || a.region == b.region);
}

/* --- the layer in a storage type ----------------------------------------------------------------
 */

struct sight {
    struct layer layer;
    uint16_t *x_bf16; /* what the graph reads in bf16 */
};

/* The input as the graph's storage has it. */
static void feed(struct sight *w)
{
    struct rig *r = &w->layer.rig;
    struct vec x = {r->x[0], TYPE_REAL, (ptrdiff_t)r->count[0]};
    struct vec copy = {w->x_bf16, TYPE_BF16, (ptrdiff_t)r->count[0]};
    if (w->x_bf16)
        kernel_accumulate(copy, 0, x, 1, 1, r->count[0]);
}

static void begin(struct sight *w, const char *json, const struct attn_site *site, enum type type)
{
    struct layer *l = &w->layer;
    struct rig *r = &l->rig;
    test_about("%s, map %d x %d, windows %d x %d by %d, %d, %s", json, site->grid[0], site->grid[1],
               site->window[0], site->window[1], site->shift[0], site->shift[1],
               type == TYPE_BF16 ? "bf16" : "real");
    rig_begin(r, site->B, false);
    r->graph->options.type = type;
    l->site = *site;
    layer_choose(l, json);
    CHECK_OK(attn_check(&l->attention, site, &r->error), r->error);
    struct tensor *x = graph_sample(r->graph, SHAPE(site->B, site->N, site->D));
    struct tensor *y = attn_build(r->graph, "attn", &l->attention, site, x);
    CHECK_STR(r->graph->error.status ? r->graph->error.text : "", "");
    CHECK(shape_equal(&y->shape, &x->shape));
    rig_ready(r, y, site->B);
    rig_randomize(r, 1);
    w->x_bf16 = NULL;
    if (r->graph->inputs[0]->type == TYPE_BF16)
        r->feed.input[0] = w->x_bf16 = rig_alloc(r, r->count[0] * sizeof *w->x_bf16);
    feed(w);
    rig_run(r);
}

static bool same_bits(const real *a, const real *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* Moves one token of the first image. Of every token of both images, output and input gradient stay
 * what they were to the last bit where it cannot see that one, and change where it can (unless its
 * weights may be 0; bf16 may round a small change away). */
static void move_token(struct sight *w, int moved, int row, const real *y, const real *dx)
{
    struct rig *r = &w->layer.rig;
    const struct attn_site *s = &w->layer.site;
    const size_t D = (size_t)s->D;
    real *x = r->x[0] + (size_t)moved * D, *kept = rig_copy(r, x, D);
    rig_random(x, D, test_text("token %d", moved), 2);
    feed(w);
    rig_run(r);
    for (int t = 0; t < s->B * s->N; t++) {
        const size_t at = (size_t)t * D;
        bool sees = t < s->N && meets(s, moved, t, rows[row].leaks);
        if (sees && (w->x_bf16 || rows[row].may_miss || t == moved))
            continue; /* alone in its region, its gradient stays */
        if (same_bits(r->y + at, y + at, D) == sees)
            test_about("output %d after a change of token %d", t, moved);
        CHECK(same_bits(r->y + at, y + at, D) != sees);
        if (same_bits(r->dx[0] + at, dx + at, D) == sees)
            test_about("input gradient %d after a change of token %d", t, moved);
        CHECK(same_bits(r->dx[0] + at, dx + at, D) != sees);
    }
    memcpy(x, kept, D * sizeof *x);
}

static void check_sight(enum type type)
{
    for (int i = 0; i < ROWS; i++)
        for (int m = 0; m < MAPS; m++) {
            const struct attn_site site = map_site(m);
            struct sight w;
            begin(&w, rows[i].json, &site, type);
            struct rig *r = &w.layer.rig;
            real *y = rig_copy(r, r->y, r->y_count), *dx = rig_copy(r, r->dx[0], r->count[0]);
            for (int t = 0; t < site.N; t++)
                move_token(&w, t, i, y, dx);
            layer_end(&w.layer);
        }
}

TEST(windows__a_token_sees_its_own_region_of_its_window_and_nothing_else)
{
    check_sight(TYPE_REAL);
}

TEST(windows__a_token_sees_nothing_else_in_bf16_either)
{
    check_sight(TYPE_BF16);
}

/* --- every variant of the registry --------------------------------------------------------------
 */

/* However a variant treats regions, a window is all that it can see of the map. */
TEST(every_variant__inside_windows_sees_one_window_of_one_image)
{
    int inside = 0;
    for (int i = 0; attn_kinds(i); i++) {
        const struct attn_variant *v = attn_kinds(i)->impl;
        for (int m = 0; m < MAPS; m++) {
            const struct attn_site site = map_site(m);
            struct sight w;
            struct error error;
            rig_begin(&w.layer.rig, 1, false);
            layer_choose(&w.layer, test_text("\"%s\"", v->name));
            bool works = attn_check(&w.layer.attention, &site, &error) == OK;
            if (v->placement)
                works = works && v->placement(w.layer.attention.options, &site) == ATTN_INNER;
            layer_end(&w.layer);
            if (!works)
                continue;
            begin(&w, test_text("\"%s\"", v->name), &site, TYPE_REAL);
            struct rig *r = &w.layer.rig;
            const size_t D = (size_t)site.D;
            real *y = rig_copy(r, r->y, r->y_count);
            rig_random(r->x[0], D, "the first token", 2);
            rig_run(r);
            for (int t = 0; t < site.B * site.N; t++)
                if (t >= site.N || !meets(&site, 0, t, true))
                    CHECK(same_bits(r->y + (size_t)t * D, y + (size_t)t * D, D));
            layer_end(&w.layer);
            inside++;
        }
    }
    CHECK(inside >= 4 * MAPS);
}

/* --- identities ---------------------------------------------------------------------------------
 */

/* Whether two layers with the same numbers give the same output for the tokens of one region, or of
 * windows with more than one. */
static bool agree(const struct sight *a, const struct sight *b, bool whole)
{
    const struct attn_site *s = &a->layer.site;
    const size_t D = (size_t)s->D;
    for (int t = 0; t < s->N; t++) {
        bool alone = true;
        for (int u = 0; u < s->N; u++)
            alone = alone && meets(s, t, u, true) == meets(s, t, u, false);
        const real *y = a->layer.rig.y + (size_t)t * D, *z = b->layer.rig.y + (size_t)t * D;
        if (alone == whole && rig_distance(y, z, D) > 10 * rig_rounding)
            return false;
    }
    return true;
}

/* wa_mask makes a difference in windows that a border crosses, and in no others. */
TEST(super__masks_its_kernel_only_in_windows_over_a_border)
{
    for (int m = 0; m < MAPS; m++) {
        const struct attn_site site = map_site(m);
        struct sight on, off;
        begin(&on, "{\"name\": \"super\", \"wa_mask\": true}", &site, TYPE_REAL);
        begin(&off, "\"super\"", &site, TYPE_REAL);
        CHECK(agree(&on, &off, true));
        CHECK(agree(&on, &off, false) == (site.shift[0] == 0 && site.shift[1] == 0));
        layer_end(&on.layer);
        layer_end(&off.layer);
    }
}

/* Moving the map by the shift and the windows back gives the same outputs where no border is
 * crossed. */
TEST(windows__a_shift_moves_the_windows_and_nothing_else)
{
    for (int i = 0; i < ROWS; i++) {
        const struct attn_site moved = map_site(0);
        struct attn_site still = moved;
        still.shift[0] = still.shift[1] = 0;
        struct sight a, b;
        begin(&a, rows[i].json, &moved, TYPE_REAL);
        begin(&b, rows[i].json, &still, TYPE_REAL);
        const size_t D = (size_t)moved.D;
        for (int n = 0; n < moved.B * moved.N; n++) { /* b: token (r, c) is a's (r + 2, c + 2) */
            int image = n / moved.N * moved.N, t = n % moved.N;
            int row = (t / moved.grid[1] + moved.shift[0]) % moved.grid[0];
            int column = (t % moved.grid[1] + moved.shift[1]) % moved.grid[1];
            memcpy(b.layer.rig.x[0] + (size_t)n * D,
                   a.layer.rig.x[0] + (size_t)(image + row * moved.grid[1] + column) * D,
                   D * sizeof(real));
        }
        rig_run(&b.layer.rig);
        for (int t = 0; t < moved.N; t++) {
            int row = t / moved.grid[1], column = t % moved.grid[1];
            if (row + moved.window[0] >= moved.grid[0] || column + moved.window[1] >= moved.grid[1])
                continue; /* of b: the last row and column of windows */
            int of_a = (row + moved.shift[0]) * moved.grid[1] + column + moved.shift[1];
            CHECK_NEAR(
                rig_distance(b.layer.rig.y + (size_t)t * D, a.layer.rig.y + (size_t)of_a * D, D), 0,
                10 * rig_rounding);
        }
        layer_end(&a.layer);
        layer_end(&b.layer);
    }
}
