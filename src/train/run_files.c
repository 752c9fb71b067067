/* run_files.c - names, and who may write where. */
#include "train/run_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "train/checkpoint.h"

/* Keys that change nothing in what a run computes; moved data are told by their fingerprint. */
static const char *const neutral_keys[] = {
    "output", "data.workers", "data.path", "train.checkpoint_every", NULL,
};

enum status run_files_init(struct run_files *f, const char *directory, struct error *err)
{
    *f = (struct run_files){0};
    arena_init(&f->memory);
    const struct {
        const char **at, *name;
    } files[] = {
        {&f->config, "config.json"},       {&f->metrics, "metrics.jsonl"},
        {&f->summary, "summary.json"},     {&f->state, "last.state.safetensors"},
        {&f->last[0], "last.safetensors"}, {&f->last[1], "last.ema.safetensors"},
        {&f->best[0], "best.safetensors"}, {&f->best[1], "best.ema.safetensors"},
    };
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/')
        length--;
    f->directory = arena_printf(&f->memory, "%.*s", (int)length, directory);
    bool fine = f->directory != NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files && fine; i++) {
        *files[i].at = arena_printf(&f->memory, "%s/%s", f->directory, files[i].name);
        fine = *files[i].at != NULL;
    }
    if (fine)
        return OK;
    run_files_free(f);
    return error_memory(err, length);
}

void run_files_free(struct run_files *f)
{
    arena_free(&f->memory);
    *f = (struct run_files){0};
}

/* The directory, or the nearest one above it that is there, must be one that files can be made in.
 */
static enum status check_writable(const char *directory, struct error *err)
{
    char *path = strdup(directory);
    while (path && !file_exists(path)) {
        char *above = file_directory(path);
        bool is_top = above && strcmp(above, path) == 0;
        free(path);
        path = above;
        if (is_top)
            break;
    }
    enum status status = OK;
    if (!path)
        status = error_memory(err, strlen(directory));
    else if (!file_is_directory(path))
        status = error_set(err, ERR_INPUT,
                           "%s: %s is a file, expected a directory (--out DIR names "
                           "another one)",
                           directory, path);
    else if (access(path, W_OK | X_OK))
        status =
            error_set(err, ERR_INPUT, "%s: %s may not be written (--out DIR names another one)",
                      directory, path);
    free(path);
    return status;
}

static bool holds_run(const struct run_files *f)
{
    const char *const names[] = {f->config,  f->metrics, f->state,
                                 f->summary, f->last[0], f->best[0]};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (file_exists(names[i]))
            return true;
    return false;
}

/* The effective config of the run in the directory. */
static enum status stored_config(char **text, const struct run_files *f, struct error *err)
{
    size_t size = 0;
    if (file_exists(f->state))
        return checkpoint_config(text, f->state, err);
    return file_read(text, &size, f->config, (size_t)64 << 20, err);
}

static enum status compare_configs(const struct run_files *f, const struct experiment *x,
                                   struct error *err)
{
    char *text = NULL, *difference = NULL;
    struct config *stored = NULL;
    enum status status = stored_config(&text, f, err);
    if (!status)
        status = config_parse(&stored, text, f->directory, err);
    if (!status) {
        difference = config_difference(stored, x->config, neutral_keys);
        if (!difference) {
            status = error_memory(err, strlen(text));
        } else if (*difference) {
            status = error_set(err, ERR_INPUT,
                               "%s: holds a run of another config: %.1500s (--out DIR writes "
                               "elsewhere)",
                               f->directory, difference);
        }
    }
    config_destroy(stored);
    free(difference);
    free(text);
    return status;
}

static bool contains_event(const char *text, const char *name)
{
    char event[32];
    snprintf(event, sizeof event, "\"event\":\"%s\"", name);
    return strstr(text, event) != NULL;
}

/* Whether a run without a state had one: its weights are written after it, and so is what follows
 * in the metrics. Epochs may be there that no state was written of yet. */
static enum status check_state_removed(const struct run_files *f, const struct experiment *x,
                                       struct error *err)
{
    bool saved = file_exists(f->last[0]) || file_exists(f->last[1]) || file_exists(f->summary);
    if (!saved && file_exists(f->metrics)) {
        char *text = NULL;
        size_t size = 0;
        enum status status = file_read(&text, &size, f->metrics, (size_t)1 << 40, err);
        if (status)
            return status;
        int epochs = 0;
        for (const char *at = text; (at = strstr(at, "\"event\":\"epoch\"")); at++)
            epochs++;
        saved = epochs > x->train.checkpoint_every || contains_event(text, "resume") ||
                contains_event(text, "test");
        free(text);
    }
    if (!saved)
        return OK;
    return error_set(err, ERR_INPUT,
                     "%s: last.state.safetensors is missing: the run cannot be resumed without it "
                     "(restore it from a copy, or use --out DIR for a new run)",
                     f->directory);
}

enum status run_files_check(enum run_kind *out, const struct run_files *f,
                            const struct experiment *x, bool resume, struct error *err)
{
    enum status status = check_writable(f->directory, err);
    if (status)
        return status;
    bool there = holds_run(f);
    if (!resume) {
        *out = RUN_NEW;
        return there ? error_set(err, ERR_INPUT,
                                 "%s: holds a run already (--resume goes on with it, --out DIR "
                                 "writes elsewhere)",
                                 f->directory)
                     : OK;
    }
    if (there && !file_exists(f->state)) {
        status = check_state_removed(f, x, err);
        if (status)
            return status;
    }
    if (!there || (!file_exists(f->state) && !file_exists(f->config)))
        return error_set(err, ERR_INPUT,
                         "%s: holds no run to resume (leave --resume out to start one)",
                         f->directory);
    *out = file_exists(f->state) ? RUN_CONTINUE : RUN_RESTART;
    return compare_configs(f, x, err);
}
