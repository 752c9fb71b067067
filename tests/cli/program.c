/* program.c - running attnbench. */
#include "cli/program.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

static void redirect(const char *path, int fd)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || dup2(file, fd) < 0)
        _exit(126);
    close(file);
}

static struct running start(const char *format, va_list args)
    __attribute__((format(printf, 1, 0)));
static struct running start(const char *format, va_list args)
{
    char line[8192];
    int at = snprintf(line, sizeof line, "exec '%s' ", test_program());
    vsnprintf(line + at, sizeof line - (size_t)at, format, args);
    const char *directory = test_directory();
    struct running r = {.out = test_text("%s/out", directory),
                        .err = test_text("%s/err", directory)};
    r.pid = fork();
    CHECK(r.pid >= 0);
    if (r.pid == 0) {
        redirect(r.out, STDOUT_FILENO);
        redirect(r.err, STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(126);
    }
    return r;
}

struct running attnbench_start(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct running r = start(format, args);
    va_end(args);
    return r;
}

struct said attnbench_wait(struct running r)
{
    int status = 0;
    CHECK_INT(waitpid(r.pid, &status, 0), r.pid);
    return (struct said){
        .code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
        .out = file_text(r.out),
        .err = file_text(r.err),
    };
}

struct said attnbench(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct running r = start(format, args);
    va_end(args);
    return attnbench_wait(r);
}

_Bool attnbench_says(struct running r, const char *text)
{
    const struct timespec pause = {0, 10 * 1000 * 1000};
    for (int i = 0; i < 3000; i++) {
        if (strstr(file_text(r.err), text))
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

const char *text_file(const char *name, const char *text)
{
    const char *path = test_text("%s/%s", test_directory(), name);
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0);
    CHECK_INT(fclose(file), 0);
    return path;
}

const char *file_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (!file)
        return "";
    char *text = fstat(fileno(file), &info) ? NULL : calloc((size_t)info.st_size + 1, 1);
    size_t size = text ? fread(text, 1, (size_t)info.st_size, file) : 0;
    fclose(file);
    const char *kept = test_text("%.*s", (int)size, text ? text : "");
    free(text);
    return kept;
}

_Bool path_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

double json_value_of(const char *text, const char *key)
{
    const char *at = strstr(text, test_text("\"%s\":", key));
    char *end = NULL;
    if (!at)
        return (double)NAN;
    at += strlen(key) + 3;
    double value = strtod(at, &end);
    return end == at ? (double)NAN : value;
}

const char *small_config(const char *more)
{
    return text_file(
        "small.json",
        test_text("{\"data\": {\"format\": \"synthetic\", \"train_count\": 96,\n"
                  "          \"test_count\": 32, \"validation\": {\"holdout\": 32}},\n"
                  " \"model\": {\"name\": \"vit\", \"image_size\": 8, \"channels\": 1,\n"
                  "           \"classes\": 4, \"patch_size\": 4, \"dim\": 8,\n"
                  "           \"depth\": 2, \"heads\": 2,\n"
                  "           \"attention\": \"super\"},\n"
                  " \"train\": {\"epochs\": 2, \"batch_size\": 16,\n"
                  "           \"schedule\": {\"name\": \"cosine\", \"warmup_epochs\": 1}%s%s}}\n",
                  *more ? ", " : "", more));
}
