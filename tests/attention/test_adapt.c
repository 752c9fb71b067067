/* test_adapt.c - layers that start from a trained softmax layer: how far their outputs are from it. */
#include "attention/adapt.h"

#include <math.h>
#include <string.h>

#include "layer.h"

enum { MAX_TENSORS = 32 };

static struct attn_site map_site(int H, int prefix)
{
    return (struct attn_site){.B = 2,
                              .N = prefix + 64,
                              .D = 32,
                              .H = H,
                              .grid = {8, 8},
                              .prefix = prefix,
                              .blocks = 1,
                              .qkv_bias = true,
                              .proj_bias = true};
}

struct tensors {
    struct adapt_layer layer;
    struct adapt_tensor list[MAX_TENSORS];
};

static void tensors_of(struct tensors *t, const struct layer *l)
{
    memset(t, 0, sizeof *t);
    t->layer = (struct adapt_layer){.attention = &l->attention, .site = l->site, .list = t->list};
    CHECK(l->rig.params.count <= MAX_TENSORS);
    for (int i = 0; i < l->rig.params.count; i++) {
        const struct param *p = l->rig.params.list[i];
        t->list[t->layer.count++] = (struct adapt_tensor){
            .name = p->name + strlen("attn."), .shape = p->shape, .value = p->value};
    }
}

/* A layer with initial values. */
static void begin_fresh(struct layer *l, const char *json, struct attn_site site)
{
    layer_begin(l, json, site);
    for (int i = 0; i < l->rig.params.count; i++)
        CHECK_OK(param_initialize(l->rig.params.list[i], 3, &l->rig.error), l->rig.error);
}

/* A layer whose queries and keys have entries of about `size`, and values and outputs of about 1. */
static void begin_trained(struct layer *l, const char *json, struct attn_site site, double size)
{
    layer_begin(l, json, site);
    for (int i = 0; i < l->rig.params.count; i++) {
        struct param *p = l->rig.params.list[i];
        bool bias = p->shape.rank == 1, map = strstr(p->name, ".q") != NULL;
        double bound = bias ? 0.1 : 3 / sqrt(site.D);
        rig_random(p->value, p->count, p->name, bound);
        for (int k = 0; k < (map ? 2 * site.D * (bias ? 1 : site.D) : 0); k++)
            p->value[k] *= (real)size;
    }
}

/* Smooth in both directions, as maps of images are, and some noise. */
static void fill_input(struct layer *l)
{
    const struct attn_site *s = &l->site;
    real *x = l->rig.x[0];
    for (int i = 0; i < s->B * s->N * s->D; i++) {
        int c = i % s->D, token = i / s->D % s->N - s->prefix, b = i / s->D / s->N;
        double row = token / s->grid[1], column = token % s->grid[1];
        x[i] = (real)(0.2 * (double)x[i] + sin(row * (1 + c % 3) / 4 + c + b) +
                      cos(column * (1 + c % 5) / 4 + 2 * c));
    }
}

/* Two layers at one site, the second one filled from the first. */
struct pair {
    struct layer from, to;
    struct tensors old, new;
};

static void convert(struct pair *p, const char *json)
{
    begin_fresh(&p->to, json, p->from.site);
    tensors_of(&p->old, &p->from);
    tensors_of(&p->new, &p->to);
    CHECK_OK(attn_adapt(&p->new.layer, &p->old.layer, &p->to.rig.error), p->to.rig.error);
    fill_input(&p->from);
    fill_input(&p->to);
}

static void begin_pair(struct pair *p, const char *json, const char *from, struct attn_site site,
                       double size)
{
    begin_trained(&p->from, from, site, size);
    convert(p, json);
}

static void end_pair(struct pair *p)
{
    layer_end(&p->from);
    layer_end(&p->to);
}

/* Of the outputs, relative. */
static double pair_error(struct pair *p)
{
    rig_run(&p->from.rig);
    rig_run(&p->to.rig);
    CHECK(rig_norm(p->from.rig.y, p->from.rig.y_count) > 0.1);
    return rig_distance(p->to.rig.y, p->from.rig.y, p->from.rig.y_count);
}

