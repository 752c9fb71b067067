/* schedule.h - learning rates. One schedule: a line in schedules.def and its functions. */
#ifndef OPTIM_SCHEDULE_H
#define OPTIM_SCHEDULE_H

#include "base/status.h"
#include "config/field.h"

const struct kind *schedule_kinds(int i);

/* Learning rate of update t (0 .. total - 1) with `epoch_updates` updates an epoch; `lr` is the
 * optimizer's. With W warm-up updates, t < W: warmup_lr + (lr - warmup_lr)(t + 1) / W; after that
 *   constant  lr
 *   cosine    min + (lr - min)(1 + cos(pi (t - W) / (total - W))) / 2
 *   polynomial  min + (lr - min)(1 - (t - W) / (total - W))^power
 *   step      max(min, lr gamma^k), k the milestones (in epochs) that lie behind. */
double schedule_lr(const struct choice *schedule, double lr, long long t, long long total,
                   long long epoch_updates);

/* ERR_INPUT "KEY: WHAT (HINT)" where the warm-up is not shorter than the run, min_lr is above lr,
 * or milestones are missing or do not rise. */
MUST_USE enum status schedule_check(const struct choice *schedule, double lr, int epochs,
                                    struct error *err);

/* Number of warm-up updates: warmup_epochs times epoch_updates, rounded down. */
long long schedule_warmup(const struct choice *schedule, long long epoch_updates);

#endif
