/* trainer_epoch.c - updates and validation, epoch by epoch. */
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/timer.h"
#include "train/trainer_run.h"

enum { CHECKED_UPDATES = 10 }; /* updates whose weights are summed up in metrics.jsonl */

static bool is_stopped(const struct trainer *t)
{
    return t->options->stop && *t->options->stop;
}

double trainer_lr(const struct trainer *t)
{
    const struct train_config *c = &t->x->train;
    return schedule_lr(&c->schedule, optimizer_base_of(&c->optimizer)->lr, t->state.update,
                       t->total_updates, t->epoch_updates, &t->state.plateau);
}

/* Says where training ended: err holds what is not finite. */
static enum status diverged(const struct trainer *t, double lr, struct error *err)
{
    error_prefix(err, "%s: epoch %d, step %lld: ", t->files.directory, t->state.epoch + 1,
                 t->state.update + 1);
    error_append(err, " (learning rate %g, gradient norm %g", lr, t->step.grad_norm);
    if (t->step.bad[0])
        error_append(err, ", first in %s", t->step.bad);
    if (file_exists(t->files.last[0]))
        error_append(err, "; the last good checkpoint is %s", t->files.last[0]);
    error_append(err, "; lower train.optimizer.lr or set train.clip_norm)");
    return ERR_NUMERIC;
}

/* Samples in the window that starts at batch `first` and has `batches` of them. */
static int window_samples(const struct trainer *t, long long first, long long batches)
{
    long long size = t->x->train.batch_size;
    long long end = (first + batches) * size, all = (long long)loader_samples(t->train);
    return (int)((end < all ? end : all) - first * size);
}

static enum status run_update(struct trainer *t, struct error *err)
{
    struct train_state *s = &t->state;
    long long left = t->batches - s->position;
    long long batches = left < t->x->train.accumulate ? left : t->x->train.accumulate;
    int window = window_samples(t, s->position, batches);
    double lr = trainer_lr(t);
    const struct batch *b = NULL;
    enum status status = OK;
    t->step.progress = (double)s->update / (double)t->total_updates;
    for (long long i = 0; i < batches && !status; i++) {
        status = loader_next(t->train, &b, err);
        if (!status)
            status = step_batch(&t->step, b, window, s->update, err);
    }
    if (!status)
        status = step_update(&t->step, b, lr, s->update, err);
    if (status)
        return status == ERR_NUMERIC ? diverged(t, lr, err) : status;
    s->position += batches;
    s->update++;
    s->updates++;
    s->samples += window;
    s->loss_sum += t->step.loss_sum;
    s->correct += t->step.correct;
    s->grad_norm_sum += t->step.grad_norm;
    s->lr = lr;
    t->loss = t->step.loss_sum / window;
    return OK;
}

double trainer_top1(const struct trainer *t)
{
    const struct train_state *s = &t->state;
    if (!s->samples || augment_mixes(&t->x->data.augment))
        return (double)NAN;
    return 100 * (double)s->correct / (double)s->samples;
}

static struct train_progress progress_of(const struct trainer *t)
{
    const struct train_state *s = &t->state;
    long long done = s->update - t->first_update, left = t->total_updates - s->update;
    double elapsed = timer_seconds() - t->started, samples = (double)s->samples;
    return (struct train_progress){
        .epoch = s->epoch + 1,
        .epochs = t->x->train.epochs,
        .step = s->position,
        .steps = t->batches,
        .loss = s->samples ? s->loss_sum / samples : (double)NAN,
        .lr = s->lr,
        .images_per_second = s->seconds > 0 ? samples / s->seconds : (double)NAN,
        .eta_seconds = done ? elapsed / (double)done * (double)left : (double)NAN,
        .val_top1 = (double)NAN,
        .val_loss = (double)NAN,
        .train_top1 = trainer_top1(t),
        .seconds = s->seconds,
        .wait_share = s->seconds > 0 ? s->waited / s->seconds : 0,
    };
}

static void tell(const struct trainer *t, const struct train_progress *p)
{
    if (t->options->progress)
        t->options->progress(t->options->context, p);
}

