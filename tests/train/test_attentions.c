/* test_attentions.c - a run of a small ViT with each attention ends with the same bits whatever the
 * thread count and wherever it was interrupted; in both precisions. */
#include "test.h"

#include "attention/attention.h"
#include "rig.h"

enum { STOP_AFTER = 4 };

/* A map of 6 x 4 without class token, which all attentions have a place in. */
static bool load(struct experiment *x, const char *attention, const char *precision)
{
    const char *settings[] = {test_text("model.attention=%s", attention),
                              test_text("train.precision=%s", precision),
                              "model.pool=mean",
                              "model.patch_size=2",
                              "train.epochs=2",
                              NULL};
    struct error err;
    test_about("%s in %s", attention, precision);
    if (rig_refused(settings, &err)) {
        CHECK_CONTAINS(err.text, "model.attention");
        return false;
    }
    rig_load(x, settings);
    return true;
}

static void check_run(const struct experiment *x)
{
    struct error err;
    struct rig_run whole = {.threads = 1}, cut = {.threads = 2, .stop_after = STOP_AFTER};
    const char *a = test_text("%s/run", test_directory()), *b = test_text("%s/run", test_directory());
    CHECK_OK(rig_train(x, a, &whole, &err), err);
    CHECK_INT(rig_train(x, b, &cut, &err), ERR_INTERRUPTED);
    cut = (struct rig_run){.resume = true, .threads = 1};
    CHECK_OK(rig_train(x, b, &cut, &err), err);
    CHECK(rig_same_file(test_text("%s/last.safetensors", a), test_text("%s/last.safetensors", b)));
    CHECK(rig_same_file(test_text("%s/last.ema.safetensors", a),
                        test_text("%s/last.ema.safetensors", b)));
    CHECK_STR(rig_metrics(a), rig_metrics(b));
}

/* Beside the defaults: what follows the training. */
static const char *const more[] = {
    "{\"name\": \"angular\", \"form\": \"castling\", \"ramp\": true}",
    "{\"name\": \"performer\", \"redraw\": 3}",
    NULL,
};

static void check_precision(const char *precision)
{
    int checked = 0;
    for (int i = 0; attn_kinds(i); i++) {
        struct experiment x;
        if (!load(&x, attn_kinds(i)->name, precision))
            continue;
        check_run(&x);
        experiment_free(&x);
        checked++;
    }
    CHECK(checked >= 4);
    for (int i = 0; more[i]; i++) {
        struct experiment x;
        CHECK(load(&x, more[i], precision));
        check_run(&x);
        experiment_free(&x);
    }
}

TEST(every_attention__ends_with_the_same_bits_with_any_threads_and_after_any_stop)
{
    check_precision("fp32");
}

TEST(every_attention__ends_with_the_same_bits_in_bf16_too)
{
    if (sizeof(real) == sizeof(double))
        SKIP("bf16 is not in the double build");
    check_precision("bf16");
}
