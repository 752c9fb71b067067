/* gradcheck.c - attnbench gradcheck. */
#include "study/gradcheck.h"

#include <stdio.h>
#include <string.h>

#include "cli/arguments.h"
#include "config/config.h"

enum { MAX_NAMES = 256 };

/* The number of the op or variant of that name, from `first` on; -1 without one. */
static int find(const char *name, int first)
{
    for (int i = first; gradcheck_name(i); i++)
        if (strcmp(gradcheck_name(i), name) == 0)
            return i;
    return -1;
}

static enum status check_names(const struct arguments *a, struct error *err)
{
    const char *names[MAX_NAMES];
    int count = 0;
    for (; count < MAX_NAMES - 1 && gradcheck_name(count); count++)
        names[count] = gradcheck_name(count);
    names[count] = NULL;
    for (int i = 0; i < a->count; i++) {
        if (find(a->operands[i], 0) >= 0)
            continue;
        enum status status =
            error_set(err, ERR_INPUT, "%.60s: no op or attention has this name", a->operands[i]);
        config_hint_name(err, a->operands[i], names);
        return status;
    }
    return OK;
}

static bool is_wanted(const struct arguments *a, const char *name)
{
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->operands[i], name) == 0)
            return true;
    return a->count == 0;
}

static enum status run(const struct arguments *a, struct error *err)
{
    enum status status = check_names(a, err);
    if (status)
        return status;
    int checked = 0, failed = 0;
    char first[64] = "";
    printf("%s build: relative errors of at most %.0e\n\n%-11s %-18s %s\n",
           sizeof(real) == sizeof(double) ? "double" : "float", gradcheck_tolerance(), "", "name",
           "worst error");
    for (int i = 0; gradcheck_name(i); i++) {
        struct gradcheck result;
        if (!is_wanted(a, gradcheck_name(i)))
            continue;
        gradcheck_run(&result, i);
        printf("%-11s %-18s %.1e  %s%s%s\n", result.group, result.name, result.worst,
               result.passed ? "ok" : "FAIL", *result.note ? "  " : "", result.note);
        fflush(stdout);
        checked++;
        if (!result.passed && failed++ == 0)
            snprintf(first, sizeof first, "%.60s", result.name);
    }
    if (failed)
        return error_set(err, ERR_NUMERIC, "gradcheck: %d of %d failed (the first: %s)", failed,
                         checked, first);
    return OK;
}

static const struct command_option options_of_gradcheck[] = {OPTION_END};

const struct command gradcheck_command = {
    .name = "gradcheck", .summary = "check gradients of every op and attention variant",
    .operands = "[NAME ...]", .most = -1, .options = options_of_gradcheck, .computes = true,
    .about =
        "Compares the gradients that each op and attention variant computes with numeric\n"
        "ones (central differences of a random projection of the output, in several\n"
        "directions). The double build holds 1e-7, a float build 1e-2, relative.\n"
        "Names select some. Exit code 1 where one fails.\n",
    .example = "  attnbench gradcheck\n"
               "  attnbench gradcheck softmax super\n",
    .run = run,
};
