/* rig.c - see rig.h. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "config/json.h"
#include "kernels/kernels.h"
#include "test.h"

static const char tiny[] =
    "{\"seed\": 3,\n"
    " \"data\": {\"format\": \"synthetic\", \"train_count\": 110, \"test_count\": 50,\n"
    "  \"validation\": {\"holdout\": 20}, \"augment\": {\"random_crop_padding\": 1, \"hflip\": "
    "0.5}},\n"
    " \"model\": {\"name\": \"vit\", \"image_size\": [12, 8], \"channels\": 1, \"classes\": 6,\n"
    "  \"patch_size\": 4, \"dim\": 24, \"depth\": 2, \"heads\": 3, \"mlp_ratio\": 2,\n"
    "  \"dropout\": 0.1, \"drop_path\": 0.2, \"attention\": \"standard\"},\n"
    " \"train\": {\"epochs\": 3, \"batch_size\": 8, \"accumulate\": 2, \"clip_norm\": 1,\n"
    "  \"ema\": {\"decay\": 0.9, \"warmup\": 5}, \"label_smoothing\": 0.1,\n"
    "  \"schedule\": {\"name\": \"cosine\", \"warmup_epochs\": 1}}}\n";

enum { MAX_SETTINGS = 16 };

static enum status load(struct experiment *x, const char *const *settings, struct error *err)
{
    struct error failure;
    const char *path = test_text("%s/tiny.json", test_directory());
    CHECK_OK(kernels_init(&failure), failure);
    CHECK_OK(file_write(path, tiny, sizeof tiny - 1, &failure), failure);
    int count = 0;
    while (settings && settings[count])
        count++;
    return experiment_load(x, path, settings, count, err);
}

void rig_load(struct experiment *x, const char *const *settings)
{
    struct error err;
    CHECK_OK(load(x, settings, &err), err);
}

enum status rig_refused(const char *const *settings, struct error *err)
{
    struct experiment x;
    enum status status = load(&x, settings, err);
    if (!status)
        experiment_free(&x);
    return status;
}

/* The run in progress and its stop flag. */
struct running {
    struct rig_run *run;
    int updates;
    volatile sig_atomic_t stop;
};

static void on_progress(void *context, const struct train_progress *p)
{
    struct running *r = context;
    if (p->epoch_done)
        return;
    if (++r->updates == r->run->stop_after)
        r->stop = 1;
    if (r->run->each)
        r->run->each();
}

static void on_note(void *context, const char *line)
{
    struct running *r = context;
    size_t at = strlen(r->run->said);
    snprintf(r->run->said + at, sizeof r->run->said - at, "%s\n", line);
}

enum status rig_train(const struct experiment *x, const char *directory, struct rig_run *run,
                      struct error *err)
{
    struct running r = {.run = run};
    run->said[0] = 0;
    const struct train_options options = {
        .output = directory,
        .resume = run->resume,
        .threads = run->threads ? run->threads : 1,
        .command_line = "attnbench train tiny.json",
        .progress = on_progress,
        .say = on_note,
        .context = &r,
        .stop = &r.stop,
    };
    return train_run(x, &options, &run->result, err);
}

enum status rig_init(struct params *p, const struct choice *model, const char *path,
                     const char **said, struct error *err)
{
    struct init_report r;
    init_report_begin(&r);
    enum status status = checkpoint_init(p, model, path, &r, err);
    const char *text = status ? "" : test_text("%s\n", init_report_summary(&r));
    for (int i = 0; i < INIT_LISTS && !status; i++)
        if (r.list[i].count)
            text = test_text("%s%s\n", text, init_report_line(&r, (enum init_list)i));
    if (said)
        *said = text;
    init_report_free(&r);
    return status;
}

const char *rig_text(const char *path)
{
    char *data = NULL;
    size_t size = 0;
    if (file_read(&data, &size, path, (size_t)1 << 24, NULL))
        return NULL;
    const char *kept = test_text("%s", data);
    free(data);
    return kept;
}

bool rig_same_file(const char *a, const char *b)
{
    char *data[2] = {NULL, NULL};
    size_t size[2] = {0, 0};
    struct error err;
    CHECK_OK(file_read(&data[0], &size[0], a, (size_t)1 << 24, &err), err);
    CHECK_OK(file_read(&data[1], &size[1], b, (size_t)1 << 24, &err), err);
    bool same = size[0] == size[1] && memcmp(data[0], data[1], size[0]) == 0;
    free(data[0]);
    free(data[1]);
    return same;
}

static bool is_measured(const char *key)
{
    static const char *const measured[] = {"img_per_sec", "seconds", "train_seconds", "wait_share",
                                           "peak_rss_bytes"};
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (strcmp(key, measured[i]) == 0)
            return true;
    return false;
}

static void add_line(struct json *out, const char *line, size_t length)
{
    struct json_value *root = NULL;
    struct error err;
    CHECK_OK(json_parse(&root, line, length, &err), err);
    const char *event = json_to_string(json_member(root, "event"));
    CHECK(event != NULL);
    if (strcmp(event, "start") != 0 && strcmp(event, "resume") != 0) {
        json_object(out, NULL);
        for (const struct json_value *v = json_first(root); v; v = json_next(v)) {
            if (is_measured(json_key(v)))
                continue;
            if (json_type(v) == JSON_NUMBER)
                json_number(out, json_key(v), json_to_number(v));
            else
                json_string(out, json_key(v), json_to_string(v));
        }
        json_end(out);
    }
    json_free(root);
}

const char *rig_metrics(const char *directory)
{
    const char *text = rig_text(test_text("%s/metrics.jsonl", directory));
    CHECK(text != NULL);
    struct json *out = json_create();
    json_array(out, NULL);
    while (*text) {
        const char *end = strchr(text, '\n');
        CHECK(end != NULL); /* no half line */
        add_line(out, text, (size_t)(end - text));
        text = end + 1;
    }
    json_end(out);
    const char *kept = test_text("%s", json_text(out));
    json_destroy(out);
    return kept;
}
