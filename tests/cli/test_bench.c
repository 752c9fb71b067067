/* test_bench.c - attnbench bench: what it prints, never how fast. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "cli/program.h"

TEST(bench__json_has_the_fields_of_the_interface)
{
    static const char *const numbers[] = {
        "batch", "threads", "img_per_sec",    "img_per_sec_best", "median",
        "p10",   "p90",     "gflops_per_sec", "peak_rss_bytes"};
    static const char *const modes[] = {"train", "infer"};
    const char *config = small_config("");
    for (int m = 0; m < 2; m++) {
        struct said s = attnbench("bench %s --mode %s --batch 6 --threads 2 --seconds 0.05 --json",
                                  config, modes[m]);
        test_about("%s: %s", modes[m], s.err);
        CHECK_INT(s.code, 0);
        CHECK_INT(count_of(s.out, "\n"), 1);
        CHECK_CONTAINS(s.out, test_text("{\"mode\":\"%s\"", modes[m]));
        CHECK_CONTAINS(s.out, "\"precision\":\"fp");
        CHECK_CONTAINS(s.out, "\"isa\":\"");
        CHECK_CONTAINS(s.out, "\"blas\":\"");
        CHECK_CONTAINS(s.out, "\"step_ms\":{\"median\":");
        for (int i = 0; i < (int)(sizeof numbers / sizeof numbers[0]); i++) {
            test_about("%s: %s", modes[m], numbers[i]);
            CHECK(json_value_of(s.out, numbers[i]) > 0);
        }
        CHECK_INT(json_value_of(s.out, "batch"), 6);
        CHECK_INT(json_value_of(s.out, "threads"), 2);
        CHECK(json_value_of(s.out, "img_per_sec_best") >= json_value_of(s.out, "img_per_sec"));
        CHECK_NEAR(json_value_of(s.out, "img_per_sec") * json_value_of(s.out, "median"), 6e3, 0.01);
        CHECK(!strstr(s.out, "\"profile\""));
    }
}

TEST(bench__start_line_goes_to_stderr_and_names_precision)
{
    struct said s = attnbench("bench %s --threads 1 --seconds 0.01", small_config(""));
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.err, "1 thread on ");
    CHECK_CONTAINS(s.err, ", fp");
    CHECK_CONTAINS(s.out, " img/s");
    CHECK(!strstr(s.out, "backward"));
}

TEST(bench__profile_lists_ops_with_their_rates)
{
    const char *config = small_config("");
    struct said s = attnbench("bench %s --seconds 0.05 --profile", config);
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.out, "\nlinear ");
    CHECK_CONTAINS(s.out, "\n  backward ");
    CHECK_CONTAINS(s.out, "\nupdate ");
    CHECK_CONTAINS(s.out, "FLOP/s");
    CHECK_CONTAINS(s.out, "B/s");
    CHECK_CONTAINS(s.out, "\nmixing ");
    s = attnbench("bench %s --seconds 0.05 --profile --mode infer", config);
    CHECK_INT(s.code, 0);
    CHECK(!strstr(s.out, "\n  backward "));
    CHECK(!strstr(s.out, "\nupdate "));
    s = attnbench("bench %s --seconds 0.05 --profile --json", config);
    CHECK_CONTAINS(s.out, "\"profile\":{\"step_seconds\":");
    CHECK_CONTAINS(s.out, "{\"op\":\"linear\",\"nodes\":");
    CHECK_CONTAINS(s.out, "\"mixing\":{\"nodes\":");
}

TEST(bench__ceiling_measures_products_alone)
{
    const char *config = small_config("");
    struct said s = attnbench("bench %s --seconds 0.05 --ceiling --threads 2 --json", config);
    CHECK_INT(s.code, 0);
    CHECK(json_value_of(s.out, "gflops_per_sec") > 0);
    CHECK(json_value_of(s.out, "gflops_per_sec_one_thread") > 0);
    CHECK_NEAR(json_value_of(s.out, "share_of_macs"), 1, 1e-9);
    CHECK_CONTAINS(s.out, "\"products\":[{\"m\":");
    CHECK_CONTAINS(s.out, "\"fp");
    const char *bf16 = strstr(s.out, "\"bf16\":{"); /* missing in the double build alone */
    CHECK((bf16 != NULL) == (strstr(s.out, "\"fp32\":{") != NULL));
    CHECK(!bf16 || json_value_of(bf16, "gflops_per_sec") > 0);
    s = attnbench("bench %s --seconds 0.05 --ceiling", config);
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.out, "weighted by FLOPs: ");
}

TEST(bench__settings_change_the_model)
{
    const char *config = small_config("");
    struct said s = attnbench("bench %s --seconds 0.01 --mode infer --json", config);
    struct said more =
        attnbench("bench %s --seconds 0.01 --mode infer --json --set model.depth=5", config);
    CHECK_INT(more.code, 0);
    CHECK(json_value_of(more.out, "macs") > json_value_of(s.out, "macs"));
}

TEST(bench__takes_a_checkpoint)
{
    const char *directory = test_directory(), *config = small_config("");
    CHECK_INT(attnbench("train %s --out %s/run --quiet", config, directory).code, 0);
    struct said s = attnbench("bench %s/run/last.safetensors --seconds 0.01 --json", directory);
    CHECK_INT(s.code, 0);
    CHECK(json_value_of(s.out, "img_per_sec") > 0);
    s = attnbench("bench %s/run/last.safetensors --set model.depth=1", directory);
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "--set: not with a checkpoint");
}

TEST(bench__wrong_options_are_refused)
{
    static const char *const options[] = {"--mode both",   "--seconds 0",   "--seconds soon",
                                          "--seconds nan", "--seconds 1e9", "--batch 0",
                                          "--batch 1.5",   "--threads 0",   "--profile --ceiling"};
    const char *config = small_config("");
    for (int i = 0; i < (int)(sizeof options / sizeof options[0]); i++) {
        test_about("%s", options[i]);
        struct said s = attnbench("bench %s %s", config, options[i]);
        CHECK_INT(s.code, 2);
        CHECK_STR(s.out, "");
        CHECK_CONTAINS(s.err, "attnbench: error: --");
    }
}