/* The rest of the epoch's updates. */
static enum status run_updates(struct trainer *t, struct error *err)
{
    struct train_state *s = &t->state;
    enum status status = loader_start(t->train, s->epoch, (size_t)s->position, err);
    double clock = timer_seconds();
    t->waited_before = s->waited;
    while (!status && s->position < t->batches && !is_stopped(t)) {
        status = run_update(t, err);
        double now = timer_seconds();
        s->seconds += now - clock;
        clock = now;
        s->waited = t->waited_before + loader_waited(t->train);
        if (!status) {
            struct train_progress p = progress_of(t);
            tell(t, &p);
        }
        if (!status && s->update <= CHECKED_UPDATES) {
            status = event_check(t, err);
            clock = timer_seconds(); /* reading all weights is no training */
        }
    }
    if (!status && is_stopped(t))
        status = error_set(err, ERR_INTERRUPTED, "interrupted");
    return status;
}

static enum status validate(struct trainer *t, struct validation_result *v, struct error *err)
{
    const real *values[2] = {t->network->params.values, t->network->params.average};
    for (int kind = 0; kind < 2 && t->val; kind++) {
        struct evaluation e;
        if (!values[kind])
            continue;
        enum status status = evaluate(&e, t->network, t->val, values[kind], NULL, NULL, err);
        if (status)
            return status;
        v->done[kind] = true;
        v->loss[kind] = e.loss;
        v->top1[kind] = e.top1;
        v->top5[kind] = e.top5;
        v->seconds += e.seconds;
        evaluation_free(&e);
        if (!isfinite(v->loss[kind])) {
            status = error_set(err, ERR_NUMERIC, "the validation loss is not finite");
            error_prefix(err, "%s: epoch %d, step %lld: ", t->files.directory, t->state.epoch + 1,
                         t->state.update);
            error_append(err,
                         " (learning rate %g, gradient norm %g; lower train.optimizer.lr or "
                         "set train.clip_norm)",
                         t->state.lr, t->step.grad_norm);
            return status;
        }
    }
    return OK;
}

/* Notes the scores of the epoch and keeps its weights where they are the best so far. */
static enum status keep_best(struct trainer *t, const struct validation_result *v,
                             struct error *err)
{
    struct train_state *s = &t->state;
    for (int kind = 0; kind < 2; kind++) {
        struct score score = {(double)NAN, (double)NAN, s->epoch + 1};
        if (v->done[kind]) {
            score.val_top1 = v->top1[kind];
            score.val_loss = v->loss[kind];
        }
        s->last[kind] = score;
        if (!v->done[kind] || (s->best[kind].epoch && !(score.val_top1 > s->best[kind].val_top1)))
            continue;
        enum status status = trainer_save_best(t, kind, err);
        if (status)
            return status;
        s->best[kind] = score;
    }
    return OK;
}

static void next_epoch(struct train_state *s, const struct validation_result *v)
{
    s->total_seconds += s->seconds + v->seconds;
    s->train_seconds += s->seconds;
    s->total_samples += s->samples;
    s->epoch++;
    s->position = 0;
    s->loss_sum = s->grad_norm_sum = s->seconds = s->waited = 0;
    s->correct = s->samples = s->updates = 0;
}

/* Validation, metrics and checkpoints after the last update of an epoch. */
static enum status end_epoch(struct trainer *t, struct error *err)
{
    struct train_state *s = &t->state;
    struct validation_result v = {.done = {false, false}};
    enum status status = validate(t, &v, err);
    if (!status)
        status = keep_best(t, &v, err);
    if (!status)
        status = event_epoch(t, &v, err);
    if (status)
        return status;
    struct train_progress p = progress_of(t);
    p.epoch_done = true;
    p.seconds += v.seconds;
    if (v.done[0]) {
        p.val_top1 = v.top1[0];
        p.val_loss = v.loss[0];
    }
    tell(t, &p);
    if (v.done[0])
        schedule_watch(&t->x->train.schedule, &s->plateau, s->epoch + 1, v.top1[0]);
    next_epoch(s, &v);
    if (s->epoch % t->x->train.checkpoint_every && s->epoch < t->x->train.epochs)
        return OK;
    return trainer_save(t, err);
}

enum status trainer_epochs(struct trainer *t, struct error *err)
{
    t->started = timer_seconds();
    t->first_update = t->state.update;
    enum status status = OK;
    while (!status && t->state.epoch < t->x->train.epochs) {
        status = run_updates(t, err);
        if (!status)
            status = end_epoch(t, err);
    }
    if (status != ERR_INTERRUPTED)
        return status;
    struct error failure;
    enum status saved = trainer_save(t, &failure);
    if (saved)
        return error_set(err, saved, "%s", failure.text);
    return error_set(err, ERR_INTERRUPTED,
                     "%s: interrupted in epoch %d, and saved (--resume goes on)",
                     t->files.directory, t->state.epoch + 1);
}