static double conversion_error(const char *json, const char *from, struct attn_site site, double size)
{
    struct pair p;
    begin_pair(&p, json, from, site, size);
    double error = pair_error(&p);
    test_about("%s from %s, queries of %g: error %.4f", json, from, size, error);
    end_pair(&p);
    return error;
}

/* --- how close ---------------------------------------------------------------------------------- */

static const double sizes[] = {0.25, 0.5, 1};

/* Bounds for queries and keys of these sizes, without and with a class token. */
struct bound {
    const char *json;
    double error[2][3];
};

static void check_bounds(const struct bound *bounds, int count)
{
    for (int i = 0; i < count; i++)
        for (int prefix = 0; prefix < 2; prefix++)
            for (int k = 0; k < 3; k++)
                CHECK(conversion_error(bounds[i].json, "\"standard\"", map_site(2, prefix), sizes[k]) <
                      bounds[i].error[prefix][k]);
}

#define CHECK_BOUNDS(list) check_bounds(list, (int)(sizeof list / sizeof *list))

TEST(eva__with_means_and_mass_bias_is_close_to_softmax)
{
    static const struct bound bounds[] = {
        {"{\"name\": \"eva\", \"param\": \"mean\", \"mass_bias\": true}",
         {{0.26, 0.24, 0.26}, {0.26, 0.23, 0.23}}},
        {"{\"name\": \"flasheva\", \"param\": \"mean\", \"mass_bias\": true}",
         {{0.26, 0.24, 0.26}, {0.26, 0.23, 0.23}}},
        {"{\"name\": \"flasheva\", \"param\": \"no_ln\", \"mass_bias\": true}",
         {{0.26, 0.24, 0.26}, {0.26, 0.23, 0.23}}},
        {"{\"name\": \"flasheva\", \"param\": \"mean\", \"mass_bias\": true, \"visibility\": "
         "\"remainder\"}",
         {{0.03, 0.09, 0.23}, {0.03, 0.08, 0.2}}},
        {"\"eva\"", {{0.65, 0.55, 0.55}, {0.65, 0.55, 0.55}}},
    };
    CHECK_BOUNDS(bounds);
}

/* A group without its mass counts as one key. */
TEST(eva__without_mass_bias_is_farther)
{
    const char *with = "{\"name\": \"eva\", \"param\": \"mean\", \"mass_bias\": true}";
    const char *without = "{\"name\": \"eva\", \"param\": \"mean\"}";
    for (int k = 0; k < 2; k++)
        CHECK(conversion_error(with, "\"standard\"", map_site(2, 0), sizes[k]) <
              conversion_error(without, "\"standard\"", map_site(2, 0), sizes[k]) / 2);
}

TEST(linformer__is_close_and_closer_with_more_rows)
{
    static const struct bound bounds[] = {
        {"\"linformer\"", {{0.03, 0.09, 0.2}, {0.18, 0.18, 0.23}}},
        {"{\"name\": \"linformer\", \"sharing\": \"none\"}", {{0.03, 0.09, 0.2}, {0.18, 0.18, 0.23}}},
        {"{\"name\": \"linformer\", \"sharing\": \"layer\"}",
         {{0.03, 0.09, 0.2}, {0.18, 0.18, 0.23}}},
        {"{\"name\": \"linformer\", \"k\": 32}", {{0.03, 0.07, 0.18}, {0.08, 0.1, 0.2}}},
    };
    double last = 1;
    CHECK_BOUNDS(bounds);
    for (int rows = 4; rows <= 64; rows *= 4) {
        const char *json = test_text("{\"name\": \"linformer\", \"k\": %d}", rows);
        double error = conversion_error(json, "\"standard\"", map_site(2, 0), 0.5);
        CHECK(error < last);
        last = error;
    }
    CHECK(last < rig_rounding);
}

