/* arguments.h - the words of a command line, checked against a command's options. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include "cli/command.h"

struct given_option {
    const struct command_option *option;
    const char *value; /* NULL for a flag */
};

struct arguments {
    const char **operands; /* borrowed words */
    int count;
    struct given_option *given;
    int given_count;
    bool help;         /* --help was there: nothing else was checked */
    char **words;      /* the whole command line, NULL-terminated */
};

/* Splits argv[2..] for the command: `--name value`, `--name=value`, `--` before operands that start
 * with a dash. ERR_INPUT "OPTION: WHAT (HINT)" for unknown, repeated and incomplete options and for
 * too few or too many operands. Freed with arguments_free, after failures too. */
MUST_USE enum status arguments_parse(struct arguments *a, const struct command *command,
                                     char **argv, struct error *err);
void arguments_free(struct arguments *a);

bool arguments_has(const struct arguments *a, const char *name);

/* The option's value, NULL where it was not given. */
const char *arguments_value(const struct arguments *a, const char *name);

/* All values of an option that may repeat: their number, and the first `room` of them in list. */
int arguments_values(const struct arguments *a, const char *name, const char **list, int room);

/* The option's value as a whole number; *out is left alone where it was not given. */
MUST_USE enum status arguments_int(const struct arguments *a, const char *name, int least, int most,
                                   int *out, struct error *err);

/* The command line as one text, words quoted where a shell needs it; malloc'd, NULL without
 * memory. */
char *arguments_line(const struct arguments *a);

#endif
