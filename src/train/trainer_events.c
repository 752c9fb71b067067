/* trainer_events.c - metrics.jsonl, one JSON object a line. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/timer.h"
#include "base/version.h"
#include "config/json.h"
#include "kernels/kernels.h"
#include "train/trainer_run.h"

static struct json *event_begin(const char *name)
{
    struct json *j = json_create();
    if (j) {
        json_object(j, NULL);
        json_string(j, "event", name);
    }
    return j;
}

/* Writes the line, as a new file or behind the others; frees j. */
static enum status event_write(struct trainer *t, struct json *j, bool anew, struct error *err)
{
    if (j)
        json_end(j);
    const char *text = j ? json_text(j) : NULL;
    char *line = text ? malloc(strlen(text) + 2) : NULL;
    enum status status;
    if (line) {
        struct train_state *s = &t->state;
        size_t length = (size_t)sprintf(line, "%s\n", text);
        status = anew ? file_write(t->files.metrics, line, length, err)
                      : file_append(t->files.metrics, line, length, err);
        if (!status) {
            s->metrics_crc32 = hash_crc32(anew ? 0 : (uint32_t)s->metrics_crc32, line, length);
            s->metrics_bytes = (anew ? 0 : s->metrics_bytes) + (long long)length;
        }
    } else {
        status = error_memory(err, 4096);
    }
    free(line);
    json_destroy(j);
    return status;
}

static void put_hex(struct json *j, const char *key, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    json_string(j, key, text);
}

enum status event_start(struct trainer *t, struct error *err)
{
    const struct network *n = t->network;
    char *config = experiment_text_without_paths(t->x);
    struct json *j = config ? event_begin("start") : NULL;
    if (!j) {
        free(config);
        return error_memory(err, 4096);
    }
    char cpu[128];
    cpu_name(cpu, sizeof cpu);
    json_string(j, "version", ATTNBENCH_VERSION);
    put_hex(j, "config_hash", hash_fnv(HASH_START, config, strlen(config)));
    put_hex(j, "dataset_fingerprint", t->splits.fingerprint);
    json_string(j, "cpu", cpu);
    json_string(j, "isa", kernels_isa());
    json_string(j, "blas", kernels_blas());
    json_int(j, "threads", n->threads);
    json_int(j, "lanes", n->params.lanes);
    json_int(j, "slice", n->train->options.batch);
    json_string(j, "precision", precision_name(t->x));
    json_string(j, "repeats", "the same bits for any number of threads");
    json_int(j, "params", (long long)params_counted(&n->params));
    json_number(j, "macs", n->macs);
    json_int(j, "train_samples", (long long)t->splits.train.count);
    if (t->val)
        json_int(j, "val_samples", (long long)t->splits.val.count);
    json_int(j, "test_samples", (long long)t->splits.test.count);
    json_string(j, "validation", trainer_validation(t));
    json_string(j, "data_note", dataset_note(t->splits.train.set));
    json_string(j, "command", t->options->command_line);
    free(config);
    return event_write(t, j, true, err);
}

enum status event_init(struct trainer *t, struct error *err)
{
    struct json *j = event_begin("init_from");
    if (j)
        init_report_json(&t->init, j);
    return event_write(t, j, false, err);
}

enum status event_resume(struct trainer *t, struct error *err)
{
    struct json *j = event_begin("resume");
    if (j) {
        json_int(j, "step", t->state.update);
        json_int(j, "epochs_done", t->state.epoch);
        json_int(j, "threads", t->network->threads);
        json_string(j, "version", ATTNBENCH_VERSION);
    }
    return event_write(t, j, false, err);
}

enum status event_check(struct trainer *t, struct error *err)
{
    const struct params *p = &t->network->params;
    char crc[16];
    snprintf(crc, sizeof crc, "%08" PRIx32, hash_crc32(0, p->values, p->total * sizeof(real)));
    struct json *j = event_begin("check");
    if (j) {
        json_int(j, "step", t->state.update);
        json_number(j, "loss", t->loss);
        json_string(j, "weights_crc32", crc);
    }
    return event_write(t, j, false, err);
}

/* A mean that may have nothing below it. */
static double ratio(double sum, double n)
{
    return n > 0 ? sum / n : (double)NAN;
}

enum status event_epoch(struct trainer *t, const struct validation_result *v, struct error *err)
{
    const struct train_state *s = &t->state;
    static const char *const keys[2][3] = {
        {"val_loss", "val_top1", "val_top5"},
        {"val_ema_loss", "val_ema_top1", "val_ema_top5"},
    };
    struct json *j = event_begin("epoch");
    if (!j)
        return error_memory(err, 4096);
    json_int(j, "epoch", s->epoch + 1);
    json_int(j, "step", s->update);
    json_number(j, "train_loss", ratio(s->loss_sum, (double)s->samples));
    json_number(j, "train_top1", trainer_top1(t));
    for (int kind = 0; kind < 2; kind++) {
        if (!v->done[kind])
            continue;
        json_number(j, keys[kind][0], v->loss[kind]);
        json_number(j, keys[kind][1], v->top1[kind]);
        json_number(j, keys[kind][2], v->top5[kind]);
    }
    if (v->done[0] && t->splits.validation == VALIDATION_TEST)
        json_string(j, "validation", trainer_validation(t));
    json_number(j, "lr", s->lr);
    json_number(j, "grad_norm", ratio(s->grad_norm_sum, (double)s->updates));
    json_number(j, "img_per_sec", ratio((double)s->samples, s->seconds));
    json_number(j, "seconds", s->seconds + v->seconds);
    json_number(j, "train_seconds", s->seconds);
    json_number(j, "wait_share", ratio(s->waited, s->seconds));
    json_int(j, "peak_rss_bytes", (long long)timer_peak_rss_bytes());
    return event_write(t, j, false, err);
}

enum status event_test(struct trainer *t, const struct final_test *f, struct error *err)
{
    struct json *j = event_begin("test");
    if (j) {
        json_string(j, "weights", f->weights);
        json_int(j, "epoch", f->epoch);
        json_number(j, "loss", f->loss);
        json_number(j, "top1", f->top1);
        json_number(j, "top5", f->top5);
        json_int(j, "n", f->n);
    }
    return event_write(t, j, false, err);
}
