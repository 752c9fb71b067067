/* trainer_finish.c - the official test set, once, and the summary. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/timer.h"
#include "config/json.h"
#include "train/trainer_run.h"

static enum status run_test(struct trainer *t, struct final_test *f, const real *values,
                            struct error *err)
{
    struct evaluation e;
    enum status status = evaluate(&e, t->network, t->test, values, NULL, NULL, err);
    if (status)
        return status;
    f->done = true;
    f->loss = e.loss;
    f->top1 = e.top1;
    f->top5 = e.top5;
    f->n = e.n;
    evaluation_free(&e);
    return OK;
}

/* Tests last and best of the weights (kind 0) or of their average (1), and writes the events. */
static enum status test_pair(struct trainer *t, int kind, struct final_test *last,
                             struct final_test *best, struct error *err)
{
    const struct params *p = &t->network->params;
    const real *values = kind ? p->average : p->values;
    last->epoch = t->state.epoch;
    best->epoch = t->state.best[kind].epoch;
    enum status status = run_test(t, last, values, err);
    if (!status)
        status = event_test(t, last, err);
    if (status || !best->epoch)
        return status;
    if (best->epoch == last->epoch) {
        const char *weights = best->weights;
        *best = *last;
        best->weights = weights;
    } else {
        /* Gradients are no longer needed, and there is room for all values but where many are
         * frozen. */
        bool enough = (size_t)p->lanes * p->trained >= p->total;
        real *own = enough ? NULL : malloc(p->total * sizeof *own);
        real *stored = enough ? p->grads : own;
        if (!stored)
            return error_memory(err, p->total * sizeof *stored);
        status = checkpoint_load_values(p, &t->x->model, t->files.best[kind], stored, NULL, err);
        if (!status)
            status = run_test(t, best, stored, err);
        free(own);
    }
    return status ? status : event_test(t, best, err);
}

/* Without validation there are no val_* fields. */
static void put_scores(struct json *j, const char *key, const struct score *s, bool validated,
                       const struct final_test *f)
{
    json_object(j, key);
    json_int(j, "epoch", s->epoch);
    if (validated) {
        json_number(j, "val_top1", s->val_top1);
        json_number(j, "val_loss", s->val_loss);
    }
    json_number(j, "test_top1", f->done ? f->top1 : (double)NAN);
    json_number(j, "test_loss", f->done ? f->loss : (double)NAN);
    json_number(j, "test_top5", f->done ? f->top5 : (double)NAN);
    json_end(j);
}

static enum status write_summary(const struct trainer *t, const struct final_test *tests,
                                 struct error *err)
{
    const struct train_state *s = &t->state;
    struct json *j = json_create();
    if (!j)
        return error_memory(err, 4096);
    json_object(j, NULL);
    json_int(j, "epochs", s->epoch);
    json_int(j, "steps", s->update);
    json_int(j, "params", (long long)params_counted(&t->network->params));
    json_number(j, "macs", t->network->macs);
    json_number(j, "seconds", s->total_seconds);
    json_number(j, "img_per_sec",
                s->train_seconds > 0 ? (double)s->total_samples / s->train_seconds : (double)NAN);
    json_int(j, "peak_rss_bytes", (long long)timer_peak_rss_bytes());
    json_int(j, "threads", t->network->threads);
    json_string(j, "validation", trainer_validation(t));
    json_string(j, "data_note", dataset_note(t->splits.train.set));
    put_scores(j, "last", &s->last[0], t->val, &tests[FINAL_LAST]);
    if (s->best[0].epoch)
        put_scores(j, "best", &s->best[0], t->val, &tests[FINAL_BEST]);
    if (t->network->params.average)
        put_scores(j, "last_ema", &s->last[1], t->val, &tests[FINAL_LAST_EMA]);
    if (s->best[1].epoch)
        put_scores(j, "best_ema", &s->best[1], t->val, &tests[FINAL_BEST_EMA]);
    json_end(j);
    const char *text = json_text(j);
    struct file_part parts[] = {{text, text ? strlen(text) : 0}, {"\n", 1}};
    enum status status =
        text ? file_write_parts(t->files.summary, parts, 2, err) : error_memory(err, 4096);
    json_destroy(j);
    return status;
}

enum status trainer_finish(struct trainer *t, struct error *err)
{
    struct final_test tests[FINAL_COUNT] = {
        [FINAL_LAST].weights = "last",
        [FINAL_BEST].weights = "best",
        [FINAL_LAST_EMA].weights = "last.ema",
        [FINAL_BEST_EMA].weights = "best.ema",
    };
    enum status status = OK;
    if (t->test)
        status = test_pair(t, 0, &tests[FINAL_LAST], &tests[FINAL_BEST], err);
    if (!status && t->test && t->network->params.average)
        status = test_pair(t, 1, &tests[FINAL_LAST_EMA], &tests[FINAL_BEST_EMA], err);
    if (!status)
        status = write_summary(t, tests, err);
    if (status)
        return status;
    t->state.complete = true;
    for (int i = 0; i < 2; i++)
        t->state.test_top1[i] = tests[i].done ? tests[i].top1 : (double)NAN;
    return trainer_save(t, err);
}
