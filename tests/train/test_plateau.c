/* test_plateau.c - the schedule that follows validation, in runs. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Every epoch that is not better drops the rate, and with so high a threshold none is. */
static const char schedule[] = "train.schedule={\"name\": \"plateau\", \"gamma\": 0.5, \"patience\": 0, "
                               "\"threshold\": 1, \"warmup_epochs\": 1}";

/* The value of "lr" of the epoch events, in their order. */
static int rates_of(const char *metrics, double *rates, int most)
{
    int count = 0;
    for (const char *at = metrics; count < most && (at = strstr(at, "\"lr\":")); at += 5)
        rates[count++] = strtod(at + 5, NULL);
    return count;
}

TEST(plateau__rates_fall_and_a_resumed_run_ends_with_the_same_bits)
{
    const char *root = test_directory(), *whole = test_text("%s/whole", root);
    struct experiment x;
    struct rig_run run = {.threads = 1};
    struct error err;
    double rates[8];
    rig_load(&x, SETTINGS(schedule, "train.epochs=6", "train.optimizer={\"name\": \"sgd\", \"lr\": 1e-9}"));
    CHECK_OK(rig_train(&x, whole, &run, &err), err);
    CHECK_INT(rates_of(rig_metrics(whole), rates, 8), 6);
    for (int e = 0; e < 6; e++) {
        test_about("epoch %d", e + 1);
        CHECK_NEAR(rates[e], e < 3 ? 1e-9 : 1e-9 * pow(0.5, e - 2), 1e-20);
    }
    for (int stop = 7; stop < 36; stop += 14) {
        const char *parts = test_text("%s/parts%d", root, stop);
        run = (struct rig_run){.threads = 1, .stop_after = stop};
        CHECK_INT(rig_train(&x, parts, &run, &err), ERR_INTERRUPTED);
        run = (struct rig_run){.threads = 1, .resume = true};
        CHECK_OK(rig_train(&x, parts, &run, &err), err);
        CHECK_STR(rig_metrics(parts), rig_metrics(whole));
        CHECK(rig_same_file(test_text("%s/last.safetensors", parts),
                            test_text("%s/last.safetensors", whole)));
    }
    experiment_free(&x);
}

TEST(plateau__without_validation_is_refused)
{
    struct experiment x;
    struct rig_run run = {.threads = 1};
    struct error err;
    rig_load(&x, SETTINGS(schedule, "data.validation=null"));
    CHECK_INT(rig_train(&x, test_text("%s/run", test_directory()), &run, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "train.schedule: plateau follows validation, and there is none");
    experiment_free(&x);
}
