/* trainer.c - setting up a run, resuming it, and going through its parts. */
#include "train/trainer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "kernels/kernels.h"
#include "train/teacher.h"
#include "train/trainer_run.h"

void trainer_say(const struct trainer *t, const char *format, ...)
{
    if (!t->options->say)
        return;
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    t->options->say(t->options->context, text);
}

const char *trainer_validation(const struct trainer *t)
{
    static const char *const names[] = {
        [VALIDATION_HOLDOUT] = "holdout",
        [VALIDATION_TEST] = "test",
        [VALIDATION_VAL] = "val",
    };
    return t->val ? names[t->splits.validation] : NULL;
}

static enum status open_loader(struct loader **out, const struct trainer *t,
                               const struct part *part, bool train, struct error *err)
{
    if (!part->set || !part->count)
        return OK;
    const struct loader_options options = experiment_loader(t->x, train);
    return loader_create(out, part->set, &t->x->data, part->records, part->count, &options, err);
}

static enum status open_data(struct trainer *t, struct error *err)
{
    const struct model_shape s = model_of(&t->x->model)->shape(t->x->model.options);
    const struct image_shape images = {s.channels, s.height, s.width};
    enum status status =
        splits_open(&t->splits, &t->x->data, SPLITS_ALL, images, s.classes, t->x->seed, err);
    if (status)
        return status;
    if (!t->splits.train.count)
        return error_set(err, ERR_INPUT, "data: there are no training records");
    const char *empty = dataset_empty_class(t->splits.train.set);
    if (empty)
        return error_set(err, ERR_INPUT, "data: no training pictures of class \"%.60s\" (remove "
                                         "its folder or fill it)", empty);
    t->class_names = calloc((size_t)s.classes + 1, sizeof *t->class_names);
    if (!t->class_names)
        return error_memory(err, (size_t)s.classes * sizeof *t->class_names);
    for (int c = 0; c < s.classes; c++)
        t->class_names[c] = dataset_class_name(t->splits.train.set, c);
    return OK;
}

static enum status open_loaders(struct trainer *t, struct error *err)
{
    enum status status = open_loader(&t->train, t, &t->splits.train, true, err);
    if (!status)
        status = open_loader(&t->val, t, &t->splits.val, false, err);
    if (!status)
        status = open_loader(&t->test, t, &t->splits.test, false, err);
    if (status)
        return status;
    t->batches = (long long)loader_batches(t->train);
    t->epoch_updates = experiment_epoch_updates(t->x, t->batches);
    t->total_updates = t->epoch_updates * t->x->train.epochs;
    return OK;
}

static void say_init(struct trainer *t)
{
    if (!t->options->say)
        return;
    trainer_say(t, "init_from: %s", init_report_summary(&t->init));
    for (int i = 0; i < INIT_LISTS; i++) {
        const char *line = init_report_line(&t->init, (enum init_list)i);
        if (line)
            t->options->say(t->options->context, line); /* of any length */
    }
}

static enum status init_from(struct trainer *t, struct error *err)
{
    const char *path = t->x->train.init_from;
    if (!path)
        return OK;
    struct params *p = &t->network->params;
    enum status status = checkpoint_init(p, &t->x->model, path, &t->init, err);
    if (status) {
        error_prefix(err, "train.init_from: ");
        return status;
    }
    say_init(t);
    if (p->average)
        memcpy(p->average, p->values, p->total * sizeof *p->average);
    return OK;
}

/* State of a run that has not begun. */
static struct train_state first_state(const struct trainer *t)
{
    const struct score none = {(double)NAN, (double)NAN, 0};
    return (struct train_state){
        .fingerprint = t->splits.fingerprint,
        .teacher_crc32 = t->network->teacher ? teacher_crc32(t->network->teacher) : 0,
        .best = {none, none},
        .last = {none, none},
        .test_top1 = {(double)NAN, (double)NAN},
    };
}

static enum status lock(struct trainer *t, struct error *err)
{
    enum status status = file_lock_directory(&t->lock, t->files.directory, err);
    if (status)
        error_append(err, " (wait for it, or name another directory with --out DIR)");
    return status;
}

/* Null stands in checkpoints, which name no paths. */
static enum status check_teacher_path(const struct trainer *t, struct error *err)
{
    const struct distill_config *d = t->x->train.distill;
    if (!d || d->teacher)
        return OK;
    return config_error(t->x->config, err, "train.distill.teacher",
                        "is missing, expected a checkpoint to learn from");
}

static enum status check_teacher_classes(const struct trainer *t, struct error *err)
{
    if (!t->network->teacher)
        return OK;
    return teacher_check_classes(t->network->teacher, t->class_names, err);
}

