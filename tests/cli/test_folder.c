/* test_folder.c - image folders from the command line: data, train, eval, predict. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "picture.h"
#include "program.h"
#include "test.h"

/* train/ and val/ with red and blue pictures of several sizes. */
static const char *coloured_folder(void)
{
    const char *folder = test_directory();
    for (int i = 0; i < 8; i++) {
        unsigned shade = (unsigned)(16 * i);
        put_picture(folder, test_text("train/blue/%d.png", i), 20 + i, 16, 0x0000ff - shade);
        put_picture(folder, test_text("train/red/%d.png", i), 16, 18 + i, 0xff0000 - (shade << 16));
    }
    put_picture(folder, "val/blue/1.png", 30, 20, 0x0000e8);
    put_picture(folder, "val/red/1.png", 12, 9, 0xe80000);
    put_picture(folder, "val/red/2.png", 9, 12, 0xd80000);
    return folder;
}

static const char *config_for(const char *folder, const char *more)
{
    return text_file(
        "folder.json",
        test_text("{\"data\": {\"format\": \"folder\", \"path\": \"%s\"%s}, \"model\": {\"name\": "
                  "\"vit\", \"image_size\": 16, \"channels\": 3, \"classes\": 2, \"patch_size\": 8, "
                  "\"dim\": 8, \"depth\": 1, \"heads\": 2}, \"train\": {\"epochs\": 12, "
                  "\"batch_size\": 4, \"optimizer\": {\"name\": \"adamw\", \"lr\": 0.01}}}",
                  folder, more));
}

TEST(folder__data_counts_and_lists_what_is_bad)
{
    const char *folder = coloured_folder();
    put_bytes(folder, "val/red/3.jpg", "GIF89a", 6);
    CHECK_INT(mkdir(test_text("%s/train/yellow", folder), 0700), 0);
    CHECK_INT(mkdir(test_text("%s/val/yellow", folder), 0700), 0);
    struct said s = attnbench("data %s --json", folder);
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.out, "\"classes\":[\"blue\",\"red\",\"yellow\"]");
    CHECK_CONTAINS(s.out, "\"per_class\":[8,8,0]");
    CHECK_CONTAINS(s.out, "val/red/3.jpg: is neither PNG nor JPEG, but a GIF file");
    CHECK_CONTAINS(s.out, "\"most_width\":27");
    s = attnbench("data %s", folder);
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.out, "bad: ");
}

TEST(folder__a_single_picture_is_described)
{
    const char *folder = test_directory();
    put_picture(folder, "a.jpg", 5, 3, 0x102030);
    struct said s = attnbench("data %s/a.jpg --json", folder);
    CHECK_INT(s.code, 0);
    CHECK_STR(s.out, "{\"format\":\"PNG\",\"width\":5,\"height\":3,\"center_rgb\":[16,32,48],"
                     "\"mean_rgb\":[16,32,48]}\n");
    put_bytes(folder, "b.png", "<html>", 6);
    s = attnbench("data %s/b.png", folder);
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "b.png: is neither PNG nor JPEG, but a web page");
}

TEST(folder__a_model_learns_is_evaluated_and_predicts)
{
    const char *folder = coloured_folder(), *run = test_text("%s/run", test_directory());
    struct said s = attnbench("train %s --out %s --quiet", config_for(folder, ""), run);
    CHECK_STR(s.code ? s.err : "", "");
    const char *metrics = file_text(test_text("%s/metrics.jsonl", run));
    CHECK_INT(count_of(metrics, "\"val_top1\""), 12);
    CHECK_INT(count_of(metrics, "\"event\":\"test\""), 0);

    s = attnbench("eval %s/last.safetensors --json", run);
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.out, "\"split\":\"val\"");
    CHECK_NEAR(json_value_of(s.out, "top1"), 100, 0);
    s = attnbench("eval %s/last.safetensors --data %s --json", run, folder);
    CHECK_INT(s.code, 0);
    CHECK_NEAR(json_value_of(s.out, "n"), 3, 0);

    s = attnbench("predict %s/last.safetensors %s/val/red/1.png %s/val/blue/1.png --top 1 --json", run,
                  folder, folder);
    CHECK_INT(s.code, 0);
    const char *red = strstr(s.out, "\"class\":\"red\""), *blue = strstr(s.out, "\"class\":\"blue\"");
    CHECK(red && blue && red < blue);
    CHECK(json_value_of(s.out, "probability") > 0.5);
    s = attnbench("predict %s/last.safetensors %s/val/red/1.png", run, folder);
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.out, " %  red\n");
    s = attnbench("predict %s/last.safetensors %s/none.png", run, folder);
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "none.png: cannot be opened");
}

TEST(folder__other_classes_are_refused_by_name)
{
    const char *folder = coloured_folder(), *run = test_text("%s/run", test_directory());
    struct said s =
        attnbench("train %s --out %s --quiet --set train.epochs=1", config_for(folder, ""), run);
    CHECK_INT(s.code, 0);
    const char *other = test_directory();
    put_picture(other, "val/green/1.png", 16, 16, 0);
    put_picture(other, "val/red/1.png", 16, 16, 0);
    s = attnbench("eval %s/last.safetensors --data %s", run, other);
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "\"blue\"");
    CHECK_CONTAINS(s.err, "\"green\"");
}

TEST(folder__empty_classes_and_bad_pictures_stop_the_training)
{
    const char *folder = coloured_folder();
    put_bytes(folder, "train/red/9.png", "", 0);
    struct said s = attnbench("train %s --out %s/run", config_for(folder, ""), test_directory());
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "train/red/9.png: is empty");
    put_bytes(folder, "val/blue/8.jpg", "<html>", 6);
    s = attnbench("train %s --out %s/run --set train.epochs=1",
                  config_for(folder, ", \"on_error\": \"skip\""), test_directory());
    CHECK_INT(s.code, 0);
    CHECK_CONTAINS(s.err, "1 of 4 pictures are left out");
    CHECK_CONTAINS(s.err, "val/blue/8.jpg: is neither");
    CHECK_CONTAINS(s.err, "1 of 17 pictures are left out");
    CHECK_CONTAINS(s.err, "train/red/9.png: is empty");
    CHECK_INT(mkdir(test_text("%s/train/yellow", folder), 0700), 0);
    CHECK_INT(mkdir(test_text("%s/val/yellow", folder), 0700), 0);
    s = attnbench("train %s --out %s/run --set model.classes=3", config_for(folder, ""),
                  test_directory());
    CHECK_INT(s.code, 2);
    CHECK_CONTAINS(s.err, "no training pictures of class \"yellow\"");
}

TEST(folder__results_do_not_depend_on_the_workers)
{
    const char *folder = coloured_folder(), *config = config_for(folder, "");
    const char *one = test_text("%s/a", test_directory()), *two = test_text("%s/b", test_directory());
    CHECK_INT(attnbench("train %s --out %s --quiet --set train.epochs=2", config, one).code, 0);
    CHECK_INT(attnbench("train %s --out %s --quiet --set train.epochs=2 --set data.workers=3", config,
                        two).code, 0);
    double a = json_value_of(file_text(test_text("%s/summary.json", one)), "val_top1");
    double b = json_value_of(file_text(test_text("%s/summary.json", two)), "val_top1");
    CHECK_NEAR(a, b, 0);
    const char *first = strstr(file_text(test_text("%s/metrics.jsonl", one)), "weights_crc32");
    const char *second = strstr(file_text(test_text("%s/metrics.jsonl", two)), "weights_crc32");
    CHECK(first && second && strncmp(first, second, 26) == 0);
}
