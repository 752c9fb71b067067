/* command.h - a subcommand: a file in cli/ that defines `const struct command NAME_command`, and
 * the line COMMAND(NAME) in commands.def. Help, usage errors and option parsing come from the
 * struct. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>

#include "base/status.h"

struct arguments;

struct command_option {
    const char *name;  /* "--set" */
    const char *value; /* what follows it: "PATH=VALUE"; NULL for a flag */
    bool repeats;      /* may be given several times */
    const char *help;
};

#define OPTION_END {NULL, NULL, false, NULL}

/* Shared by the commands that have them. */
#define OPTION_JSON {"--json", NULL, false, "print one JSON object and nothing else"}
#define OPTION_SET                                                                                 \
    {"--set", "PATH=VALUE", true, "override a value of the config: train.epochs=3; repeatable"}
#define OPTION_THREADS                                                                             \
    {"--threads", "N", false, "threads to compute with (default: the cores this process may use)"}

struct command {
    const char *name;
    const char *summary;   /* one line for `attnbench help` */
    const char *operands;  /* "CONFIG|RUN_DIR", as usage shows them; "" without any */
    int least, most;       /* how many operands; most < 0: any number */
    const struct command_option *options; /* up to OPTION_END */
    const char *about;     /* what it does, lines of at most 80 columns, each ended by a newline */
    const char *example;   /* lines that a user may type */
    bool computes;         /* needs kernels */

    /* Does the work; results go to stdout. */
    enum status (*run)(const struct arguments *a, struct error *err);
};

/* The i-th command of commands.def, NULL past the end; and by name, or NULL. */
const struct command *command_at(int i);
const struct command *command_find(const char *name);

/* Fills err: no such command, with the nearest one. */
enum status command_unknown(const char *name, struct error *err);

/* Help on all commands (short: the list alone), and on one. On stdout or stderr. */
void help_show_all(bool on_stderr);
void help_show(const struct command *command);

#endif
