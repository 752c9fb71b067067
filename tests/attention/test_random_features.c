/* test_random_features.c - the random matrix, and how near features of it come to softmax attention. */
#include <math.h>

#include "layer.h"

static double dot(const real *a, const real *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void begin(struct layer *l, const char *options, int D, int H)
{
    layer_begin(l, test_text("{\"name\": \"performer\", %s}", options), layer_site(1, 3, D, H));
}

static void draw(struct layer *l, uint64_t seed)
{
    struct error error;
    CHECK_OK(param_initialize(params_find(&l->rig.params, "attn.omega"), seed, &error), error);
}

TEST(omega__has_orthogonal_rows_in_each_block) /* T-PERF-3 */
{
    enum { m = 70, d = 32 };
    struct layer l;
    begin(&l, "\"m\": 70", 64, 2);
    draw(&l, 1);
    const real *omega = layer_value(&l, "omega");
    double across = 0, length = 0;
    for (int h = 0; h < 2; h++) {
        for (int i = 0; i < m; i++) {
            const real *a = omega + (h * m + i) * d;
            length += dot(a, a, d) / (2 * m * d);
            for (int j = 0; j < i; j++) {
                const real *b = omega + (h * m + j) * d;
                double cosine = dot(a, b, d) / sqrt(dot(a, a, d) * dot(b, b, d));
                if (i / d == j / d)
                    CHECK_NEAR(cosine, 0, 1e-5);
                across = fmax(across, fabs(cosine));
            }
        }
    }
    CHECK(across > 0.1);          /* blocks do not know each other */
    CHECK_NEAR(length, 1, 0.1);   /* 140 times chi squared of 32 degrees over 32: +- 0.02 */
    CHECK(fabs(dot(omega, omega, d) - d) > 1e-3);
    layer_end(&l);
}

TEST(omega__has_diagonals_without_a_sign) /* T-PERF-3: -0.1 where those of a factorisation stay */
{
    enum { d = 32, draws = 400 };
    double sum = 0;
    struct layer l;
    begin(&l, "\"m\": 32, \"scaling\": true", d, 1);
    for (int k = 0; k < draws; k++) {
        draw(&l, (uint64_t)k);
        const real *omega = layer_value(&l, "omega");
        for (int i = 0; i < d; i++)
            sum += (double)omega[i * d + i] / sqrt(d);
        CHECK_NEAR(dot(omega, omega, d), d, 1e-4 * d);
    }
    CHECK_NEAR(sum / (draws * d), 0, 0.02);
    layer_end(&l);
}

TEST(omega__is_normal_without_blocks)
{
    enum { m = 64, d = 8 };
    struct layer l;
    begin(&l, "\"m\": 64, \"orthogonal\": false", d, 1);
    draw(&l, 1);
    const real *omega = layer_value(&l, "omega");
    double most = 0;
    for (int i = 1; i < d; i++)
        most = fmax(most, fabs(dot(omega, omega + i * d, d)));
    CHECK(most > 1);
    CHECK_NEAR(dot(omega, omega, m * d) / (m * d), 1, 0.3);
    layer_end(&l);
}

/* Relative distance of an attention's output from that of softmax attention with the same maps. */
static double error_of(const char *json, uint64_t seed)
{
    const struct attn_site site = layer_site(1, 64, 32, 1);
    struct layer soft, l;
    layer_begin(&soft, "\"standard\"", site);
    layer_begin(&l, json, site);
    layer_identity(layer_value(&soft, "proj.weight"), 32);
    for (int i = 0; i < 3; i++)
        layer_identity(layer_value(&soft, "qkv.weight") + i * 32 * 32, 32);
    for (int i = 0; i < 2 * 32 * 32; i++)
        layer_value(&soft, "qkv.weight")[i] *= (real)0.25; /* queries and keys of deviation 0.25 */
    memset(layer_value(&soft, "qkv.bias"), 0, 3 * 32 * sizeof(real));
    memset(layer_value(&soft, "proj.bias"), 0, 32 * sizeof(real));
    layer_copy_rows(&l, "qkv.weight", 0, &soft, "qkv.weight", 0, 3 * 32);
    layer_copy_rows(&l, "qkv.bias", 0, &soft, "qkv.bias", 0, 3 * 32);
    layer_copy_rows(&l, "proj.weight", 0, &soft, "proj.weight", 0, 32);
    layer_copy_rows(&l, "proj.bias", 0, &soft, "proj.bias", 0, 32);
    draw(&l, seed);
    rig_random(soft.rig.x[0], 64 * 32, "x", 1);
    memcpy(l.rig.x[0], soft.rig.x[0], 64 * 32 * sizeof(real));
    rig_run(&soft.rig);
    rig_run(&l.rig);
    double error = rig_distance(l.rig.y, soft.rig.y, soft.rig.y_count) /
                   rig_norm(soft.rig.y, soft.rig.y_count);
    layer_end(&soft);
    layer_end(&l);
    return error;
}

static double mean_error(int m)
{
    double sum = 0;
    const char *json = test_text("{\"name\": \"performer\", \"eps\": 0, \"m\": %d}", m);
    for (int k = 0; k < 8; k++)
        sum += error_of(json, (uint64_t)k) / 8;
    return sum;
}

TEST(performer__comes_nearer_to_softmax_with_more_features) /* T-PERF-1 */
{
    double some = mean_error(128), more = mean_error(2048);
    test_about("errors %g, %g", some, more);
    CHECK(some < 0.10 && more < 0.03);
    CHECK(some > 2 * more);
}

static void renew(struct layer *l, uint64_t seed, long long update)
{
    struct error error;
    CHECK_OK(params_renew(&l->rig.params, seed, update, &error), error);
}

TEST(omega__is_drawn_again_after_each_interval)
{
    enum { count = 2 * 6 * 4 };
    real drawn[3][count];
    struct layer l, other;
    begin(&l, "\"m\": 6, \"redraw\": 3", 8, 2);
    begin(&other, "\"m\": 6, \"redraw\": 0", 8, 2);
    draw(&l, 5);
    draw(&other, 5);
    const real *omega = layer_value(&l, "omega"), weight = *layer_value(&l, "qkv.weight");
    for (int update = 0; update < 9; update++) {
        renew(&l, 5, update);
        renew(&other, 5, update);
        if (update % 3 == 0)
            memcpy(drawn[update / 3], omega, sizeof drawn[0]);
        CHECK(memcmp(omega, drawn[update / 3], sizeof drawn[0]) == 0);
        CHECK(memcmp(layer_value(&other, "omega"), drawn[0], sizeof drawn[0]) == 0);
    }
    CHECK(rig_distance(drawn[0], drawn[1], count) > 1);
    CHECK(rig_distance(drawn[0], drawn[2], count) > 1);
    CHECK(rig_distance(drawn[1], drawn[2], count) > 1);
    renew(&l, 5, 3); /* whatever was before */
    CHECK(memcmp(omega, drawn[1], sizeof drawn[1]) == 0);
    renew(&l, 6, 3);
    CHECK(rig_distance(drawn[1], omega, count) > 1);
    CHECK(*layer_value(&l, "qkv.weight") == weight);
    layer_end(&l);
    layer_end(&other);
}
