/* predict.c - attnbench predict. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/source.h"
#include "data/loader.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

enum { DEFAULT_TOP = 5 };

/* One class with its probability. */
struct guess {
    int label;
    double probability;
};

struct predict {
    const struct arguments *a;
    struct experiment own;
    struct network *network;
    struct dataset *pictures;
    char **names; /* of the classes, or NULL */
    size_t count;
    int top;
    struct guess *guesses; /* (count, top), the likeliest first */
};

static const char *file_of(const struct predict *p, size_t i)
{
    return p->a->operands[i + 1];
}

/* Equally likely classes keep their order. */
static void take_top(void *context, size_t record, int label, const double *probabilities)
{
    struct predict *p = context;
    struct guess *top = p->guesses + record * (size_t)p->top;
    int taken = 0;
    (void)label; /* there is none */
    for (int c = 0; c < p->network->shape.classes; c++) {
        int at = taken;
        while (at > 0 && probabilities[c] > top[at - 1].probability)
            at--;
        if (at >= p->top)
            continue;
        int moved = (taken < p->top ? taken : p->top - 1) - at;
        memmove(top + at + 1, top + at, (size_t)moved * sizeof *top);
        top[at] = (struct guess){c, probabilities[c]};
        taken += taken < p->top;
    }
}

static enum status load_model(struct predict *p, struct error *err)
{
    const char *path = p->a->operands[0];
    enum source kind;
    enum status status = source_kind(&kind, path, err);
    if (!status && kind != SOURCE_CHECKPOINT)
        return error_set(err, ERR_INPUT, "%s: is no checkpoint (name a .safetensors file of a run)",
                         path);
    if (!status)
        status = source_check_weights(path, err);
    if (!status)
        status = source_experiment(&p->own, SOURCE_CHECKPOINT, path, NULL, 0, err);
    int threads = 1, batch = p->own.train.batch_size;
    if (!status)
        status = source_threads(&threads, p->a, err);
    if ((size_t)batch > p->count)
        batch = (int)p->count;
    if (!status)
        status = network_create(&p->network, &p->own, NETWORK_INFER, batch, threads, err);
    char *note = NULL;
    if (!status)
        status = checkpoint_load(&p->network->params, &p->own.model, path, &note, err);
    free(note);
    return status ? status : checkpoint_class_names(&p->names, path, err);
}

/* Nothing is printed before every picture was read. */
static enum status run_model(struct predict *p, struct error *err)
{
    struct model_shape s = source_shape(&p->own);
    struct image_shape image = {s.channels, s.height, s.width};
    p->top = DEFAULT_TOP;
    enum status status = arguments_int(p->a, "--top", 1, s.classes, &p->top, err);
    p->top = p->top < s.classes ? p->top : s.classes;
    if (!status)
        status = dataset_open_files(&p->pictures, &p->own.data, p->a->operands + 1, p->count, image,
                                    s.classes, err);
    if (status)
        return status;
    size_t *records = malloc(p->count * sizeof *records);
    p->guesses = calloc(p->count * (size_t)p->top, sizeof *p->guesses);
    struct loader *loader = NULL;
    struct loader_options options = experiment_loader(&p->own, false);
    options.batch_size = p->network->batch;
    if (!records || !p->guesses)
        status = error_memory(err, p->count * (size_t)p->top * sizeof *p->guesses);
    for (size_t i = 0; records && i < p->count; i++)
        records[i] = i;
    if (!status)
        status = loader_create(&loader, p->pictures, &p->own.data, records, p->count, &options, err);
    struct evaluation result;
    if (!status) {
        status = evaluate(&result, p->network, loader, NULL, take_top, p, err);
        if (!status)
            evaluation_free(&result);
    }
    loader_destroy(loader);
    free(records);
    return status;
}

/* The class's name, or its number in `number`. */
static const char *class_name(const struct predict *p, int label, char number[16])
{
    if (p->names)
        return p->names[label];
    snprintf(number, 16, "%d", label);
    return number;
}

static enum status predict_json(const struct predict *p, struct error *err)
{
    char number[16];
    struct json *j = json_create();
    if (!j)
        return error_memory(err, 0);
    json_object(j, NULL);
    json_array(j, "predictions");
    for (size_t i = 0; i < p->count; i++) {
        json_object(j, NULL);
        json_string(j, "file", file_of(p, i));
        json_array(j, "top");
        for (int k = 0; k < p->top; k++) {
            const struct guess *g = &p->guesses[i * (size_t)p->top + (size_t)k];
            json_object(j, NULL);
            json_string(j, "class", class_name(p, g->label, number));
            json_int(j, "label", g->label);
            json_number(j, "probability", g->probability);
            json_end(j);
        }
        json_end(j);
        json_end(j);
    }
    json_end(j);
    json_end(j);
    enum status status = output_json(j, err);
    json_destroy(j);
    return status;
}

static void predict_text(const struct predict *p)
{
    char number[16];
    for (size_t i = 0; i < p->count; i++) {
        printf("%s\n", file_of(p, i));
        for (int k = 0; k < p->top; k++) {
            const struct guess *g = &p->guesses[i * (size_t)p->top + (size_t)k];
            printf("%8.2f %%  %s\n", 100 * g->probability, class_name(p, g->label, number));
        }
    }
}

static enum status run(const struct arguments *a, struct error *err)
{
    struct predict p = {.a = a, .count = (size_t)a->count - 1};
    enum status status = load_model(&p, err);
    if (!status)
        status = run_model(&p, err);
    if (!status && arguments_has(a, "--json"))
        status = predict_json(&p, err);
    else if (!status)
        predict_text(&p);
    dataset_close(p.pictures);
    network_destroy(p.network);
    free(p.guesses);
    free(p.names);
    if (p.own.config)
        experiment_free(&p.own);
    return status;
}

static const struct command_option options_of_predict[] = {
    {"--top", "K", false, "classes to show for each picture (default: 5)"},
    OPTION_JSON,
    OPTION_THREADS,
    OPTION_END,
};

const struct command predict_command = {
    .name = "predict", .summary = "the likeliest classes of pictures",
    .operands = "CHECKPOINT IMAGE...", .least = 2, .most = -1, .options = options_of_predict,
    .computes = true,
    .about =
        "Shows the classes that a checkpoint gives to PNG or JPEG pictures, with their\n"
        "probabilities. Pictures are scaled, cut and normalised as in the run's evaluation;\n"
        "names of classes lie in the checkpoint.\n",
    .example = "  attnbench predict runs/try/best.safetensors photo.jpg other.png\n"
               "  attnbench predict runs/try/best.safetensors photo.jpg --top 1 --json\n",
    .run = run,
};
