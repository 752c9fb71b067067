/* config.c - attnbench config. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/arguments.h"
#include "cli/source.h"

static enum status run(const struct arguments *a, struct error *err)
{
    struct experiment x;
    enum source kind;
    enum status status = source_kind(&kind, a->operands[0], err);
    if (!status)
        status = source_load(&x, kind, a, NULL, err);
    if (status)
        return status;
    char *text = config_text(x.config);
    if (text)
        fputs(text, stdout);
    else
        status = error_memory(err, 0);
    free(text);
    experiment_free(&x);
    return status;
}

static const struct command_option options_of_config[] = {OPTION_SET, OPTION_END};

const struct command config_command = {
    .name = "config", .summary = "the effective config, every default filled in",
    .operands = "CONFIG", .least = 1, .most = 1, .options = options_of_config,
    .about =
        "Prints the config with what it extends, with --set, and with every default filled\n"
        "in, as JSON. Also takes the directory of a run or a checkpoint.\n",
    .example = "  attnbench config configs/fashion_mnist_super.json --set model.depth=4\n",
    .run = run,
};
