/* test_swin.c - runs of a small Swin end with the same bits whatever the thread count, and wherever
 * they were interrupted; with dropout and drop path, in both precisions. */
#include "test.h"

#include "attention/attention.h"
#include "rig.h"

static const char *const attentions[] = {
    "\"standard\"",
    "[{\"name\": \"super\", \"wa_mask\": true}, \"optimized\"]",
};

enum { ATTENTIONS = sizeof attentions / sizeof attentions[0] };

/* Maps of 8 x 4 and 4 x 2: windows moved along one axis, then a window as small as the map. */
static const char config[] =
    "{\"seed\": 3,\n"
    " \"data\": {\"format\": \"synthetic\", \"train_count\": 110, \"test_count\": 50,\n"
    "  \"validation\": {\"holdout\": 20}, \"augment\": {\"hflip\": 0.5}},\n"
    " \"model\": {\"name\": \"swin\", \"image_size\": [16, 8], \"channels\": 1, \"classes\": 6,\n"
    "  \"patch_size\": 2, \"dim\": 12, \"depths\": [2, 1], \"heads\": [2, 4], \"window_size\": 4,\n"
    "  \"mlp_ratio\": 2, \"dropout\": 0.1, \"drop_path\": 0.2, \"attention\": %s},\n"
    " \"train\": {\"epochs\": %d, \"batch_size\": 8, \"accumulate\": 2, \"clip_norm\": 1,\n"
    "  \"precision\": \"%s\", \"ema\": {\"decay\": 0.9, \"warmup\": 5},\n"
    "  \"optimizer\": {\"name\": \"adamw\", \"lr\": 3e-3},\n"
    "  \"schedule\": {\"name\": \"cosine\", \"warmup_epochs\": 1}}}\n";

static enum status parse(struct experiment *x, const char *attention, const char *precision,
                         int epochs, struct error *err)
{
    test_about("%s in %s", attention, precision);
    return experiment_parse(x, test_text(config, attention, epochs, precision), "swin.json", err);
}

/* Trains in a new directory, to the end unless interrupted and then resumed with other threads. */
static const char *train(const struct experiment *x, int threads, int stop_after)
{
    struct error err;
    const char *directory = test_text("%s/run", test_directory());
    struct rig_run run = {.threads = threads, .stop_after = stop_after};
    enum status status = rig_train(x, directory, &run, &err);
    if (stop_after) {
        CHECK_INT(status, ERR_INTERRUPTED);
        run = (struct rig_run){.resume = true, .threads = 3 - threads};
        status = rig_train(x, directory, &run, &err);
    }
    CHECK_OK(status, err);
    return directory;
}

static void check_same_run(const char *a, const char *b)
{
    static const char *const files[] = {"last", "best", "last.ema", "best.ema"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        CHECK(rig_same_file(test_text("%s/%s.safetensors", a, files[i]),
                            test_text("%s/%s.safetensors", b, files[i])));
    CHECK_STR(rig_metrics(a), rig_metrics(b));
}

static void check_precision(const char *precision)
{
    for (int i = 0; i < ATTENTIONS; i++) {
        struct experiment x;
        struct error err;
        CHECK_OK(parse(&x, attentions[i], precision, 2, &err), err);
        const char *one = train(&x, 1, 0);
        check_same_run(one, train(&x, 2, 0));
        check_same_run(one, train(&x, 2, 7)); /* one update into the second epoch */
        experiment_free(&x);
    }
}

TEST(swin__ends_with_the_same_bits_with_any_threads_and_after_any_stop)
{
    check_precision("fp32");
}

TEST(swin__ends_with_the_same_bits_in_bf16_too)
{
    check_precision("bf16");
}

TEST(swin__learns_with_every_attention)
{
    int learnt = 0;
    for (int i = 0; attn_kinds(i); i++) {
        struct experiment x;
        struct rig_run run = {.threads = 1};
        struct error err;
        enum status status =
            parse(&x, test_text("\"%s\"", attn_kinds(i)->name), "fp32", 25, &err);
        if (!status) {
            status = rig_train(&x, test_text("%s/run", test_directory()), &run, &err);
            experiment_free(&x);
        }
        if (status == ERR_INPUT)
            continue; /* it does not work in such windows */
        CHECK_OK(status, err);
        CHECK(run.result.last.test_top1 > 40); /* one of six by chance */
        learnt++;
    }
    CHECK(learnt >= 4);
}
