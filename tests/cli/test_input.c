/* test_input.c - what bad configs, data and checkpoints get: one clear error, exit code 2, and no
 * output directory. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/program.h"

/* One line on stderr with the exit code 2 and each part in it. */
static void check_refused(struct said s, const char *first, const char *second)
{
    CHECK_INT(s.code, 2);
    CHECK_STR(s.out, "");
    CHECK_INT(count_of(s.err, "\n"), 1);
    CHECK(strncmp(s.err, "attnbench: error: ", 18) == 0);
    CHECK_CONTAINS(s.err, first);
    CHECK_CONTAINS(s.err, second);
}

struct bad_config {
    const char *text, *where, *what;
};

static const struct bad_config bad_configs[] = {
    {"", "bad.json: ", "line 1"},
    {"{\"seed\": 1,\n \"train\": {\"epochs\" 3}}", "bad.json: line 2, column ", "column 21"},
    {"{\"seed\": 1, // a comment\n}", "bad.json: line 1", "column 13"},
    {"{\"seed\": 1, \"seed\": 2}", "bad.json: ", "seed"},
    {"{\"train\": {\"epoch\": 3}}", "train.epoch", "\"epochs\""},
    {"{\"epochs\": 3}", "epochs", "train"},
    {"{\"train\": {\"epochs\": \"3\"}}", "train.epochs: ", "\"3\""},
    {"{\"train\": {\"epochs\": 1.5}}", "train.epochs: ", "1.5"},
    {"{\"train\": {\"epochs\": -1}}", "train.epochs: ", "-1"},
    {"{\"train\": {\"batch_size\": 0}}", "train.batch_size: ", "0"},
    {"{\"train\": {\"batch_size\": 1e300}}", "train.batch_size: ", "1e"},
    {"{\"train\": {\"optimizer\": {\"name\": \"adam\"}}}", "train.optimizer", "\"adamw\""},
    {"{\"train\": {\"optimizer\": {\"name\": \"sgd\", \"betas\": [0.9, 0.99]}}}", "betas", "adamw"},
    {"{\"train\": {\"schedule\": {\"name\": \"cosine\", \"warmup_epochs\": 10}}}", "warmup_epochs",
     "10"},
    {"{\"model\": {\"dim\": 63}}", "model.dim: ", "heads 4"},
    {"{\"model\": {\"patch_size\": 5}}", "model.patch_size: ", "28"},
    {"{\"model\": {\"dim\": 1073741824}}", "model.dim: ", "65536"},
    {"{\"model\": {\"image_size\": 65536, \"patch_size\": 1}}", "model.image_size: ", "tokens"},
    {"{\"model\": {\"attention\": \"supper\"}}", "model.attention", "\"super\""},
    {"{\"model\": {\"attention\": {\"name\": \"super\", \"no_such\": 3}}}", "model.attention.no_such", "base"},
    {"{\"model\": {\"attention\": {\"name\": \"super\", \"k\": 3}}}", "model.attention.k", "linformer"},
    {"{\"model\": {\"name\": \"vit_tiny\"}}", "model", "vit_tiny_patch16_224"},
    {"{\"data\": {\"format\": \"minst\"}}", "data.format", "\"mnist\""},
    {"{\"extends\": \"bad.json\"}", "bad.json", "extends"},
    {"[1, 2]", "bad.json", "object"},
};

TEST(input__bad_configs_name_file_path_and_hint_and_leave_nothing)
{
    for (size_t i = 0; i < sizeof bad_configs / sizeof bad_configs[0]; i++) {
        const struct bad_config *c = &bad_configs[i];
        test_about("%s", c->text);
        const char *config = text_file("bad.json", c->text);
        const char *out = test_text("%s/run", test_directory());
        check_refused(attnbench("train %s --out %s", config, out), c->where, c->what);
        CHECK(!path_exists(out));
    }
}

TEST(input__a_setting_is_checked_like_a_file)
{
    const char *config = small_config("");
    check_refused(attnbench("config %s --set train.epoch=3", config), "--set: train.epoch",
                  "epochs");
    check_refused(attnbench("config %s --set train.epochs=three", config), "train.epochs", "three");
    check_refused(attnbench("config %s --set epochs", config), "--set", "epochs");
}

