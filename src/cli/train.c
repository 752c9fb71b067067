/* train.c - attnbench train. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/version.h"
#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/source.h"
#include "kernels/kernels.h"

enum { START_SIZE = 512 };

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
    int count = arguments_values(a, "--set", NULL, 0);
    const char **settings = calloc((size_t)count + 1, sizeof *settings);
    char *setting = out ? output_setting(out) : NULL;
    if (!settings || (out && !setting)) {
        status = error_memory(err, ((size_t)count + 1) * sizeof *settings);
    } else {
        arguments_values(a, "--set", settings, count);
        if (setting)
            settings[count++] = setting;
        status = source_experiment(x, kind, path, settings, count, err);
    }
    free(settings);
    free(setting);
    return status;
}

/* Version, CPU, instruction set, BLAS with its kernel, threads, precision. */
static void start_line(char text[START_SIZE], const struct experiment *x, int threads)
{
    char cpu[128];
    cpu_name(cpu, sizeof cpu);
    const char *precision = sizeof(real) == sizeof(double)          ? "fp64"
                            : x->train.precision == PRECISION_BF16 ? "bf16"
                                                                    : "fp32";
    int cores = cpu_cores();
    snprintf(text, START_SIZE, "attnbench %s, %s, %s, %s, %d thread%s on %d core%s, %s",
             ATTNBENCH_VERSION, cpu, kernels_isa(), kernels_blas(), threads, threads > 1 ? "s" : "",
             cores, cores > 1 ? "s" : "", precision);
}

/* What is to be said where there are more threads than cores, or NULL. */
static const char *crowded(char text[START_SIZE], int threads)
{
    int cores = cpu_cores();
    if (threads <= cores)
        return NULL;
    snprintf(text, START_SIZE, "--threads: %d threads on %d core%s slow each other down", threads,
             cores, cores > 1 ? "s" : "");
    return text;
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

static enum status run(const struct arguments *a, struct error *err)
{
    struct experiment x;
    bool resume = false;
    int threads;
    char start[START_SIZE], warning[START_SIZE];
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
    start_line(start, &x, threads);
    struct progress progress = {
        .quiet = arguments_has(a, "--quiet"), .terminal = output_is_terminal(), .start = start,
        .warnings = {kernels_blas_note(), crowded(warning, threads)},
    };
    signal(SIGPIPE, SIG_IGN); /* training goes on when the reader of its log has gone */
    struct train_result result;
    struct train_options options = {
        .output = x.output, .resume = resume, .threads = threads, .command_line = line,
        .progress = progress_show, .say = progress_say, .context = &progress,
        .stop = interrupt_watch(),
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
