/* output.c - stdout, stderr and the forms of numbers. */
#define _DEFAULT_SOURCE /* TIOCGWINSZ, realpath */
#include "cli/output.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

bool output_is_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

int output_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

/* Colour is for terminals, and for those who have not asked for none (no-color.org). */
static bool is_coloured(void)
{
    const char *no = getenv("NO_COLOR");
    return output_is_terminal() && !(no && *no);
}

enum { LINE_SIZE = 2304 };

/* Text may hold pieces of hostile files: what a terminal could take for a command is not passed
 * on. */
static const char *cleaned(char line[LINE_SIZE], const char *text)
{
    size_t at = 0;
    for (; *text && at + 1 < LINE_SIZE; text++) {
        unsigned char c = (unsigned char)*text;
        line[at++] = c < 32 || c == 127 ? (c == '\n' || c == '\t' ? ' ' : '?') : *text;
    }
    line[at] = 0;
    return line;
}

/* One line "attnbench: LABEL: TEXT". */
static void put_line(const char *label, const char *colour, const char *text)
{
    char line[LINE_SIZE];
    if (is_coloured())
        fprintf(stderr, "attnbench: \033[1;%sm%s:\033[0m %s\n", colour, label,
                cleaned(line, text));
    else
        fprintf(stderr, "attnbench: %s: %s\n", label, cleaned(line, text));
}

void output_error(const struct error *err)
{
    put_line("error", "31", err->text);
}

void output_warning(const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_line("warning", "33", text);
}

void output_note(const char *format, ...)
{
    char text[2048], line[LINE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%s\n", cleaned(line, text));
}

/* A file is replaced by a new one, so that its directory must allow that; a device or pipe is
 * written as it is. `target` is the path without links. */
static enum status check_target(const char *option, const char *path, const char *target,
                                struct error *err)
{
    struct stat info;
    bool there = stat(target, &info) == 0;
    if (there && S_ISDIR(info.st_mode))
        return error_set(err, ERR_INPUT, "%s: is a directory (%s needs the name of a file)", path,
                         option);
    bool in_place = there && !S_ISREG(info.st_mode);
    char *directory = in_place ? strdup(target) : file_directory(target);
    if (!directory)
        return error_memory(err, strlen(target) + 1);
    enum status status = OK;
    if (!in_place && file_exists(directory) && !file_is_directory(directory))
        status = error_set(err, ERR_INPUT, "%s: cannot be written: %s is not a directory (%s)",
                           path, directory, option);
    else if (access(directory, in_place ? W_OK : W_OK | X_OK) != 0)
        status = error_set(err, ERR_INPUT, "%s: cannot be written: %s: %s (%s)", path, directory,
                           strerror(errno), option);
    free(directory);
    return status;
}

enum status output_check_path(const char *option, const char *path, struct error *err)
{
    char *resolved = realpath(path, NULL);
    enum status status = check_target(option, path, resolved ? resolved : path, err);
    free(resolved);
    return status;
}

enum status output_check_apart(const char *option, const char *path, const char *input,
                               struct error *err)
{
    struct stat a, b;
    if (!input || stat(path, &a) != 0 || stat(input, &b) != 0 || a.st_dev != b.st_dev ||
        a.st_ino != b.st_ino)
        return OK;
    return error_set(err, ERR_INPUT, "%s: %s would overwrite the input %s (name another file)",
                     path, option, input);
}

enum status output_json(const struct json *j, struct error *err)
{
    const char *text = json_text(j);
    if (!text)
        return error_memory(err, 0);
    puts(text);
    return OK;
}

enum status output_finish(struct error *err)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return OK;
    return error_set(err, ERR_IO, "standard output: %s",
                     errno ? strerror(errno) : "not all could be written");
}

const char *output_count(char text[OUTPUT_NUMBER_SIZE], long long count)
{
    char digits[OUTPUT_NUMBER_SIZE];
    int length = snprintf(digits, sizeof digits, "%lld", count);
    int at = 0;
    for (int i = 0; i < length; i++) {
        text[at++] = digits[i];
        int left = length - 1 - i;
        if (left && left % 3 == 0 && digits[i] != '-')
            text[at++] = ',';
    }
    text[at] = 0;
    return text;
}

const char *output_amount(char text[OUTPUT_NUMBER_SIZE], double amount)
{
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P"};
    int i = 0;
    while (amount >= 999.5 && i < 5) {
        amount /= 1000;
        i++;
    }
    int decimals = i == 0 || amount >= 99.95 ? 0 : amount >= 9.995 ? 1 : 2;
    snprintf(text, OUTPUT_NUMBER_SIZE, "%.*f %s", decimals, amount, prefix[i]);
    return text;
}

const char *output_duration(char text[OUTPUT_NUMBER_SIZE], double seconds)
{
    if (!(seconds >= 0) || seconds > 1e9) {
        snprintf(text, OUTPUT_NUMBER_SIZE, "-");
        return text;
    }
    long long whole = (long long)floor(seconds + 0.5);
    if (whole >= 3600)
        snprintf(text, OUTPUT_NUMBER_SIZE, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60,
                 whole % 60);
    else
        snprintf(text, OUTPUT_NUMBER_SIZE, "%lld:%02lld", whole / 60, whole % 60);
    return text;
}