TEST(input__a_config_may_start_with_a_byte_order_mark)
{
    const char *config = text_file("bom.json", "\xEF\xBB\xBF{\"seed\": 5}");
    CHECK_CONTAINS(attnbench("config %s", config).out, "\"seed\": 5");
}

TEST(input__missing_data_says_what_was_looked_for_and_where)
{
    const char *folder = test_directory(), *out = test_text("%s/run", test_directory());
    const char *config = text_file(
        "c.json", test_text("{\"data\": {\"format\": \"mnist\", \"path\": \"%s\"}}", folder));
    struct said s = attnbench("train %s --out %s", config, out);
    check_refused(s, folder, "train-images");
    CHECK(!path_exists(out));
    config = text_file("c.json", "{\"data\": {\"format\": \"mnist\", \"path\": \"not/there\"}}");
    check_refused(attnbench("train %s --out %s", config, out), "not/there", "");
    check_refused(attnbench("data %s", folder), folder, "list datasets");
    CHECK(!path_exists(out));
}

TEST(input__a_run_needs_an_output_directory)
{
    check_refused(attnbench("train %s", small_config("")), "output: ", "--out DIR");
}

TEST(input__an_output_that_cannot_be_made_is_refused)
{
    const char *config = small_config(""), *file = text_file("file", "x");
    check_refused(attnbench("train %s --out %s/run", config, file), file, "");
    struct said s = attnbench("train %s --out /proc/attnbench", config);
    CHECK_INT(s.code, 2);
}

TEST(input__other_inputs_of_train_are_told_apart)
{
    const char *config = small_config(""), *directory = test_directory();
    check_refused(attnbench("train %s", directory), directory, "config.json");
    CHECK_INT(attnbench("train %s --quiet --out %s/run", config, directory).code, 0);
    check_refused(attnbench("train %s/run/last.safetensors", directory), "last.safetensors",
                  "init_from");
    check_refused(attnbench("train %s --out %s/run", config, directory), "run", "--resume");
    CHECK(path_exists(test_text("%s/run/last.safetensors", directory)));
}

struct bad_file {
    const char *text, *what;
};

static const struct bad_file bad_files[] = {
    {"", "0 bytes"},
    {"short", "5 bytes"},
    {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "LFS"},
    {"<!DOCTYPE html>\n<html><body>not found</body></html>", "HTML"},
    {"{\"seed\": 1}       ", "safetensors"},
};

TEST(input__what_is_no_checkpoint_is_recognised)
{
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        test_about("%s", bad_files[i].text);
        const char *path = text_file("x.safetensors", bad_files[i].text);
        check_refused(attnbench("eval %s", path), path, bad_files[i].what);
        check_refused(attnbench("info %s", path), path, bad_files[i].what);
        check_refused(attnbench("eval %s --data %s", path, small_config("")), path,
                      bad_files[i].what);
    }
}

TEST(input__resuming_with_another_model_is_refused)
{
    const char *config = small_config(""), *directory = test_directory();
    CHECK_INT(attnbench("train %s --quiet --out %s/run", config, directory).code, 0);
    struct said s = attnbench("train %s --set model.image_size=16 --out %s/run --resume", config,
                              directory);
    check_refused(s, "image_size", "");
}

TEST(input__pipes_and_devices_are_refused_at_once)
{
    const char *pipe = test_text("%s/p.json", test_directory());
    CHECK_INT(mkfifo(pipe, 0600), 0);
    static const char *const commands[] = {"config", "info", "train", "eval", "bench"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        test_about("%s", commands[i]);
        check_refused(attnbench("%s %s", commands[i], pipe), pipe, "is a device or pipe");
        check_refused(attnbench("%s /dev/zero", commands[i]), "/dev/zero", "is a device or pipe");
    }
}

TEST(input__validation_without_content_asks_for_a_holdout)
{
    check_refused(attnbench("config %s --set data.validation=null --set data.validation={}",
                            small_config("")),
                  "data.validation: ", "{\"holdout\": VALUE}");
}
