/* program.h - running attnbench, as built beside the test program, and reading what it says. */
#ifndef TESTS_CLI_PROGRAM_H
#define TESTS_CLI_PROGRAM_H

#include <sys/types.h>

struct said {
    int code;        /* exit code, or minus the signal that ended it */
    const char *out; /* stdout and stderr, valid until the exit of the test */
    const char *err;
};

/* Runs `attnbench ARGUMENTS`, these filled in as by printf and read by a shell. */
struct said attnbench(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Starts it without waiting; then waits. */
struct running {
    pid_t pid;
    const char *out, *err; /* files */
};
struct running attnbench_start(const char *format, ...) __attribute__((format(printf, 1, 2)));
struct said attnbench_wait(struct running r);

/* Waits until `text` stands in what the program has written to stderr; false after some seconds. */
_Bool attnbench_says(struct running r, const char *text);

/* Writes a text file into a fresh directory; its path. */
const char *text_file(const char *name, const char *text);

/* The whole file, "" where it is missing; and whether a path exists. */
const char *file_text(const char *path);
_Bool path_exists(const char *path);

/* How often `part` stands in `text`. */
int count_of(const char *text, const char *part);

/* The number behind "key": in JSON text; NAN where there is none. */
double json_value_of(const char *text, const char *key);

/* A config that trains on synthetic data in a moment; `more` stands behind its own keys of
 * "train". */
const char *small_config(const char *more);

#endif
