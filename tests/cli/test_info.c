/* test_info.c - attnbench info, config, list and data. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "cli/program.h"
#include "config/json.h"

static struct json_value *parsed(const char *text)
{
    struct json_value *root;
    struct error err;
    CHECK_OK(json_parse(&root, text, strlen(text), &err), err);
    return root;
}

static double number(const struct json_value *object, const char *key)
{
    const struct json_value *v = json_member(object, key);
    return v && json_type(v) == JSON_NUMBER ? json_to_number(v) : (double)NAN;
}

struct preset {
    const char *name;
    double params, macs; /* params as timm counts them; macs as below */
};

/* 12 blocks of (12 N D^2 + 2 N^2 D), 196 patches of 768 values times D, 1000 classes times D. */
static double vit_macs(double N, double D, double heads)
{
    return 12 * (12 * N * D * D + 2 * N * N * D) + 196 * 768 * D + heads * 1000 * D;
}

TEST(info__presets_have_the_parameters_of_timm)
{
    const struct preset presets[] = {
        {"vit_tiny_patch16_224", 5717416, vit_macs(197, 192, 1)},
        {"vit_small_patch16_224", 22050664, vit_macs(197, 384, 1)},
        {"vit_base_patch16_224", 86567656, vit_macs(197, 768, 1)},
        {"deit_tiny_distilled_patch16_224", 5910800, vit_macs(198, 192, 2)},
    };
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        test_about("%s", presets[i].name);
        const char *config =
            text_file("p.json", test_text("{\"model\": \"%s\"}", presets[i].name));
        struct said s = attnbench("info %s --json", config);
        CHECK_INT(s.code, 0);
        CHECK_STR(s.err, "");
        CHECK_NEAR(json_value_of(s.out, "params"), presets[i].params, 0);
        CHECK_NEAR(json_value_of(s.out, "macs"), presets[i].macs, 0);
    }
}

TEST(info__layers_and_parameters_add_up)
{
    static const char *const variants[] = {"standard", "optimized", "efficient", "super"};
    for (int i = 0; i < 4; i++) {
        test_about("%s", variants[i]);
        struct said s = attnbench("info %s --json", text_file("c.json",
            test_text("{\"model\": {\"attention\": \"%s\"}}", variants[i])));
        struct json_value *root = parsed(s.out);
        double params = 0, macs = 0, elements = 0;
        const struct json_value *v = json_first(json_member(root, "layers"));
        for (; v; v = json_next(v)) {
            params += number(v, "params");
            macs += number(v, "macs");
        }
        for (v = json_first(json_member(root, "parameters")); v; v = json_next(v)) {
            double count = 1;
            const struct json_value *dim = json_first(json_member(v, "shape"));
            for (; dim; dim = json_next(dim))
                count *= json_to_number(dim);
            elements += count;
        }
        CHECK_NEAR(params, number(root, "params"), 0);
        CHECK_NEAR(elements, number(root, "params"), 0);
        CHECK_NEAR(macs, number(root, "macs"), 0);
        CHECK_NEAR(number(root, "macs_attention_share"),
                   number(root, "macs_attention") / number(root, "macs"), 1e-12);
        CHECK(number(root, "activation_bytes_train") > number(root, "activation_bytes_infer"));
        CHECK(number(root, "activation_bytes_infer") > 0);
        json_free(root);
    }
}

/* Hosseini and Hosseini 2024: N = 50 tokens of width 64, 6 blocks. */
TEST(info__attention_counts_follow_the_paper)
{
    const double N = 50, D = 64, blocks = 6;
    struct { const char *name; double params, projected, core; } rows[] = {
        {"standard", 4 * D * D + 4 * D, 4, 2 * N * N * D},
        {"optimized", 3 * D * D + 3 * D, 3, 2 * N * N * D},
        {"efficient", 2 * D * D + 2 * D, 2, 2 * N * N * D},
        {"super", 2 * D * D + 2 * D + N * N, 2, 3 * N * N * D},
    };
    for (int i = 0; i < 4; i++) {
        test_about("%s", rows[i].name);
        const char *out = attnbench("info %s --json", text_file("c.json",
            test_text("{\"model\": {\"attention\": \"%s\"}}", rows[i].name))).out;
        CHECK_NEAR(json_value_of(out, "params_attention"), blocks * rows[i].params, 0);
        CHECK_NEAR(json_value_of(out, "macs_attention_core"), blocks * rows[i].core, 0);
        CHECK_NEAR(json_value_of(out, "macs_attention"),
                   blocks * (rows[i].core + rows[i].projected * N * D * D), 0);
    }
}

TEST(info__warns_where_super_is_larger_than_standard)
{
    const char *wide = text_file("c.json", "{\"model\": {\"image_size\": 32, \"patch_size\": 2, "
                                           "\"pool\": \"mean\", \"attention\": \"super\"}}");
    struct said s = attnbench("info %s", wide);
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.err, "attnbench: warning: ");
    CHECK_CONTAINS(s.err, "more parameters");
    s = attnbench("info %s", text_file("c.json", "{\"model\": {\"attention\": \"super\"}}"));
    CHECK_STR(s.err, "");
}

TEST(info__reads_no_data)
{
    const char *config =
        text_file("c.json", "{\"data\": {\"format\": \"mnist\", \"path\": \"no\"}}");
    struct said s = attnbench("info %s", config);
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.out, "blocks.5.attn.qkv ");
}

