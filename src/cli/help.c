/* help.c - attnbench help and attnbench version. */
#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "cli/arguments.h"

static void put_usage(FILE *to, const struct command *command)
{
    int at = fprintf(to, "usage: attnbench %s%s%s", command->name, *command->operands ? " " : "",
                     command->operands);
    for (const struct command_option *o = command->options; o->name; o++) {
        char text[80];
        int length = snprintf(text, sizeof text, " [%s%s%s%s]", o->name, o->value ? " " : "",
                              o->value ? o->value : "", o->repeats ? " ..." : "");
        if (at + length > 80)
            at = fprintf(to, "\n           ") - 1;
        at += fprintf(to, "%s", text);
    }
    fputc('\n', to);
}

void help_show_all(bool on_stderr)
{
    FILE *to = on_stderr ? stderr : stdout;
    fprintf(to, "attnbench %s trains Vision and Swin Transformers on the CPU with pluggable attention.\n\n"
                "usage: attnbench COMMAND ...\n\n",
            ATTNBENCH_VERSION);
    for (int i = 0; command_at(i); i++)
        fprintf(to, "  %-10s %s\n", command_at(i)->name, command_at(i)->summary);
    fprintf(to, "\nattnbench help COMMAND, or attnbench COMMAND --help, shows options and an "
                "example.\n");
}

void help_show(const struct command *command)
{
    put_usage(stdout, command);
    printf("\n%s", command->about);
    if (command->options->name)
        printf("\n");
    for (const struct command_option *o = command->options; o->name; o++) {
        char text[80];
        snprintf(text, sizeof text, "%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-24s %s\n", text, o->help);
    }
    printf("\nexample:\n%s", command->example);
}

static enum status help_run(const struct arguments *a, struct error *err)
{
    if (a->count == 0) {
        help_show_all(false);
        return OK;
    }
    const struct command *command = command_find(a->operands[0]);
    if (!command)
        return command_unknown(a->operands[0], err);
    help_show(command);
    return OK;
}

static const struct command_option no_options[] = {OPTION_END};

const struct command help_command = {
    .name = "help", .summary = "what the commands are, or all about one", .operands = "[COMMAND]",
    .most = 1, .options = no_options,
    .about = "Lists the commands, or shows what one does, its options and an example.\n",
    .example = "  attnbench help train\n",
    .run = help_run,
};

static enum status version_run(const struct arguments *a, struct error *err)
{
    (void)a, (void)err;
    printf("attnbench %s\n", ATTNBENCH_VERSION);
    return OK;
}

const struct command version_command = {
    .name = "version", .summary = "the version", .operands = "", .options = no_options,
    .about = "Prints the version of the program.\n",
    .example = "  attnbench version\n",
    .run = version_run,
};