TEST(hedgehog__is_close_and_closer_than_with_the_identity)
{
    static const struct bound bounds[] = {
        {"\"hedgehog\"", {{0.05, 0.29, 0.62}, {0.05, 0.29, 0.62}}},
        {"{\"name\": \"hedgehog\", \"form\": \"joint\"}", {{0.05, 0.29, 0.65}, {0.05, 0.29, 0.65}}},
        {"{\"name\": \"hedgehog\", \"form\": \"exp\"}", {{0.15, 0.35, 0.64}, {0.15, 0.35, 0.64}}},
        {"{\"name\": \"hedgehog\", \"init\": \"zeros\"}", {{0.05, 0.29, 0.62}, {0.05, 0.29, 0.62}}},
        {"{\"name\": \"hedgehog\", \"init\": \"kaiming\", \"tie\": true}",
         {{0.05, 0.29, 0.62}, {0.05, 0.29, 0.62}}},
    };
    CHECK_BOUNDS(bounds);
    for (int k = 0; k < 2; k++) {
        struct pair p;
        begin_pair(&p, "\"hedgehog\"", "\"standard\"", map_site(2, 0), sizes[k]);
        double error = pair_error(&p);
        for (int i = 0; i < 2; i++)
            for (int head = 0; head < 2; head++)
                layer_identity(layer_value(&p.to, i ? "k_map.weight" : "q_map.weight") + head * 256,
                               16);
        CHECK(pair_error(&p) > 1.1 * error);
        end_pair(&p);
    }
}

/* Of m features drawn with eight seeds, on average. */
static double mean_error(int m)
{
    double sum = 0;
    const char *json = test_text("{\"name\": \"performer\", \"m\": %d}", m);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct pair p;
        struct error error;
        begin_pair(&p, json, "\"standard\"", map_site(2, 0), 0.25);
        CHECK_OK(param_initialize(rig_param(&p.to.rig, "attn.omega"), seed, &error), error);
        sum += pair_error(&p);
        end_pair(&p);
    }
    test_about("m %d: mean error %.4f", m, sum / 8);
    return sum / 8;
}

TEST(performer__is_closer_with_more_features)
{
    double last = 1;
    for (int m = 16; m <= 1024; m *= 4) {
        double error = mean_error(m);
        CHECK(error < last);
        last = error;
    }
    CHECK(last < 0.05);
}

/* The paper starts without the linear term of the expansion. */
TEST(qt__is_closer_with_its_linear_term)
{
    for (int k = 0; k < 2; k++) {
        struct pair p;
        begin_pair(&p, "\"qt\"", "\"standard\"", map_site(2, 0), sizes[k]);
        double error = pair_error(&p);
        test_about("error %.4f", error);
        CHECK(error < (k ? 0.6 : 0.2));
        layer_value(&p.to, "beta")[0] = 0;
        CHECK(pair_error(&p) > 1.1 * error);
        end_pair(&p);
    }
}

/* --- exactly ------------------------------------------------------------------------------------ */

