/* test_eval.c - attnbench eval. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/program.h"
#include "io/safetensors.h"

/* A run, made once. */
static const char *trained(void)
{
    static char run[4096];
    if (!run[0]) {
        snprintf(run, sizeof run, "%s/run", test_directory());
        struct said s = attnbench("train %s --quiet --out %s", small_config(""), run);
        test_about("%s", s.err);
        CHECK_INT(s.code, 0);
    }
    return run;
}

TEST(eval__json_agrees_with_the_test_event_of_the_run)
{
    struct said s = attnbench("eval %s/last.safetensors --json", trained());
    CHECK_INT(s.code, 0);
    CHECK_STR(s.err, "");
    CHECK_INT(count_of(s.out, "\n"), 1);
    const char *event = strstr(file_text(test_text("%s/metrics.jsonl", trained())),
                               "\"event\":\"test\",\"weights\":\"last\"");
    CHECK(event != NULL);
    CHECK_NEAR(json_value_of(s.out, "top1"), json_value_of(event, "top1"), 1e-9);
    CHECK_NEAR(json_value_of(s.out, "loss"), json_value_of(event, "loss"), 1e-6);
    CHECK_INT(json_value_of(s.out, "n"), 32);
    CHECK_CONTAINS(s.out, "\"split\":\"test\"");
    CHECK_CONTAINS(s.out, "\"top5\":null"); /* four classes */
    CHECK_CONTAINS(s.out, "\"confusion\":[[");
    CHECK_CONTAINS(s.out, "\"per_class\":[{\"name\":\"0\",\"n\":8,");
    double ece = json_value_of(s.out, "ece");
    CHECK(ece >= 0 && ece <= 1);
}

TEST(eval__parts_are_those_of_the_run)
{
    struct said s = attnbench("eval %s/last.safetensors --json --split val", trained());
    CHECK_INT(json_value_of(s.out, "n"), 32);
    s = attnbench("eval %s/last.safetensors --json --split train", trained());
    CHECK_INT(json_value_of(s.out, "n"), 64);
    s = attnbench("eval %s/last.safetensors --split best", trained());
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "--split: \"best\"");
}

TEST(eval__set_takes_images_of_another_size_and_other_data)
{
    const char *run = test_text("%s/standard", test_directory());
    struct said s = attnbench("train %s --quiet --set model.attention=standard --out %s",
                              small_config(""), run);
    CHECK_INT(s.code, 0);
    struct said plain = attnbench("eval %s/last.safetensors --json", run);
    struct said same = attnbench("eval %s/last.safetensors --json --set model.image_size=8", run);
    CHECK_INT(same.code, 0);
    CHECK(json_value_of(same.out, "loss") == json_value_of(plain.out, "loss"));
    CHECK_STR(same.err, "");
    struct said large = attnbench("eval %s/last.safetensors --json --set model.image_size=[16,12] "
                                  "--set data.limit_test=8", run);
    test_about("%s", large.err);
    CHECK_INT(large.code, 0);
    CHECK_INT(json_value_of(large.out, "n"), 8);
    CHECK_CONTAINS(large.err, "resized: pos_embed: 4 x 3 patches from 2 x 2");
    CHECK(json_value_of(large.out, "loss") != json_value_of(plain.out, "loss"));
    struct said bound = attnbench("eval %s/last.safetensors --set model.image_size=12", trained());
    CHECK_INT(bound.code, 2);
    CHECK_CONTAINS(bound.err, "blocks.0.attn.align.weight was trained for the checkpoint's number");
    struct said odd = attnbench("eval %s/last.safetensors --set model.image_size=9", run);
    CHECK_INT(odd.code, 2);
    CHECK_CONTAINS(odd.err, "model.patch_size: 4 does not divide the image height 9");
    struct said deep = attnbench("eval %s/last.safetensors --set model.depth=7", run);
    CHECK_INT(deep.code, 2);
    CHECK_CONTAINS(deep.err, "model.depth is 7, the checkpoint's");
}

TEST(eval__accuracy_does_not_depend_on_threads)
{
    struct said one = attnbench("eval %s/last.safetensors --json --threads 1", trained());
    struct said two = attnbench("eval %s/last.safetensors --json --threads 2", trained());
    CHECK(json_value_of(one.out, "loss") == json_value_of(two.out, "loss"));
}

TEST(eval__predictions_are_a_table_that_agrees_with_the_accuracy)
{
    const char *table = test_text("%s/p.csv", test_directory());
    struct said s =
        attnbench("eval %s/last.safetensors --json --predictions %s", trained(), table);
    CHECK_INT(s.code, 0);
    const char *text = file_text(table);
    CHECK(strncmp(text, "index,label,prediction,p0,p1,p2,p3\n", 35) == 0);
    CHECK_INT(count_of(text, "\n"), 33);
    int correct = 0;
    for (const char *row = strchr(text, '\n') + 1; *row; row = strchr(row, '\n') + 1) {
        int index, label, prediction;
        double p[4];
        CHECK_INT(sscanf(row, "%d,%d,%d,%lf,%lf,%lf,%lf", &index, &label, &prediction, &p[0], &p[1],
                         &p[2], &p[3]), 7);
        CHECK_NEAR(p[0] + p[1] + p[2] + p[3], 1, 1e-6);
        for (int i = 0; i < 4; i++)
            CHECK(p[i] <= p[prediction]);
        correct += label == prediction;
    }
    CHECK_NEAR(100.0 * correct / 32, json_value_of(s.out, "top1"), 1e-9);
    CHECK(!path_exists(test_text("%s.tmp", table)));
}

