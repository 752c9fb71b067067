#include <string.h>

#include "kernels/kernels.h"
#include "study/bench.h"
#include "test.h"

static const char config[] =
    "{\"data\": {\"format\": \"synthetic\"},"
    " \"model\": {\"name\": \"vit\", \"image_size\": 8, \"channels\": 1, \"classes\": 3,"
    "  \"patch_size\": 4, \"dim\": 8, \"depth\": 2, \"heads\": 2, \"mlp_ratio\": 2},"
    " \"train\": {\"batch_size\": 4}}";

/* Measures the model above, briefly. */
static struct bench bench_of(enum network_mode mode, bool profile)
{
    struct error err;
    struct experiment x;
    struct bench b;
    const struct bench_options options = {
        .mode = mode, .batch = 4, .threads = 2, .seconds = 0.02, .profile = profile};
    CHECK_OK(kernels_init(&err), err);
    CHECK_OK(experiment_parse(&x, config, "test", &err), err);
    CHECK_OK(bench_run(&b, &x, &options, &err), err);
    experiment_free(&x);
    return b;
}

static void check_order(const struct bench *b)
{
    CHECK(b->steps >= 3);
    CHECK(b->step.best > 0);
    CHECK(b->step.best <= b->step.p10);
    CHECK(b->step.p10 <= b->step.median);
    CHECK(b->step.median <= b->step.p90);
}

TEST(bench_run__counts_six_times_the_macs_in_training)
{
    struct bench b = bench_of(NETWORK_TRAIN, false);
    check_order(&b);
    CHECK(b.macs > 0);
    CHECK_NEAR(b.flops, 6 * 4 * b.macs, 0);
    CHECK(b.lanes >= 1);
    CHECK(b.peak_rss_bytes > 0);
    CHECK(b.block_bytes > 0);
    CHECK(!b.ops);
    bench_free(&b);
}

TEST(bench_run__counts_twice_the_macs_in_inference)
{
    struct bench b = bench_of(NETWORK_INFER, false);
    check_order(&b);
    CHECK_NEAR(b.flops, 2 * 4 * b.macs, 0);
    CHECK_INT(b.lanes, 0);
    bench_free(&b);
}

static const struct bench_op *find_op(const struct bench *b, const char *name)
{
    for (int i = 0; i < b->op_count; i++)
        if (strcmp(b->ops[i].name, name) == 0)
            return &b->ops[i];
    return NULL;
}

TEST(bench_run__profile_holds_all_flops_and_all_time)
{
    struct bench b = bench_of(NETWORK_TRAIN, true);
    double flops = 0, seconds = b.update_seconds + b.rest_seconds;
    for (int i = 0; i < b.op_count; i++) {
        for (enum pass pass = PASS_FORWARD; pass < PASSES; pass++) {
            CHECK(b.ops[i].seconds[pass] >= 0);
            flops += b.ops[i].flops[pass];
            seconds += b.ops[i].seconds[pass];
        }
    }
    CHECK_NEAR(flops / b.flops, 1, 1e-9);
    CHECK_NEAR(seconds / b.step.mean, 1, 1e-9);
    CHECK(b.update_seconds > 0);

    const struct bench_op *sdpa = find_op(&b, "sdpa");
    CHECK(sdpa);
    CHECK_INT(b.mixing.nodes, 2); /* nothing but sdpa is in the mixers beside linear layers */
    CHECK_NEAR(b.mixing.flops[PASS_FORWARD], sdpa->flops[PASS_FORWARD], 0);
    CHECK_NEAR(b.mixing.seconds[PASS_BACKWARD], sdpa->seconds[PASS_BACKWARD], 0);
    CHECK_INT(sdpa->nodes, 2);
    CHECK(sdpa->seconds[PASS_FORWARD] > 0);
    CHECK(sdpa->seconds[PASS_BACKWARD] > 0);
    /* In both blocks q, k, v and y of (4 images, 5 tokens, 8 columns), and one sum for each head:
     * each once forward; backward also dy, dq, dk, dv. */
    double tokens = 4 * 5, tensor = tokens * 8, sums = tokens * 2;
    CHECK_NEAR(sdpa->bytes[PASS_FORWARD], 2 * (4 * tensor + sums) * sizeof(real), 0);
    CHECK_NEAR(sdpa->bytes[PASS_BACKWARD], 2 * (8 * tensor + sums) * sizeof(real), 0);
    bench_free(&b);
}

TEST(bench_run__profile_of_inference_has_no_backward)
{
    struct bench b = bench_of(NETWORK_INFER, true);
    for (int i = 0; i < b.op_count; i++) {
        CHECK_NEAR(b.ops[i].seconds[PASS_BACKWARD], 0, 0);
        CHECK_NEAR(b.ops[i].flops[PASS_BACKWARD], 0, 0);
        CHECK_NEAR(b.ops[i].bytes[PASS_BACKWARD], 0, 0);
    }
    CHECK_NEAR(b.update_seconds, 0, 0);
    bench_free(&b);
}

TEST(bench_run__says_what_is_wrong_with_the_weights)
{
    struct error err;
    struct experiment x;
    struct bench b;
    const struct bench_options options = {.mode = NETWORK_INFER,
                                          .batch = 1,
                                          .threads = 1,
                                          .seconds = 0.01,
                                          .weights = "/nowhere.safetensors"};
    CHECK_OK(experiment_parse(&x, config, "test", &err), err);
    CHECK_INT(bench_run(&b, &x, &options, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "/nowhere.safetensors");
    experiment_free(&x);
}