TEST(one_head__gives_its_projections_to_those_that_are_left)
{
    static const char *const list[] = {
        "\"optimized\"", "\"efficient\"", "\"super\"",
        "{\"name\": \"super\", \"base\": \"optimized\", \"wa_bias\": true}",
        "{\"name\": \"super\", \"base\": \"standard\", \"wa_share\": false}",
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        CHECK(conversion_error(list[i], "\"standard\"", map_site(1, 1), 1) < 10 * rig_rounding);
    CHECK(conversion_error("\"efficient\"", "\"optimized\"", map_site(1, 1), 1) < 10 * rig_rounding);
}

/* Makes the second of two heads ask and answer as the first does. */
static void weigh_alike(struct layer *l)
{
    size_t D = (size_t)l->site.D, d = D / 2;
    real *weight = layer_value(l, "qkv.weight"), *bias = layer_value(l, "qkv.bias");
    for (size_t map = 0; map < 2; map++) {
        memcpy(weight + (map * D + d) * D, weight + map * D * D, d * D * sizeof *weight);
        memcpy(bias + map * D + d, bias + map * D, d * sizeof *bias);
    }
}

/* Leaves keys and values of each of two heads the columns of that head alone. */
static void keep_apart(struct layer *l)
{
    size_t D = (size_t)l->site.D, d = D / 2;
    real *weight = layer_value(l, "qkv.weight");
    for (size_t row = D; row < 3 * D; row++)
        for (size_t column = 0; column < D; column++)
            if (row % D / d != column / d)
                weight[row * D + column] = 0;
}

TEST(heads__give_their_projections_to_those_that_are_left_where_these_can_stand_for_them)
{
    static const struct {
        const char *json;
        void (*make)(struct layer *l);
    } list[] = {
        {"\"optimized\"", weigh_alike}, {"\"optimized\"", keep_apart}, {"\"efficient\"", keep_apart},
        {"\"super\"", keep_apart}, {"{\"name\": \"super\", \"base\": \"optimized\"}", weigh_alike},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct pair p;
        begin_trained(&p.from, "\"standard\"", map_site(2, 1), 1);
        list[i].make(&p.from);
        convert(&p, list[i].json);
        double error = pair_error(&p);
        test_about("%s, %d: error %.4g", list[i].json, (int)i, error);
        CHECK(error < 10 * rig_rounding);
        end_pair(&p);
    }
}

/* Elsewhere they stay near, the nearer the more the heads weigh alike. */
TEST(heads__give_what_is_near_elsewhere)
{
    static const struct {
        const char *json;
        double bounds[3]; /* for the sizes */
    } list[] = {{"\"optimized\"", {0.16, 0.45, 0.75}}, {"\"efficient\"", {0.18, 0.52, 0.85}}};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++)
            CHECK(conversion_error(list[i].json, "\"standard\"", map_site(2, 0), sizes[k]) <
                  list[i].bounds[k]);
}