TEST(info__is_the_same_for_a_checkpoint_and_its_config)
{
    const char *config = small_config(""), *directory = test_directory();
    CHECK_INT(attnbench("train %s --quiet --out %s/run", config, directory).code, 0);
    const char *want = attnbench("info %s --json", config).out;
    CHECK_STR(attnbench("info %s/run/last.safetensors --json", directory).out, want);
    CHECK_STR(attnbench("info %s/run --json", directory).out, want);
}

/* Step blocks of 100 MB beside few parameters. */
TEST(info__memory_agrees_with_the_growth_of_a_run)
{
    const char *config = text_file("c.json",
        "{\"data\": {\"format\": \"synthetic\", \"train_count\": 8, \"test_count\": 4},"
        " \"model\": {\"image_size\": 64, \"patch_size\": 2, \"classes\": 4, \"dim\": 128,"
        " \"heads\": 2, \"depth\": 12, \"pool\": \"mean\", \"mlp_ratio\": 1},"
        " \"train\": {\"epochs\": 1, \"batch_size\": 4, \"schedule\": \"constant\"}}");
    const char *run = test_text("%s/run", test_directory());
    double train = 0, infer = 0;
    const char *out = attnbench("info %s --json --threads 2", config).out;
    train = json_value_of(out, "memory_bytes_train");
    infer = json_value_of(out, "memory_bytes_infer");
    CHECK_INT(json_value_of(out, "threads"), 2);
    CHECK(infer > 1e6 && train > 1.5e8 && infer < train);
    struct said s = attnbench("train %s --quiet --threads 2 --out %s", config, run);
    CHECK_INT(s.code, 0);
    double peak = json_value_of(file_text(test_text("%s/summary.json", run)), "peak_rss_bytes");
#ifdef __SANITIZE_ADDRESS__
    SKIP("the address sanitizer takes memory of its own");
#endif
    CHECK_NEAR(peak - 15e6, train, 0.1 * train);
    CHECK(json_value_of(attnbench("info %s --json --threads 1", config).out,
                        "memory_bytes_train") < train);
}

TEST(config__prints_what_reads_back_the_same)
{
    const char *config = small_config(""), *copy = test_text("%s/copy.json", test_directory());
    struct said s = attnbench("config %s", config);
    CHECK_INT(s.code, 0);
    CHECK_STR(s.err, "learning rate 0.001, 2 epochs of 4 steps with 16 images: 8 steps, 4 of "
                     "warm-up\n");
    CHECK_INT(attnbench("config %s > %s", config, copy).code, 0);
    CHECK_STR(attnbench("config %s", copy).out, s.out);
}

TEST(list__each_list_is_one_json_object_with_names_and_summaries)
{
    static const char *const lists[] = {"attention", "models", "datasets", "optimizers"};
    static const char *const members[] = {"super", "vit_base_patch16_224", "cifar100", "adamw"};
    for (int i = 0; i < 4; i++) {
        test_about("%s", lists[i]);
        struct said s = attnbench("list %s --json", lists[i]);
        CHECK_INT(s.code, 0);
        CHECK_INT(count_of(s.out, "\n"), 1);
        struct json_value *root = parsed(s.out);
        bool found = false;
        const struct json_value *v = json_first(json_member(root, lists[i]));
        for (; v; v = json_next(v)) {
            const char *name = json_to_string(json_member(v, "name"));
            CHECK(json_to_string(json_member(v, "summary")) != NULL);
            found = found || strcmp(name, members[i]) == 0;
            CHECK_CONTAINS(attnbench("list %s", lists[i]).out, name);
        }
        CHECK(found);
        json_free(root);
    }
}

TEST(list__attention_documents_every_option)
{
    struct json_value *root = parsed(attnbench("list attention --json").out);
    static const char *const keys[] = {"name", "type", "default", "min", "max", "help"};
    int options = 0;
    const struct json_value *v = json_first(json_member(root, "attention"));
    for (; v; v = json_next(v)) {
        CHECK(json_to_string(json_member(v, "paper")) != NULL);
        CHECK(json_to_string(json_member(v, "complexity")) != NULL);
        const struct json_value *o = json_first(json_member(v, "options"));
        for (; o; o = json_next(o), options++)
            for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
                CHECK(json_member(o, keys[k]) != NULL);
    }
    CHECK(options >= 4);
    json_free(root);
}

TEST(data__counts_parts_and_classes)
{
    struct said s = attnbench("data %s --json", small_config(""));
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.out, "\"name\":\"train\",\"n\":64,\"per_class\":[16,16,16,16]");
    CHECK_CONTAINS(s.out, "\"name\":\"val\",\"n\":32,\"per_class\":[8,8,8,8]");
    CHECK_CONTAINS(s.out, "\"name\":\"test\",\"n\":32,\"per_class\":[8,8,8,8]");
    CHECK_CONTAINS(s.out, "\"classes\":[\"0\",\"1\",\"2\",\"3\"]");
    s = attnbench("data %s", small_config(""));
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.out, "mean 0.");
}

TEST(data__a_folder_is_known_by_its_files)
{
    const char *folder = test_data("mnist");
    if (!folder)
        SKIP("no sample data");
    struct said s = attnbench("data %s --json", folder);
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.out, "\"format\":\"mnist\"");
    CHECK(json_value_of(s.out, "n") > 0);
}

TEST(info__takes_settings)
{
    const char *config = small_config("");
    double two = json_value_of(attnbench("info %s --json", config).out, "params");
    struct said s = attnbench("info %s --json --set model.depth=1", config);
    CHECK_INT(s.code, 0);
    CHECK(json_value_of(s.out, "params") < two);
}
