/* test_mixers.c - what token mixers refuse, how they start, and what becomes of an image that is
 * turned by half a turn. */
#include "layer.h"

/* In the middle of three blocks. */
static struct attn_site map_site(int prefix)
{
    struct attn_site s = layer_map(4, 6, prefix);
    s.block = 1;
    s.blocks = 3;
    return s;
}

TEST(mixers__refuse_a_class_token_without_rule)
{
    layer_check_refused("\"identity\"", map_site(1),
                        "name: identity has no rule for a class token");
    layer_check_refused("\"pool\"", map_site(1), "name: pool has no rule for a class token");
    layer_check_refused("\"sepconv\"", map_site(1), "\"pool\": \"mean\"");
}

TEST(mixers__refuse_squares_without_a_middle)
{
    layer_check_refused("{\"name\": \"pool\", \"size\": 4}", map_site(0),
                        "size: 4 has no middle (3 and 5 have one)");
    layer_check_refused("{\"name\": \"sepconv\", \"kernel\": 2}", map_site(0),
                        "kernel: 2 has no middle");
    layer_check_refused("{\"name\": \"pool\", \"size\": 1}", map_site(0),
                        "size: 1 patch sees itself alone");
}

TEST(identity__gives_its_input)
{
    struct layer l;
    layer_begin(&l, "\"identity\"", map_site(0));
    rig_run(&l.rig);
    CHECK_NEAR(rig_distance(l.rig.y, l.rig.x[0], l.rig.y_count), 0, 0);
    CHECK_NEAR(rig_distance(l.rig.dx[0], l.rig.dy, l.rig.y_count), 0, 0);
    layer_end(&l);
}

TEST(pool__of_equal_patches_is_zero)
{
    struct layer l;
    layer_begin(&l, "{\"name\": \"pool\", \"size\": 5}", map_site(0));
    for (size_t i = 0; i < l.rig.count[0]; i++)
        l.rig.x[0][i] = (real)(i % 12);
    rig_run(&l.rig);
    CHECK_NEAR(rig_norm(l.rig.y, l.rig.y_count), 0, 100 * rig_rounding);
    layer_end(&l);
}

/* --- half a turn: patches in the opposite order -------------------------------------------------
 */

static int turned_token(const struct attn_site *s, int t)
{
    return t < s->prefix ? t : s->N - 1 - (t - s->prefix);
}

static void turn(real *to, const real *from, const struct attn_site *s)
{
    for (int i = 0; i < s->B * s->N; i++) {
        int source = i / s->N * s->N + turned_token(s, i % s->N);
        memcpy(to + (size_t)i * (size_t)s->D, from + (size_t)source * (size_t)s->D,
               (size_t)s->D * sizeof *to);
    }
}

static void check_turned(struct layer *a, struct layer *b, const struct attn_site *s)
{
    turn(b->rig.x[0], a->rig.x[0], s);
    turn(b->rig.dy, a->rig.dy, s);
    rig_run(&a->rig);
    rig_run(&b->rig);
    real *y = rig_copy(&a->rig, a->rig.y, a->rig.y_count);
    real *dx = rig_copy(&a->rig, a->rig.dx[0], a->rig.count[0]);
    turn(y, b->rig.y, s);
    turn(dx, b->rig.dx[0], s);
    CHECK_NEAR(rig_distance(y, a->rig.y, a->rig.y_count), 0, 10 * rig_rounding);
    CHECK_NEAR(rig_distance(dx, a->rig.dx[0], a->rig.count[0]), 0, 10 * rig_rounding);
}

TEST(vim__with_its_directions_exchanged_sees_the_turned_image)
{
    static const char *const one[] = {"conv1d.weight",
                                      "conv1d.bias",
                                      "x_proj.weight",
                                      "dt_proj.weight",
                                      "dt_proj.bias",
                                      "A_log",
                                      "D"};
    static const char *const other[] = {"conv1d_b.weight",
                                        "conv1d_b.bias",
                                        "x_proj_b.weight",
                                        "dt_proj_b.weight",
                                        "dt_proj_b.bias",
                                        "A_b_log",
                                        "D_b"};
    for (int prefix = 0; prefix < 2; prefix++) {
        struct layer a, b;
        const struct attn_site site = map_site(prefix);
        test_about("prefix %d", prefix);
        layer_begin(&a, "{\"name\": \"vim\", \"state\": 3}", site);
        layer_begin(&b, "{\"name\": \"vim\", \"state\": 3}", site);
        for (int i = 0; i < 7; i++) {
            size_t bytes = layer_count(&a, one[i]) * sizeof(real);
            memcpy(layer_value(&b, one[i]), layer_value(&a, other[i]), bytes);
            memcpy(layer_value(&b, other[i]), layer_value(&a, one[i]), bytes);
        }
        check_turned(&a, &b, &site);
        layer_end(&a);
        layer_end(&b);
    }
}

TEST(vrwkv__without_shift_sees_no_difference_in_the_turned_image)
{
    struct layer a, b;
    const struct attn_site site = map_site(0);
    layer_begin(&a, "{\"name\": \"vrwkv\", \"shift\": 0}", site);
    layer_begin(&b, "{\"name\": \"vrwkv\", \"shift\": 0}", site);
    check_turned(&a, &b, &site);
    layer_end(&a);
    layer_end(&b);
}

/* --- initial values -----------------------------------------------------------------------------
 */

static void begin_fresh(struct layer *l, const char *json)
{
    struct error error;
    layer_begin(l, json, map_site(0));
    for (int i = 0; i < l->rig.params.count; i++)
        CHECK_OK(param_initialize(l->rig.params.list[i], 7, &error), error);
}

TEST(vim__starts_alike_in_both_directions)
{
    static const char *const logs[] = {"A_log", "A_b_log"};
    static const char *const biases[] = {"dt_proj.bias", "dt_proj_b.bias"};
    struct layer l;
    begin_fresh(&l, "{\"name\": \"vim\", \"state\": 5}");
    for (int i = 0; i < 2; i++) {
        CHECK_INT((int)layer_count(&l, logs[i]), 24 * 5);
        for (int k = 0; k < 24 * 5; k++)
            CHECK_NEAR(layer_value(&l, logs[i])[k], log(k % 5 + 1), 1e-6);
        for (int k = 0; k < 24; k++) {
            double dt = log1p(exp((double)layer_value(&l, biases[i])[k]));
            CHECK(dt > 0.9999e-3 && dt < 0.1001);
        }
    }
    layer_end(&l);
}

TEST(vrwkv__starts_by_block_and_channel) /* block 1 of 3 */
{
    struct layer l;
    begin_fresh(&l, "\"vrwkv\"");
    for (int c = 0; c < 12; c++) {
        double share = c / 12.0;
        CHECK_NEAR(layer_value(&l, "decay")[c], -5 + 8 * pow(c / 11.0, 0.7 + 1.3 / 2), 1e-5);
        CHECK_NEAR(layer_value(&l, "first")[c], log(0.3) + 0.5 * ((c + 1) % 3 - 1), 1e-5);
        CHECK_NEAR(layer_value(&l, "mix_k")[c], pow(share, 2 / 3.0), 1e-5);
        CHECK_NEAR(layer_value(&l, "mix_v")[c], pow(share, 2 / 3.0) + 0.15, 1e-5);
        CHECK_NEAR(layer_value(&l, "mix_r")[c], pow(share, 1 / 3.0), 1e-5);
    }
    layer_end(&l);
}
