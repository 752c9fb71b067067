/* source.c - telling configs, runs, checkpoints and data folders apart. */
#include "cli/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cpu.h"
#include "base/file.h"
#include "cli/arguments.h"
#include "train/checkpoint.h"

enum { MAX_THREADS = 1024 };

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* JSON text starts with a brace, behind blanks or a byte-order mark at most. */
static bool looks_like_json(const char *path)
{
    unsigned char head[64];
    FILE *file = fopen(path, "rb");
    if (!file)
        return true; /* reading it as a config says what is wrong */
    size_t size = fread(head, 1, sizeof head, file), at = 0;
    fclose(file);
    if (size >= 3 && memcmp(head, "\xEF\xBB\xBF", 3) == 0)
        at = 3;
    while (at < size && strchr(" \t\r\n", head[at]) && head[at])
        at++;
    return at == size || head[at] == '{';
}

enum status source_kind(enum source *kind, const char *path, struct error *err)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return error_set(err, ERR_INPUT, "%s: %s", path,
                         errno == ENOENT ? "no such file or directory" : strerror(errno));
    if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode))
        return error_set(err, ERR_INPUT, "%s: is a device or pipe, not a file", path);
    if (S_ISDIR(info.st_mode))
        *kind = SOURCE_DIRECTORY;
    else if (ends_with(path, ".safetensors"))
        *kind = SOURCE_CHECKPOINT;
    else
        *kind = ends_with(path, ".json") || looks_like_json(path) ? SOURCE_CONFIG
                                                                   : SOURCE_CHECKPOINT;
    return OK;
}

enum status source_check_weights(const char *path, struct error *err)
{
    static const char end[] = ".state.safetensors";
    if (!ends_with(path, end))
        return OK;
    return error_set(err, ERR_INPUT,
                     "%s: is the state from which a run resumes, not its weights (use "
                     "%.*s.safetensors)",
                     path, (int)(strlen(path) - strlen(end)), path);
}

enum status source_experiment(struct experiment *x, enum source kind, const char *path,
                              const char *const *settings, int count, struct error *err)
{
    enum status status;
    if (kind == SOURCE_CONFIG)
        return experiment_load(x, path, settings, count, err);
    if (kind == SOURCE_DIRECTORY) {
        char *config = file_join(path, "config.json");
        if (!config)
            return error_memory(err, strlen(path));
        if (file_exists(config))
            status = experiment_load(x, config, settings, count, err);
        else
            status = error_set(err, ERR_INPUT, "%s: a directory without a config.json", path);
        free(config);
        return status;
    }
    char *text;
    status = checkpoint_config(&text, path, err);
    if (status)
        return status;
    status = experiment_parse_with(x, text, path, settings, count, err);
    free(text);
    return status;
}

enum status source_load(struct experiment *x, enum source kind, const struct arguments *a,
                        const char *setting, struct error *err)
{
    int count = arguments_values(a, "--set", NULL, 0);
    if (kind == SOURCE_CHECKPOINT && count)
        return error_set(err, ERR_INPUT, "--set: not with a checkpoint");
    const char **settings = calloc((size_t)count + 1, sizeof *settings);
    if (!settings)
        return error_memory(err, ((size_t)count + 1) * sizeof *settings);
    arguments_values(a, "--set", settings, count);
    if (setting)
        settings[count++] = setting;
    enum status status = source_experiment(x, kind, a->operands[0], settings, count, err);
    free(settings);
    return status;
}

struct model_shape source_shape(const struct experiment *x)
{
    return model_of(&x->model)->shape(x->model.options);
}

enum status source_threads(int *threads, const struct arguments *a, struct error *err)
{
    const char *text = getenv("OMP_NUM_THREADS");
    long wanted = text ? strtol(text, NULL, 10) : 0; /* a list's first number is its outer level */
    *threads = cpu_cores();
    if (wanted >= 1 && wanted <= MAX_THREADS)
        *threads = (int)wanted;
    return arguments_int(a, "--threads", 1, MAX_THREADS, threads, err);
}
