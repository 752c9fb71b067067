/* main.c - finds the command, runs it, and turns its status into a message and an exit code: 0
 * done; 1 failed while running; 2 wrong usage, config or input; 130, 143 after SIGINT, SIGTERM. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "config/config.h"
#include "kernels/kernels.h"

#define COMMAND(name) extern const struct command name##_command;
#include "cli/commands.def"
#undef COMMAND

static const struct command *const commands[] = {
#define COMMAND(name) &name##_command,
#include "cli/commands.def"
#undef COMMAND
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

const struct command *command_at(int i)
{
    return i >= 0 && i < COMMANDS ? commands[i] : NULL;
}

const struct command *command_find(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

enum status command_unknown(const char *name, struct error *err)
{
    const char *names[COMMANDS + 1] = {NULL};
    for (int i = 0; i < COMMANDS; i++)
        names[i] = commands[i]->name;
    enum status status = error_set(err, ERR_INPUT, "%.60s: unknown command", name);
    config_hint_name(err, name, names);
    return status;
}

/* Descriptors 0 to 2 that the caller closed would be taken by the files that are opened next, and
 * messages would go into those. What is written to such a one fails. */
static void keep_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

static enum status run(const struct command *command, char **argv, struct error *err)
{
    struct arguments a;
    enum status status = arguments_parse(&a, command, argv, err);
    if (!status && a.help)
        help_show(command);
    else if (!status && command->computes)
        status = kernels_init(err);
    if (!status && !a.help)
        status = command->run(&a, err);
    arguments_free(&a);
    return status;
}

static enum status start(char **argv, struct error *err)
{
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0)
        name = "version";
    const struct command *command = command_find(name);
    if (!command && name[0] == '-')
        return error_set(err, ERR_INPUT,
                         "%.60s: options stand behind a command (attnbench help lists them)", name);
    return command ? run(command, argv, err) : command_unknown(name, err);
}

static int exit_code(enum status status)
{
    switch (status) {
    case OK:
        return 0;
    case ERR_INPUT:
    case ERR_SHAPE:
        return 2;
    case ERR_INTERRUPTED:
        return 128 + (interrupt_signal() ? interrupt_signal() : SIGINT);
    default:
        return 1;
    }
}

int main(int argc, char **argv)
{
    keep_standard_files();
    bool changed = environment_limit_spinning();
    kernels_blas_fix(argv); /* may run the program again; else we do, once: then nothing changes */
    if (changed)
        environment_run_again(argv);
    signal(SIGPIPE, SIG_DFL); /* a reader that has seen enough ends the program without a word */
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a write that fails */
    interrupt_install();
    if (argc < 2) {
        help_show_all(true);
        return 2;
    }
    struct error err = {.status = OK};
    enum status status = start(argv, &err);
    struct error lost;
    enum status written = output_finish(&lost);
    if (status == ERR_INTERRUPTED)
        output_note("attnbench: %s", err.text);
    else if (status)
        output_error(&err);
    else if (written)
        output_error(&lost);
    return exit_code(status ? status : written);
}
