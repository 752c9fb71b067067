/* schedule.c - warm-up, and what follows it. */
#include "optim/schedule.h"

#include <math.h>

struct schedule_options {
    double warmup_epochs, warmup_lr, min_lr;
    struct ints milestones; /* step alone */
    double gamma;
    double power; /* polynomial alone */
    int patience, cooldown; /* plateau alone */
    double threshold;
};

/* Where an update stands: t of total, both counted from the end of the warm-up; `epoch` from 0. */
struct moment {
    long long t, total, epoch, drops;
};

struct schedule {
    double (*rate)(const struct schedule_options *o, double lr, const struct moment *m);
    enum status (*check)(const struct schedule_options *o, struct error *err); /* or NULL */
};

#define SHARED_FIELDS                                                                              \
    FIELD_REAL(struct schedule_options, warmup_epochs, 0, 0, 1e6,                                  \
               "epochs in which the rate rises from warmup_lr to lr"),                             \
        FIELD_REAL(struct schedule_options, warmup_lr, 0, 0, 1e9,                                  \
                   "rate where the warm-up starts"),                                               \
        FIELD_REAL(struct schedule_options, min_lr, 0, 0, 1e9,                                     \
                   "rate below which it does not fall after the warm-up")

static const struct field constant_fields[] = {SHARED_FIELDS, FIELD_END};
static const struct field cosine_fields[] = {SHARED_FIELDS, FIELD_END};
static const struct field polynomial_fields[] = {
    SHARED_FIELDS,
    FIELD_REAL(struct schedule_options, power, 0.5, 0.01, 100,
               "of the share of updates that are left: 1 falls evenly"),
    FIELD_END,
};
static const struct field plateau_fields[] = {
    SHARED_FIELDS,
    FIELD_REAL(struct schedule_options, gamma, 0.1, 0, 1, "factor at each drop"),
    FIELD_INT(struct schedule_options, patience, 10, 0, 1000000,
              "epochs in a row without a better validation top-1 that are let pass"),
    FIELD_REAL(struct schedule_options, threshold, 1e-4, 0, 1,
               "share by which an accuracy has to be better to count"),
    FIELD_INT(struct schedule_options, cooldown, 0, 0, 1000000,
              "epochs behind a drop that do not count"),
    FIELD_END,
};
static const struct field step_fields[] = {
    SHARED_FIELDS,
    FIELD_INTS(struct schedule_options, milestones, "[]", 1, 1000000,
               "epochs after which the rate is multiplied by gamma"),
    FIELD_REAL(struct schedule_options, gamma, 0.1, 0, 1, "factor at each milestone"),
    FIELD_END,
};

static double constant_rate(const struct schedule_options *o, double lr, const struct moment *m)
{
    (void)o, (void)m;
    return lr;
}

static double cosine_rate(const struct schedule_options *o, double lr, const struct moment *m)
{
    const double pi = 3.14159265358979323846;
    double phase = pi * (double)m->t / (double)m->total;
    return o->min_lr + (lr - o->min_lr) * (1 + cos(phase)) / 2;
}

static double polynomial_rate(const struct schedule_options *o, double lr, const struct moment *m)
{
    return o->min_lr + (lr - o->min_lr) * pow(1 - (double)m->t / (double)m->total, o->power);
}

static double plateau_rate(const struct schedule_options *o, double lr, const struct moment *m)
{
    lr *= pow(o->gamma, (double)m->drops);
    return lr > o->min_lr ? lr : o->min_lr;
}

static double step_rate(const struct schedule_options *o, double lr, const struct moment *m)
{
    for (int i = 0; i < o->milestones.count; i++)
        if (m->epoch >= o->milestones.at[i])
            lr *= o->gamma;
    return lr > o->min_lr ? lr : o->min_lr;
}

static enum status step_check(const struct schedule_options *o, struct error *err)
{
    if (o->milestones.count == 0)
        return error_set(err, ERR_INPUT, "milestones: is empty, expected epochs as in [30, 60]");
    for (int i = 1; i < o->milestones.count; i++)
        if (o->milestones.at[i] <= o->milestones.at[i - 1])
            return error_set(err, ERR_INPUT, "milestones: %d follows %d, expected rising epochs",
                             o->milestones.at[i], o->milestones.at[i - 1]);
    return OK;
}

#define SCHEDULE(id, about, further)                                                               \
    static const struct schedule id##_schedule = {.rate = id##_rate, .check = further};
#include "optim/schedules.def"
#undef SCHEDULE

static const struct kind kinds[] = {
#define SCHEDULE(id, about, further)                                                               \
    {.name = #id,                                                                                  \
     .summary = about,                                                                             \
     .fields = id##_fields,                                                                        \
     .size = sizeof(struct schedule_options),                                                      \
     .impl = &id##_schedule},
#include "optim/schedules.def"
#undef SCHEDULE
};

const struct kind *schedule_kinds(int i)
{
    int count = (int)(sizeof kinds / sizeof kinds[0]);
    return i >= 0 && i < count ? &kinds[i] : NULL;
}

long long schedule_warmup(const struct choice *schedule, long long epoch_updates)
{
    const struct schedule_options *o = schedule->options;
    /* 0.29 * 100 is a little less than 29. */
    return (long long)floor(o->warmup_epochs * (double)epoch_updates + 1e-6);
}

double schedule_lr(const struct choice *schedule, double lr, long long t, long long total,
                   long long epoch_updates, const struct schedule_memory *memory)
{
    const struct schedule *s = schedule->kind->impl;
    const struct schedule_options *o = schedule->options;
    long long warmup = schedule_warmup(schedule, epoch_updates);
    if (t < warmup)
        return o->warmup_lr + (lr - o->warmup_lr) * (double)(t + 1) / (double)warmup;
    struct moment m = {t - warmup, total - warmup, t / epoch_updates, memory ? memory->drops : 0};
    return s->rate(o, lr, &m);
}

bool schedule_watches(const struct choice *schedule)
{
    const struct schedule *s = schedule->kind->impl;
    return s->rate == plateau_rate;
}

void schedule_watch(const struct choice *schedule, struct schedule_memory *memory, int epoch,
                    double top1)
{
    const struct schedule_options *o = schedule->options;
    if (!schedule_watches(schedule) || epoch <= o->warmup_epochs)
        return;
    if (memory->seen++ == 0 || top1 > memory->best * (1 + o->threshold)) {
        memory->best = top1;
        memory->bad = 0;
    } else {
        memory->bad++;
    }
    if (memory->rest) {
        memory->rest--;
        memory->bad = 0;
    }
    if (memory->bad > o->patience) {
        memory->drops++;
        memory->rest = o->cooldown;
        memory->bad = 0;
    }
}

enum status schedule_check(const struct choice *schedule, double lr, int epochs, struct error *err)
{
    const struct schedule *s = schedule->kind->impl;
    const struct schedule_options *o = schedule->options;
    if (o->warmup_epochs >= epochs)
        return error_set(err, ERR_INPUT, "warmup_epochs: %g is not below the %d epoch%s of the run",
                         o->warmup_epochs, epochs, epochs == 1 ? "" : "s");
    if (o->min_lr > lr)
        return error_set(err, ERR_INPUT, "min_lr: %g is above the learning rate %g", o->min_lr, lr);
    return s->check ? s->check(o, err) : OK;
}