/* Everything that can be refused, before anything is written. */
static enum status prepare(struct trainer *t, enum run_kind *kind, struct error *err)
{
    const char *directory = t->options->output ? t->options->output : t->x->output;
    if (!directory)
        return error_set(err, ERR_INPUT, "output: is missing (name a directory with --out DIR)");
    enum status status = run_files_init(&t->files, directory, err);
    if (!status && file_is_directory(directory))
        status = lock(t, err);
    if (!status)
        status = run_files_check(kind, &t->files, t->x, t->options->resume, err);
    if (!status)
        status = check_teacher_path(t, err);
    if (!status)
        status = network_plan(&t->network, t->x, NETWORK_TRAIN, t->x->train.batch_size,
                              t->options->threads, err);
    if (!status)
        status = network_check_memory(t->network, err);
    if (!status)
        status = open_data(t, err);
    if (!status)
        status = check_teacher_classes(t, err);
    if (!status)
        status = open_loaders(t, err);
    if (!status && schedule_watches(&t->x->train.schedule) && !t->val)
        status = config_error(t->x->config, err, "train.schedule",
                              "plateau follows validation, and there is none (set data.validation, or "
                              "another schedule)");
    if (status)
        return status;
    if (t->options->begin)
        t->options->begin(t->options->context);
    status = network_allocate(t->network, err);
    if (status)
        return status;
    t->network->stop = t->options->stop;
    t->state = first_state(t);
    status = step_create(&t->step, t->network, t->x->train.batch_size, err);
    if (!status)
        status = *kind == RUN_CONTINUE ? trainer_read_state(t, err) : init_from(t, err);
    return status;
}

static enum status write_config(const struct trainer *t, struct error *err)
{
    char *output = file_absolute(t->files.directory);
    char *text = output ? experiment_text_with_output(t->x, output) : NULL;
    free(output);
    if (!text)
        return error_memory(err, 4096);
    struct file_part parts[] = {{text, strlen(text)}, {"\n", 1}};
    enum status status = file_write_parts(t->files.config, parts, 2, err);
    free(text);
    return status;
}

/* The directory, config.json and metrics.jsonl as they are to be when training starts. */
static enum status begin(struct trainer *t, enum run_kind kind, struct error *err)
{
    enum status status = file_make_directory(t->files.directory, err);
    if (!status && t->lock < 0)
        status = lock(t, err);
    if (!status && kind == RUN_NEW) /* another process may have come first */
        status = run_files_check(&kind, &t->files, t->x, false, err);
    if (!status)
        status = write_config(t, err);
    if (status)
        return status;
    for (int i = 0; i < SPLITS_COUNT; i++)
        if (t->splits.sets[i] && dataset_note(t->splits.sets[i]))
            trainer_say(t, "data: %s", dataset_note(t->splits.sets[i]));
    if (t->val && t->splits.validation == VALIDATION_TEST)
        trainer_say(t, "validation is the official test set (data.validation is \"test\")");
    if (kind == RUN_RESTART)
        trainer_say(t, "%s: nothing was saved yet, starting anew", t->files.directory);
    if (kind != RUN_CONTINUE) {
        status = event_start(t, err);
        return status || !t->x->train.init_from ? status : event_init(t, err);
    }

    if (t->state.epoch < t->x->train.epochs)
        trainer_say(t, "%s: resumed in epoch %d after step %lld", t->files.directory,
                    t->state.epoch + 1, t->state.update);
    else
        trainer_say(t, "%s: resumed after the last epoch", t->files.directory);
    status = file_truncate(t->files.metrics, t->state.metrics_bytes, err);
    return status ? status : event_resume(t, err);
}

static void fill_result(const struct trainer *t, struct train_result *r)
{
    const struct train_state *s = &t->state;
    r->params = (long long)params_counted(&t->network->params);
    r->macs = t->network->macs;
    r->seconds = s->total_seconds;
    r->last.val_top1 = s->last[0].val_top1;
    r->last.test_top1 = s->test_top1[0];
    r->best.val_top1 = s->best[0].val_top1;
    r->best.test_top1 = s->test_top1[1];
}

static void trainer_free(struct trainer *t)
{
    loader_destroy(t->train);
    loader_destroy(t->val);
    loader_destroy(t->test);
    splits_close(&t->splits);
    step_free(&t->step);
    network_destroy(t->network);
    free(t->class_names);
    run_files_free(&t->files);
    init_report_free(&t->init);
    file_unlock(t->lock);
}

enum status train_run(const struct experiment *x, const struct train_options *options,
                      struct train_result *result, struct error *err)
{
    struct trainer t = {.x = x, .options = options, .lock = -1};
    enum run_kind kind = RUN_NEW;
    init_report_begin(&t.init);
    kernels_thread_init();
    enum status status = prepare(&t, &kind, err);
    if (status && err)
        status = experiment_locate(x, err);
    if (!status && t.state.complete) {
        trainer_say(&t, "%s: the run is complete", t.files.directory);
    } else if (!status) {
        status = begin(&t, kind, err);
        if (!status)
            status = trainer_epochs(&t, err);
        if (!status && (status = trainer_finish(&t, err)) == ERR_INTERRUPTED)
            error_set(err, status, "%s: interrupted in the final test (--resume goes on)",
                      t.files.directory);
    }
    if (!status)
        fill_result(&t, result);
    trainer_free(&t);
    return status;
}
