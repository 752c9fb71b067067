/* info.c - attnbench info. */
#include "study/info.h"

#include <stdio.h>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/source.h"

static double share(const struct info *info)
{
    return info->macs > 0 ? info->macs_attention / info->macs : 0;
}

static enum status info_json(const struct info *info, struct error *err)
{
    struct json *j = json_create();
    if (!j)
        return error_memory(err, 0);
    json_object(j, NULL);
    json_int(j, "params", (long long)info->params);
    json_number(j, "macs", info->macs);
    json_number(j, "macs_attention", info->macs_attention);
    json_number(j, "macs_attention_core", info->macs_attention_core);
    json_number(j, "macs_attention_share", share(info));
    json_int(j, "params_attention", (long long)info->params_attention);
    json_int(j, "params_attention_standard", (long long)info->params_standard);
    json_int(j, "batch", info->batch);
    json_int(j, "activation_bytes_train", (long long)info->activation_bytes_train);
    json_int(j, "activation_bytes_infer", (long long)info->activation_bytes_infer);
    json_int(j, "threads", info->threads);
    json_number(j, "memory_bytes_train", info->memory_bytes_train);
    json_number(j, "memory_bytes_infer", info->memory_bytes_infer);
    json_int(j, "copies", info->copies);
    json_array(j, "parameters");
    for (int i = 0; i < info->list.count; i++) {
        const struct param *param = info->list.list[i];
        json_object(j, NULL);
        json_string(j, "name", param->name);
        json_array(j, "shape");
        for (int k = 0; k < param->shape.rank; k++)
            json_int(j, NULL, param->shape.dim[k]);
        json_end(j);
        if (param->flags & PARAM_BUFFER)
            json_bool(j, "buffer", true);
        json_end(j);
    }
    json_end(j);
    json_array(j, "layers");
    for (int i = 0; i < info->layer_count; i++) {
        json_object(j, NULL);
        json_string(j, "name", info->layers[i].name);
        json_int(j, "params", (long long)info->layers[i].params);
        json_number(j, "macs", info->layers[i].macs);
        json_end(j);
    }
    json_end(j);
    json_end(j);
    enum status status = output_json(j, err);
    json_destroy(j);
    return status;
}

static void info_text(const struct info *info)
{
    char a[OUTPUT_NUMBER_SIZE], b[OUTPUT_NUMBER_SIZE], c[OUTPUT_NUMBER_SIZE];
    printf("%-34s %14s %14s\n", "layer", "parameters", "MACs an image");
    for (int i = 0; i < info->layer_count; i++)
        printf("%-34s %14s %14s\n", info->layers[i].name,
               output_count(a, (long long)info->layers[i].params),
               output_count(b, (long long)info->layers[i].macs));
    printf("%-34s %14s %14s\n\n", "in all", output_count(a, (long long)info->params),
           output_count(b, (long long)info->macs));
    printf("attention   %s parameters", output_count(a, (long long)info->params_attention));
    if (info->params_standard)
        printf(" (standard attention: %s)", output_count(b, (long long)info->params_standard));
    printf(", %sMACs, %.1f %% of all (%sMACs without projections)\n",
           output_amount(a, info->macs_attention), 100 * share(info),
           output_amount(b, info->macs_attention_core));
    printf("activations of a batch of %d   %sB to train, %sB to evaluate\n", info->batch,
           output_amount(b, (double)info->activation_bytes_train),
           output_amount(c, (double)info->activation_bytes_infer));
    printf("memory on %d thread%s   %sB to train, %sB to evaluate\n", info->threads,
           info->threads > 1 ? "s" : "", output_amount(b, info->memory_bytes_train),
           output_amount(c, info->memory_bytes_infer));
    if (info->copies)
        printf("copies of strided inputs   %d\n", info->copies);
}

static enum status run(const struct arguments *a, struct error *err)
{
    struct experiment x;
    struct info info;
    enum source kind;
    int threads;
    enum status status = source_threads(&threads, a, err);
    if (!status)
        status = source_kind(&kind, a->operands[0], err);
    if (!status)
        status = source_load(&x, kind, a, NULL, err);
    if (status)
        return status;
    status = info_create(&info, &x, threads, err);
    if (status) {
        experiment_free(&x);
        return status;
    }
    if (info.params_attention > info.params_standard && info.params_standard)
        output_warning("%s: this attention has more parameters (%zu) than standard attention (%zu)",
                       a->operands[0], info.params_attention, info.params_standard);
    if (arguments_has(a, "--json"))
        status = info_json(&info, err);
    else
        info_text(&info);
    info_free(&info);
    experiment_free(&x);
    return status;
}

static const struct command_option options_of_info[] = {
    OPTION_SET, OPTION_JSON, OPTION_THREADS, OPTION_END,
};

const struct command info_command = {
    .name = "info", .summary = "parameters, multiply-adds and memory, layer by layer",
    .operands = "CONFIG|CHECKPOINT", .least = 1, .most = 1, .options = options_of_info,
    .about =
        "Shows what a model consists of and costs, without reading data. MACs are\n"
        "multiply-adds of one image forward (FLOPs are twice as many); activations are those\n"
        "of the config's batch as one piece. Memory is by how much a process grows that\n"
        "runs the config on these threads, images kept from data files apart. Also takes\n"
        "the directory of a run.\n",
    .example = "  attnbench info configs/fashion_mnist_super.json\n",
    .run = run,
};
