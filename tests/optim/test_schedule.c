#include "test.h"

#include <math.h>

#include "config/config.h"
#include "optim/schedule.h"

struct holder {
    struct choice schedule;
};

static const struct field holder_fields[] = {
    FIELD_CHOICE(struct holder, schedule, schedule_kinds, "cosine", ""),
    FIELD_END,
};

/* The schedule of a JSON text; lives until the program ends. */
static struct choice schedule_of(const char *text)
{
    static struct arena memory;
    struct config *c = NULL;
    struct error err;
    struct holder h;
    CHECK_OK(config_parse(&c, test_text("{\"schedule\": %s}", text), "test", &err), err);
    CHECK_OK(config_read(c, holder_fields, &h, &memory, &err), err);
    config_destroy(c);
    return h.schedule;
}

TEST(schedule__cosine_starts_after_the_warm_up_and_ends_near_its_floor)
{
    struct choice s = schedule_of("{\"name\": \"cosine\", \"warmup_epochs\": 2, \"min_lr\": 1e-5}");
    const double lr = 1e-3, floor = 1e-5, pi = acos(-1);
    struct error err;
    CHECK_OK(schedule_check(&s, lr, 10, &err), err);
    CHECK_INT(schedule_warmup(&s, 5), 10);
    double before = 0;
    for (int t = 0; t < 50; t++) {
        double want =
            t < 10 ? lr * (t + 1) / 10 : floor + (lr - floor) * (1 + cos(pi * (t - 10) / 40.0)) / 2;
        double got = schedule_lr(&s, lr, t, 50, 5, NULL);
        test_about("update %d", t);
        CHECK_NEAR(got, want, 1e-15);
        CHECK(fabs(got - before) <= lr / 10 + 1e-15);
        before = got;
    }
    CHECK_NEAR(schedule_lr(&s, lr, 9, 50, 5, NULL), lr, 1e-18);
    CHECK_NEAR(schedule_lr(&s, lr, 10, 50, 5, NULL), lr, 1e-18);
    CHECK(before <= 1.2e-5 && before >= floor);
}

TEST(schedule__warm_up_as_long_as_the_run_is_refused)
{
    struct choice s = schedule_of("{\"name\": \"cosine\", \"warmup_epochs\": 12}");
    struct error err;
    CHECK_INT(schedule_check(&s, 1e-3, 10, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "warmup_epochs: 12");
    CHECK_INT(schedule_check(&s, 1e-3, 12, &err), ERR_INPUT);
    CHECK_OK(schedule_check(&s, 1e-3, 13, &err), err);
}

TEST(schedule__warm_up_starts_from_warmup_lr)
{
    struct choice s =
        schedule_of("{\"name\": \"constant\", \"warmup_epochs\": 0.4, \"warmup_lr\": 0.2}");
    CHECK_INT(schedule_warmup(&s, 10), 4);
    CHECK_NEAR(schedule_lr(&s, 1, 0, 100, 10, NULL), 0.4, 1e-15);
    CHECK_NEAR(schedule_lr(&s, 1, 1, 100, 10, NULL), 0.6, 1e-15);
    CHECK_NEAR(schedule_lr(&s, 1, 3, 100, 10, NULL), 1, 1e-15);
    CHECK_NEAR(schedule_lr(&s, 1, 99, 100, 10, NULL), 1, 0);
}

TEST(schedule__part_of_an_epoch_is_not_lost_to_rounding)
{
    struct choice s = schedule_of("{\"name\": \"constant\", \"warmup_epochs\": 0.29}");
    CHECK_INT(schedule_warmup(&s, 100), 29);
}

TEST(schedule__step_multiplies_at_each_milestone_down_to_its_floor)
{
    struct choice s = schedule_of("{\"name\": \"step\", \"milestones\": [2, 3, 5], \"gamma\": 0.1,"
                                  " \"min_lr\": 0.005}");
    const double want[] = {1, 1, 0.1, 0.01, 0.01, 0.005, 0.005};
    for (int epoch = 0; epoch < 7; epoch++) {
        test_about("epoch %d", epoch);
        CHECK_NEAR(schedule_lr(&s, 1, 4 * epoch, 28, 4, NULL), want[epoch], 1e-15);
        CHECK_NEAR(schedule_lr(&s, 1, 4 * epoch + 3, 28, 4, NULL), want[epoch], 1e-15);
    }
}

TEST(schedule__what_does_not_fit_together_is_refused)
{
    struct error err;
    struct choice none = schedule_of("{\"name\": \"step\"}");
    CHECK_INT(schedule_check(&none, 1, 9, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "milestones: ");
    struct choice falling = schedule_of("{\"name\": \"step\", \"milestones\": [4, 4]}");
    CHECK_INT(schedule_check(&falling, 1, 9, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "milestones: 4 follows 4");
    struct choice high = schedule_of("{\"name\": \"cosine\", \"min_lr\": 0.5}");
    CHECK_INT(schedule_check(&high, 0.1, 9, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "min_lr: 0.5");
}

TEST(schedule__polynomial_falls_by_a_power_of_what_is_left)
{
    struct choice s = schedule_of("{\"name\": \"polynomial\", \"warmup_epochs\": 1, \"min_lr\": 1e-4,"
                                  " \"power\": 2}");
    struct choice plain = schedule_of("\"polynomial\"");
    CHECK_NEAR(schedule_lr(&s, 1e-2, 4, 45, 5, NULL), 1e-2, 1e-17);
    for (int t = 5; t < 45; t++) {
        double left = 1 - (t - 5) / 40.0;
        CHECK_NEAR(schedule_lr(&s, 1e-2, t, 45, 5, NULL), 1e-4 + (1e-2 - 1e-4) * left * left, 1e-16);
        CHECK_NEAR(schedule_lr(&plain, 1, t, 45, 5, NULL), sqrt(1 - t / 45.0), 1e-15);
    }
}

/* Epochs 1 to 13 against torch.optim.lr_scheduler.ReduceLROnPlateau("max", factor 0.5, patience 1,
 * threshold 0.01, cooldown 2): drops behind each. The first epoch is warm-up. */
TEST(schedule__plateau_drops_where_validation_stops_getting_better)
{
    static const double top1[] = {90, 50, 50.4, 50.5, 50.51, 50, 50, 50, 60, 60, 60, 61, 60};
    static const int drops[] = {0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2};
    struct choice s = schedule_of("{\"name\": \"plateau\", \"warmup_epochs\": 1, \"gamma\": 0.5,"
                                  " \"patience\": 1, \"threshold\": 0.01, \"cooldown\": 2,"
                                  " \"min_lr\": 0.3}");
    struct schedule_memory m = {0};
    CHECK(schedule_watches(&s));
    for (int e = 0; e < 13; e++) {
        schedule_watch(&s, &m, e + 1, top1[e]);
        test_about("epoch %d", e + 1);
        CHECK_INT(m.drops, drops[e]);
        CHECK_NEAR(schedule_lr(&s, 1, 5 * (e + 1), 65, 5, &m), fmax(0.3, pow(0.5, (double)m.drops)), 0);
    }
    struct choice other = schedule_of("\"cosine\"");
    CHECK(!schedule_watches(&other));
}
