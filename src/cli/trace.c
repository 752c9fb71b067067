/* trace.c - attnbench trace. */
#include "study/trace.h"

#include <stdlib.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/source.h"

static enum status need(const struct arguments *a, const char *name, const char *value,
                        const char **out, struct error *err)
{
    *out = arguments_value(a, name);
    if (*out)
        return OK;
    return error_set(err, ERR_INPUT, "%s: missing (attnbench trace needs %s %s)", name, name,
                     value);
}

/* The output can be written, and is none of the files that are read. */
static enum status check_output(const struct trace_options *o, const char *source,
                                struct error *err)
{
    const char *const inputs[] = {o->input, source, o->checkpoint};
    enum status status = output_check_path("--output", o->output, err);
    for (int i = 0; i < 3 && !status; i++)
        status = output_check_apart("--output", o->output, inputs[i], err);
    return status;
}

static enum status run(const struct arguments *a, struct error *err)
{
    struct experiment x;
    enum source kind;
    char *note = NULL, *left_out = NULL;
    struct trace_options options = {
        .gradients = arguments_has(a, "--grad"), .noise = arguments_has(a, "--train"),
        .fused = arguments_has(a, "--fused"),
        .note = &note,
        .left_out = &left_out,
    };
    enum status status = need(a, "--input", "IN.safetensors", &options.input, err);
    if (!status)
        status = need(a, "--output", "OUT.safetensors", &options.output, err);
    options.checkpoint = arguments_value(a, "--weights");
    if (!status)
        status = check_output(&options, a->operands[0], err);
    if (!status)
        status = source_kind(&kind, a->operands[0], err);
    if (!status && kind == SOURCE_CHECKPOINT && !options.checkpoint)
        options.checkpoint = a->operands[0];
    if (!status && options.checkpoint)
        status = source_check_weights(options.checkpoint, err);
    if (!status)
        status = source_experiment(&x, kind, a->operands[0], NULL, 0, err);
    if (status)
        return status;
    status = trace_run(&x, &options, err);
    if (note)
        output_note("%s", note);
    if (left_out)
        output_note("%s", left_out);
    free(note);
    free(left_out);
    experiment_free(&x);
    return status;
}

static const struct command_option options_of_trace[] = {
    {"--input", "IN", false, "x (B, C, H, W), normalised; y (B) labels or dlogits (B, classes)"},
    {"--output", "OUT", false, "file that is written"},
    {"--weights", "FILE", false, "parameters by name, instead of initial ones; all must be there"},
    {"--grad", NULL, false, "also grad.x and grad.PARAMETER; needs y or dlogits"},
    {"--train", NULL, false, "with dropout and drop path"},
    {"--fused", NULL, false, "run the graph as train does, which leaves some outputs out"},
    OPTION_END,
};

const struct command trace_command = {
    .name = "trace", .summary = "run one batch and write every named output and gradient",
    .operands = "CONFIG|CHECKPOINT", .least = 1, .most = 1, .options = options_of_trace,
    .computes = true,
    .about =
        "Runs one batch and writes logits, loss (mean cross entropy, where y is given), the\n"
        "outputs of patch_embed, of every attention and block, and of the last norm, for\n"
        "comparison with other implementations. Files are safetensors; F64 in the double\n"
        "build.\n",
    .example =
        "  attnbench trace runs/try/last.safetensors --input in.safetensors \\\n"
        "      --output out.safetensors --grad\n",
    .run = run,
};
