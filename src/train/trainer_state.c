/* trainer_state.c - the state of a run that goes on, held against the run. */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/hash.h"
#include "train/teacher.h"
#include "train/trainer_run.h"

static bool is_amount(double value)
{
    return isfinite(value) && value >= 0;
}

static bool is_percent_or_none(double value)
{
    return isnan(value) || (value >= 0 && value <= 100);
}

static bool scores_possible(const struct train_state *s)
{
    for (int kind = 0; kind < 2; kind++) {
        const struct score *best = &s->best[kind], *last = &s->last[kind];
        if (best->epoch > s->epoch || last->epoch > s->epoch)
            return false;
        if (best->epoch && !(isfinite(best->val_top1) && isfinite(best->val_loss)))
            return false;
        if (!is_percent_or_none(best->val_top1) || !is_percent_or_none(last->val_top1) ||
            !is_percent_or_none(s->test_top1[kind]))
            return false;
    }
    return true;
}

/* What is counted is a function of the place; what is measured must be an amount. */
static const char *what_is_impossible(const struct trainer *t)
{
    const struct train_state *s = &t->state;
    const struct train_config *c = &t->x->train;
    long long all = (long long)loader_samples(t->train);
    long long updates = experiment_epoch_updates(t->x, s->position);
    long long samples = s->position * c->batch_size;
    if (s->epoch > c->epochs || (s->epoch == c->epochs && s->position))
        return "its epoch";
    if (s->position > t->batches || (s->position < t->batches && s->position % c->accumulate))
        return "its position in the epoch";
    if (s->update != s->epoch * t->epoch_updates + updates || s->updates != updates)
        return "its number of updates";
    if (s->samples != (samples < all ? samples : all) || s->correct > s->samples ||
        s->total_samples != s->epoch * all)
        return "its number of samples";
    if (!is_amount(s->loss_sum) || !is_amount(s->grad_norm_sum) || !is_amount(s->lr))
        return "a sum or rate";
    if (!is_amount(s->seconds) || !is_amount(s->waited) || !is_amount(s->total_seconds) ||
        !is_amount(s->train_seconds))
        return "a time";
    if (schedule_watches(&c->schedule) &&
        (s->plateau.seen < 0 || s->plateau.seen > s->epoch || s->plateau.bad > s->plateau.seen ||
         s->plateau.drops > s->plateau.seen || !is_percent_or_none(s->plateau.best)))
        return "what its schedule remembers";
    if (!scores_possible(s))
        return "a score or its epoch";
    if (s->complete && s->epoch != c->epochs)
        return "being complete";
    return NULL;
}

static enum status check_metrics(struct trainer *t, struct error *err)
{
    const char *hint = "restore the file, or start a new run with --out DIR";
    struct train_state *s = &t->state;
    const char *path = t->files.metrics;
    char *text = NULL;
    size_t size = 0;
    if (!file_exists(path))
        return error_set(err, ERR_INPUT, "%s: is missing, the run cannot go on without it (%s)",
                         path, hint);
    enum status status = file_read(&text, &size, path, (size_t)1 << 40, err);
    if (status)
        return status;
    if ((long long)size < s->metrics_bytes)
        status = error_set(err, ERR_INPUT, "%s: has %zu bytes, fewer than the %lld of the run (%s)",
                           path, size, s->metrics_bytes, hint);
    long long crc = status ? 0 : hash_crc32(0, text, (size_t)s->metrics_bytes);
    if (!status && s->metrics_crc32 >= 0 && crc != s->metrics_crc32)
        status = error_set(err, ERR_INPUT, "%s: was altered since the run wrote it (%s)", path,
                           hint);
    s->metrics_crc32 = crc; /* a version that kept none may have written the state */
    free(text);
    return status;
}

enum status trainer_read_state(struct trainer *t, struct error *err)
{
    enum status status = state_read(t->files.state, t->network, &t->state, err);
    if (status)
        return status;
    if (t->state.fingerprint != t->splits.fingerprint)
        return error_set(err, ERR_INPUT,
                         "%s: the data are not those that the run began with (fingerprint %016llx, "
                         "now %016llx)",
                         t->files.state, (unsigned long long)t->state.fingerprint,
                         (unsigned long long)t->splits.fingerprint);
    const struct teacher *teacher = t->network->teacher;
    long long crc = teacher ? teacher_crc32(teacher) : 0;
    if (t->state.teacher_crc32 >= 0 && t->state.teacher_crc32 != crc)
        return error_set(err, ERR_INPUT,
                         "%s: train.distill.teacher has other weights than when the run began (restore "
                         "its file, or start a new run with --out DIR)",
                         t->files.state);
    const char *what = what_is_impossible(t);
    if (what)
        return error_set(err, ERR_INPUT,
                         "%s: is damaged: %s is impossible in this run (restore it from a copy, or "
                         "start a new run with --out DIR)",
                         t->files.state, what);
    return t->state.complete ? OK : check_metrics(t, err);
}
