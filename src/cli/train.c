/* train.c - attnbench train. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/source.h"

/* "output=..." as a setting, so that the effective config names the directory in use; malloc'd. */
static char *output_setting(const char *directory)
{
    struct json *j = json_create();
    if (!j)
        return NULL;
    json_string(j, NULL, directory);
    const char *text = json_text(j);
    size_t size = text ? strlen(text) + sizeof "output=" : 0;
    char *setting = text ? malloc(size) : NULL;
    if (setting)
        snprintf(setting, size, "output=%s", text);
    json_destroy(j);
    return setting;
}

/* Reads the config or the run's own one, with --set and --out. */
static enum status load(struct experiment *x, const struct arguments *a, bool *resume,
                        struct error *err)
{
    const char *path = a->operands[0], *out = arguments_value(a, "--out");
    enum source kind;
    enum status status = source_kind(&kind, path, err);
    if (status)
        return status;
    if (kind == SOURCE_CHECKPOINT)
        return error_set(err, ERR_INPUT,
                         "%s: a checkpoint, not a config (to go on with a run, give its directory; "
                         "to start from weights, set train.init_from)",
                         path);
    *resume = arguments_has(a, "--resume");
    if (kind == SOURCE_DIRECTORY && !out) {
        out = path;
        *resume = true;
    }
    char *setting = out ? output_setting(out) : NULL;
    if (out && !setting)
        return error_memory(err, strlen(out));
    status = source_load(x, kind, a, setting, err);
    free(setting);
    return status;
}

static void put_line(const char *name, double val, double test, const struct experiment *x)
{
    if (isnan(val) && isnan(test))
        return;
    printf("%s:", name);
    if (!isnan(val))
        printf(" validation top-1 %.2f %%%s", val,
               data_validation(&x->data) == VALIDATION_TEST ? " (on the official test set)" : "");
    if (!isnan(test))
        printf("%s test top-1 %.2f %%", isnan(val) ? "" : ",", test);
    putchar('\n');
}

static void put_result(const struct train_result *r, const struct experiment *x)
{
    char params[OUTPUT_NUMBER_SIZE], macs[OUTPUT_NUMBER_SIZE], time[OUTPUT_NUMBER_SIZE];
    printf("%s: %s parameters, %sMACs an image, %s\n", x->output, output_count(params, r->params),
           output_amount(macs, r->macs), output_duration(time, r->seconds));
    put_line("last", r->last.val_top1, r->last.test_top1, x);
    put_line("best", r->best.val_top1, r->best.test_top1, x);
}

/* What is said when the first signal comes, NULL for nothing. A progress line may be open. */
static const char *stop_notice(const struct progress *p)
{
#define STOP_NOTICE "attnbench: finishing the step, then saving; a second signal ends at once\n"
    return p->quiet ? NULL : p->terminal ? "\n" STOP_NOTICE : STOP_NOTICE;
#undef STOP_NOTICE
}

static enum status run(const struct arguments *a, struct error *err)
{
    struct experiment x;
    bool resume = false;
    int threads;
    struct start start;
    char *line = NULL;
    enum status status = source_threads(&threads, a, err);
    if (!status)
        status = load(&x, a, &resume, err);
    if (status)
        return status;
    if (!x.output) {
        status = error_set(err, ERR_INPUT, "%s: output: missing (name a directory there, or with "
                                           "--out DIR)",
                           a->operands[0]);
        goto out;
    }
    if (!(line = arguments_line(a))) {
        status = error_memory(err, 0);
        goto out;
    }
    start_fill(&start, &x, threads, a);
    struct progress progress = {
        .quiet = arguments_has(a, "--quiet"), .terminal = output_is_terminal(), .start = &start,
    };
    signal(SIGPIPE, SIG_IGN); /* training goes on when the reader of its log has gone */
    struct train_result result;
    struct train_options options = {
        .output = x.output, .resume = resume, .threads = threads, .command_line = line,
        .begin = progress_begin, .progress = progress_show, .say = progress_say,
        .context = &progress,
        .stop = interrupt_watch(stop_notice(&progress)),
    };
    status = train_run(&x, &options, &result, err);
    progress_end(&progress);
    if (!status)
        put_result(&result, &x);
out:
    free(line);
    experiment_free(&x);
    return status;
}

static const struct command_option options_of_train[] = {
    OPTION_SET,
    {"--resume", NULL, false, "go on with the run that stands in the output directory"},
    {"--out", "DIR", false, "output directory, instead of the one that the config names"},
    OPTION_THREADS,
    {"--quiet", NULL, false, "print nothing on stderr but errors"},
    OPTION_END,
};

const struct command train_command = {
    .name = "train", .summary = "train a model as a config says", .operands = "CONFIG|RUN_DIR",
    .least = 1, .most = 1, .options = options_of_train, .computes = true,
    .about =
        "Trains a model as the config says, and writes weights, metrics and a summary to\n"
        "the output directory. Given the directory of a run, goes on with it (with --out:\n"
        "starts a new run with the same config). Ctrl-C finishes the step and saves; a\n"
        "second one ends the program at once.\n",
    .example =
        "  attnbench train configs/fashion_mnist_super.json --set train.epochs=3 --out runs/try\n"
        "  attnbench train runs/try\n",
    .run = run,
};