TEST(eval__predictions_that_cannot_be_written_are_an_error)
{
    struct said s = attnbench("eval %s/last.safetensors --predictions /dev/full", trained());
    CHECK_INT(s.code, 1);
    CHECK_CONTAINS(s.err, "/dev/full");
    s = attnbench("eval %s/last.safetensors --predictions %s/no/p.csv", trained(),
                  test_directory());
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "no/p.csv");
    CHECK_CONTAINS(s.err, "--predictions");
    const char *weights = test_text("%s/last.safetensors", trained());
    s = attnbench("eval %s --predictions %s/x", weights, weights);
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "not a directory");
    s = attnbench("eval %s --predictions %s", weights, weights);
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "would overwrite");
}

TEST(eval__the_state_of_a_run_is_not_its_weights)
{
    struct said s = attnbench("eval %s/last.state.safetensors", trained());
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "last.safetensors)");
}

/* An IDX file with 4 records of `size` bytes, all 0 to 3. */
static void idx_file(const char *folder, const char *name, int rank, int size)
{
    FILE *file = fopen(test_text("%s/%s", folder, name), "wb");
    CHECK(file != NULL);
    const unsigned char head[] = {0, 0, 8, (unsigned char)rank, 0, 0, 0, 4,
                                  0, 0, 0, 8, 0, 0, 0, 8};
    CHECK_INT(fwrite(head, 1, rank == 3 ? 16 : 8, file), rank == 3 ? 16 : 8);
    for (int i = 0; i < 4 * size; i++)
        fputc(i / size, file);
    CHECK_INT(fclose(file), 0);
}

TEST(eval__a_folder_gives_the_data)
{
    const char *folder = test_directory();
    idx_file(folder, "t10k-images-idx3-ubyte", 3, 64);
    idx_file(folder, "t10k-labels-idx1-ubyte", 1, 1);
    struct said s = attnbench("eval %s/last.safetensors --data %s --json", trained(), folder);
    test_about("%s", s.err);
    CHECK_INT(s.code, 0);
    CHECK_INT(json_value_of(s.out, "n"), 4);
}

/* The config names data here; what else stands in it may mislead. */
TEST(eval__says_that_the_model_of_another_config_is_not_used)
{
    static const struct {
        const char *model, *text;
    } rows[] = {
        {"\"attention\": \"eva\"", "model.attention is eva, the checkpoint's super"},
        {"\"depth\": 3", "model.depth is 3, the checkpoint's 2"},
        {"\"drop_path\": 0.5", NULL},
    };
    for (int i = 0; i < 3; i++) {
        const char *config =
            text_file("other.json", test_text("{\"extends\": \"%s/config.json\", \"model\": {%s}}",
                                              trained(), rows[i].model));
        struct said s = attnbench("eval %s/last.safetensors --json --data %s", trained(), config);
        test_about("%s: %s", rows[i].model, s.err);
        CHECK_INT(s.code, 0);
        if (rows[i].text)
            CHECK_CONTAINS(s.err, test_text("%s: only its data is used: %s", config, rows[i].text));
        else
            CHECK_STR(s.err, "");
        CHECK_INT(json_value_of(s.out, "n"), 32);
    }
}

TEST(eval__a_checkpoint_alone_needs_data_and_a_config_gives_it)
{
    const char *directory = test_directory();
    const char *weights = test_text("%s/moved.safetensors", directory);
    CHECK_INT(rename(test_text("%s/best.safetensors", trained()), weights), 0);
    struct said s = attnbench("eval %s", weights);
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "moved.safetensors: no config.json");
    CHECK_CONTAINS(s.err, "--data");
    s = attnbench("eval %s --data %s/config.json --json", weights, trained());
    CHECK_INT(s.code, 0);
    CHECK_INT(json_value_of(s.out, "n"), 32);
}

/* The run's last weights without metadata, as another program would write them. */
static const char *foreign_weights(void)
{
    const char *path = test_text("%s/foreign.safetensors", test_directory());
    struct st_file *file;
    struct error err;
    CHECK_OK(st_open(&file, test_text("%s/last.safetensors", trained()), &err), err);
    struct st_tensor tensors[256];
    int count = st_count(file);
    CHECK(count < 256);
    for (int i = 0; i < count; i++)
        tensors[i] = *st_at(file, i);
    enum status status = st_write(path, tensors, count, NULL, 0, &err);
    st_close(file);
    CHECK_OK(status, err);
    return path;
}

TEST(eval__a_foreign_file_takes_its_model_from_the_config)
{
    const char *weights = foreign_weights();
    struct said s = attnbench("eval %s", weights);
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "foreign.safetensors: ");
    CHECK_CONTAINS(s.err, "--data CONFIG");
    s = attnbench("eval %s --data %s/config.json --json", weights, trained());
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.err, " tensors match, 0 missing, 0 unexpected");
    double own = json_value_of(attnbench("eval %s/last.safetensors --json", trained()).out, "loss");
    CHECK(json_value_of(s.out, "loss") == own);
}

TEST(eval__weights_of_another_token_count_are_refused)
{
    const char *config = test_text("%s/other.json", test_directory());
    CHECK_INT(attnbench("config %s/config.json --set model.image_size=16 > %s", trained(), config)
                  .code, 0);
    struct said s = attnbench("eval %s --data %s", foreign_weights(), config);
    CHECK_INT(s.code, 2);
    CHECK_INT(count_of(s.err, "\n"), 1);
    CHECK_CONTAINS(s.err, "attn.align.weight");
}

TEST(eval__text_shows_each_class)
{
    struct said s = attnbench("eval %s/last.safetensors", trained());
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.out, "top-1 ");
    CHECK_CONTAINS(s.out, "\n3 ");
    CHECK(!strstr(s.out, "nan"));
}