/* What has no projection of keys or values has the tokens themselves. */
TEST(missing_projections__become_the_identity)
{
    static const char *const list[][2] = {
        {"\"standard\"", "\"optimized\""},
        {"\"standard\"", "\"efficient\""},
        {"\"optimized\"", "\"efficient\""},
        {"\"super\"", "\"efficient\""},
        {"{\"name\": \"super\", \"base\": \"standard\"}", "\"efficient\""},
        {"{\"name\": \"local\", \"window\": 8}", "\"efficient\""},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (int H = 1; H < 3; H++)
            CHECK(conversion_error(list[i][0], list[i][1], map_site(H, 1), 1) < rig_rounding);
}

TEST(what_sees_and_projects_everything__is_softmax_attention)
{
    static const char *const list[] = {
        "{\"name\": \"local\", \"window\": 8}",
        "{\"name\": \"na\", \"kernel\": 9}",
        "{\"name\": \"na\", \"kernel\": 15, \"edge\": \"clip\"}",
        "{\"name\": \"longformer\", \"window\": 64}",
        "{\"name\": \"longformer\", \"window\": 64, \"shared\": false}",
        "{\"name\": \"eva\", \"window\": 8, \"visibility\": \"disjoint\"}",
        "{\"name\": \"super\", \"base\": \"standard\"}",
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        CHECK(conversion_error(list[i], "\"standard\"", map_site(2, 1), 1) < rig_rounding);
}

/* --- tables ------------------------------------------------------------------------------------- */

static real table_value(const struct layer *l, int reach, int dy, int dx, int head)
{
    int row = (dy + reach - 1) * (2 * reach - 1) + dx + reach - 1;
    return layer_value(l, "relative_position_bias_table")[row * l->site.H + head];
}

static struct attn_site windowed_site(void)
{
    struct attn_site s = map_site(2, 0);
    for (int axis = 0; axis < 2; axis++) {
        s.window[axis] = 4;
        s.shift[axis] = 2;
    }
    return s;
}

TEST(tables__are_taken_over_offset_by_offset)
{
    static const struct {
        const char *json;
        int reach, sign;
    } rows[] = {
        {"{\"name\": \"na\", \"kernel\": 3}", 3, -1},
        {"{\"name\": \"local\", \"window\": 2}", 2, 1},
        {"{\"name\": \"local\", \"window\": 2, \"overlap\": true}", 3, 1},
        {"\"eva\"", 4, 1},
        {"\"super\"", 4, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pair p;
        int reach = rows[i].reach;
        test_about("%s", rows[i].json);
        begin_pair(&p, rows[i].json, "\"standard\"", windowed_site(), 1);
        for (int at = 0; at < (2 * reach - 1) * (2 * reach - 1); at++) {
            int dy = at / (2 * reach - 1) - reach + 1, dx = at % (2 * reach - 1) - reach + 1;
            for (int head = 0; head < 2; head++)
                CHECK_NEAR(table_value(&p.to, reach, dy, dx, head),
                           table_value(&p.from, 4, rows[i].sign * dy, rows[i].sign * dx, head), 0);
        }
        end_pair(&p);
    }
}

TEST(tables__are_zero_where_the_old_layer_has_no_number)
{
    struct pair p;
    begin_pair(&p, "\"local\"", "{\"name\": \"local\", \"window\": 2}", map_site(2, 0), 1);
    for (int dy = -3; dy < 4; dy++)
        for (int dx = -3; dx < 4; dx++) {
            bool has = dy > -2 && dy < 2 && dx > -2 && dx < 2;
            real want = has ? table_value(&p.from, 2, dy, dx, 1) : 0;
            CHECK_NEAR(table_value(&p.to, 4, dy, dx, 1), want, 0);
        }
    end_pair(&p);
    begin_pair(&p, "\"na\"", "\"standard\"", map_site(2, 0), 1);
    CHECK_NEAR(rig_norm(layer_value(&p.to, "relative_position_bias_table"), 13 * 13 * 2), 0, 0);
    end_pair(&p);
}

/* --- what is said ------------------------------------------------------------------------------- */

static const struct adapt_tensor *named(const struct tensors *t, const char *name)
{
    const struct adapt_tensor *found = adapt_find(&t->layer, name);
    test_about("%s", name);
    CHECK(found != NULL);
    return found;
}

TEST(every_tensor__is_told_with_its_origin)
{
    struct pair p;
    begin_pair(&p, "\"optimized\"", "\"standard\"", map_site(2, 0), 1);
    CHECK_STR(named(&p.new, "qk.weight")->how, "q of qkv.weight, k of qkv.weight");
    CHECK(named(&p.new, "qk.weight")->loaded && named(&p.new, "qk.bias")->loaded);
    CHECK_INT((int)named(&p.old, "qkv.weight")->used, 7);
    CHECK_INT(named(&p.old, "qkv.weight")->parts, 3);
    CHECK_STR(named(&p.new, "proj.weight")->how, "times W_v");
    end_pair(&p);
    begin_pair(&p, "\"efficient\"", "\"standard\"", map_site(2, 0), 1);
    CHECK_STR(named(&p.new, "q.weight")->how,
              "q of qkv.weight, times its columns' part of W_k^T");
    end_pair(&p);
    begin_pair(&p, "\"standard\"", "\"efficient\"", map_site(2, 0), 1);
    CHECK_STR(named(&p.new, "qkv.weight")->how, "q of q.weight, k the identity, v the identity");
    CHECK_STR(named(&p.new, "qkv.bias")->how, "q of q.bias, k 0, v 0");
    end_pair(&p);
    begin_pair(&p, "\"hedgehog\"", "\"standard\"", map_site(2, 0), 1);
    CHECK(!named(&p.new, "q_map.weight")->loaded);
    CHECK_STR(named(&p.new, "q_map.weight")->how, "2 times the identity");
    CHECK_INT((int)named(&p.old, "qkv.bias")->used, 7);
    end_pair(&p);
}
