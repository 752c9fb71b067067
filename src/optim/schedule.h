/* schedule.h - learning rates. One schedule: a line in schedules.def and its functions. */
#ifndef OPTIM_SCHEDULE_H
#define OPTIM_SCHEDULE_H

#include "base/status.h"
#include "config/field.h"

const struct kind *schedule_kinds(int i);

/* What plateau has seen, all 0 before the first epoch. */
struct schedule_memory {
    double best;           /* validation accuracy */
    long long seen, bad;   /* epochs: all that counted, the latest ones in a row without a new best */
    long long rest, drops; /* epochs of cooldown that are left; how often the rate fell */
};

/* Learning rate of update t (0 .. total - 1) with `epoch_updates` updates an epoch; `lr` is the
 * optimizer's. With W warm-up updates, t < W: warmup_lr + (lr - warmup_lr)(t + 1) / W; after that
 *   constant  lr
 *   cosine    min + (lr - min)(1 + cos(pi (t - W) / (total - W))) / 2
 *   polynomial  min + (lr - min)(1 - (t - W) / (total - W))^power
 *   step      max(min, lr gamma^k), k the milestones (in epochs) that lie behind
 *   plateau   max(min, lr gamma^k), k the drops of `memory` (NULL: none). */
double schedule_lr(const struct choice *schedule, double lr, long long t, long long total,
                   long long epoch_updates, const struct schedule_memory *memory);

/* Whether the schedule follows validation. */
bool schedule_watches(const struct choice *schedule);

/* Tells it the validation accuracy of epoch `epoch`, from 1. Epochs of the warm-up do not count. The first
 * one, and one that is above best (1 + threshold), is the new best; after more than `patience` others in a
 * row the rate drops. Of the `cooldown` epochs behind a drop none counts as one of those. PyTorch's
 * ReduceLROnPlateau, mode max, as timm calls it. */
void schedule_watch(const struct choice *schedule, struct schedule_memory *memory, int epoch,
                    double top1);

/* ERR_INPUT "KEY: WHAT (HINT)" where the warm-up is not shorter than the run, min_lr is above lr,
 * or milestones are missing or do not rise. */
MUST_USE enum status schedule_check(const struct choice *schedule, double lr, int epochs,
                                    struct error *err);

/* Number of warm-up updates: warmup_epochs times epoch_updates, rounded down. */
long long schedule_warmup(const struct choice *schedule, long long epoch_updates);

#endif
