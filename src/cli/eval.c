/* eval.c - attnbench eval. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/arguments.h"
#include "cli/datasource.h"
#include "cli/output.h"
#include "cli/source.h"
#include "config/config.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

static const char *const split_names[] = {"val", "test", "train", NULL};
static const unsigned split_bits[] = {SPLITS_VAL, SPLITS_TEST, SPLITS_TRAIN};

/* What --set says: all of it for the model, and of that what is said about data. */
struct eval_settings {
    const char **all, **data; /* (count), (data_count); one block */
    int count, data_count;
};

/* One evaluation from operands to result. */
struct eval {
    const struct arguments *a;
    struct eval_settings set;
    const char *checkpoint;
    struct experiment own;    /* of the checkpoint; own.config is NULL for a foreign file */
    struct datasource data;
    const struct experiment *model; /* the one whose model is used */
    struct network *network;
    struct splits splits;
    const char *split;
    const struct part *part;
    FILE *rows; /* the table of predictions, NULL where it is not wanted */
    struct evaluation result;
};

/* --- where model and data come from
 * -------------------------------------------------------------- */

/* config.json beside the checkpoint, where --data is not given; malloc'd. */
static enum status data_path(char **path, const struct eval *e, struct error *err)
{
    const char *given = arguments_value(e->a, "--data");
    char *directory = file_directory(e->checkpoint);
    *path = given ? strdup(given) : directory ? file_join(directory, "config.json") : NULL;
    free(directory);
    if (!*path)
        return error_memory(err, 0);
    if (!given && !file_exists(*path)) {
        enum status status = error_set(err, ERR_INPUT,
                                       "%s: no config.json beside it says where the data lies "
                                       "(give --data CONFIG or --data FOLDER)",
                                       e->checkpoint);
        free(*path);
        return status;
    }
    return OK;
}

static enum status read_settings(struct eval_settings *s, const struct arguments *a,
                                 struct error *err)
{
    s->count = arguments_values(a, "--set", NULL, 0);
    s->all = calloc(2 * (size_t)s->count + 1, sizeof *s->all);
    if (!s->all)
        return error_memory(err, (size_t)s->count * sizeof *s->all);
    s->data = s->all + s->count;
    arguments_values(a, "--set", s->all, s->count);
    for (int i = 0; i < s->count; i++)
        if (strncmp(s->all[i], "data.", 5) == 0 || strncmp(s->all[i], "seed=", 5) == 0)
            s->data[s->data_count++] = s->all[i];
    return OK;
}

/* A config that was named for its data may be one of another model: that has no effect. */
static void note_other_model(const struct eval *e, const char *path)
{
    char text[MODEL_HINT_SIZE];
    if (!e->own.config || !e->data.own.config || !arguments_has(e->a, "--data"))
        return;
    const struct model *own = model_of(&e->own.model), *other = model_of(&e->data.own.model);
    const void *ours = e->data.own.model.options, *theirs = e->own.model.options;
    if (own != other)
        snprintf(text, sizeof text, "model is %s, the checkpoint's %s", other->name, own->name);
    else if (model_differences(own, ours, theirs, text) == 0 &&
             model_same_attention(own, ours, theirs, text))
        return;
    output_note("%s: only its data is used: %s", path, text);
}

static enum status open_sources(struct eval *e, struct error *err)
{
    enum source kind;
    enum status status = source_kind(&kind, e->checkpoint, err);
    if (status)
        return status;
    if (kind == SOURCE_DIRECTORY)
        return error_set(err, ERR_INPUT, "%s: a directory (name a checkpoint in it, as in %s/%s)",
                         e->checkpoint, e->checkpoint, "best.safetensors");
    status = source_check_weights(e->checkpoint, err);
    if (status)
        return status;
    status = read_settings(&e->set, e->a, err);
    if (status)
        return status;
    struct error foreign;
    const struct eval_settings *set = &e->set;
    enum status own = source_experiment(&e->own, SOURCE_CHECKPOINT, e->checkpoint, set->all,
                                        set->count, &foreign);
    if (own && (own == ERR_MEMORY || !arguments_has(e->a, "--data")))
        return error_set(err, own, "%s", foreign.text);
    char *path;
    status = data_path(&path, e, err);
    if (status)
        return status;
    status = datasource_open(&e->data, path, own ? NULL : &e->own, own ? set->all : set->data,
                             own ? set->count : set->data_count, err);
    if (!status)
        note_other_model(e, path);
    free(path);
    if (status)
        return status;
    e->model = own ? &e->data.own : &e->own;
    if (!e->model->config) /* a foreign file and a folder: nothing names the model */
        return error_set(err, own, "%s", foreign.text);
    return OK;
}

static enum status wanted_split(unsigned *bits, struct eval *e, struct error *err)
{
    e->split = arguments_value(e->a, "--split");
    *bits = SPLITS_TEST;
    for (int i = 0; e->split && split_names[i]; i++) {
        if (strcmp(split_names[i], e->split) == 0) {
            *bits = split_bits[i];
            return OK;
        }
    }
    if (!e->split)
        return OK;
    enum status status = error_set(err, ERR_INPUT, "--split: \"%.40s\" is no part of a dataset",
                                   e->split);
    config_hint_name(err, e->split, split_names);
    return status;
}

static enum status open_splits(struct eval *e, unsigned bits, struct error *err)
{
    struct model_shape s = source_shape(e->model);
    struct image_shape image = {s.channels, s.height, s.width};
    return splits_open(&e->splits, e->data.config, bits, image, s.classes, e->data.seed, err);
}

/* Opens the part that was asked for: without --split the test part, or where there is none, val. */
static enum status open_part(struct eval *e, struct error *err)
{
    unsigned bits;
    enum status status = wanted_split(&bits, e, err);
    if (!status)
        status = open_splits(e, bits, err);
    if (status)
        return status;
    const char *name = e->split ? e->split : "test";
    if (!e->split && !e->splits.test.set) {
        splits_close(&e->splits);
        name = "val";
        status = open_splits(e, SPLITS_VAL, err);
        if (status)
            return status;
    }
    e->split = name;
    e->part = splits_part(&e->splits, name);
    if (e->part->set)
        return OK;
    return error_set(err, ERR_INPUT, "--split: this data has no %s part%s", name,
                     strcmp(name, "val") == 0 ? " (data.validation is null)" : "");
}

/* Labels mean what they meant in training: the names agree, one by one. */
static enum status compare_classes(const struct eval *e, struct error *err)
{
    char **names;
    enum status status = checkpoint_class_names(&names, e->checkpoint, err);
    if (status || !names)
        return status;
    int classes = dataset_classes(e->part->set);
    for (int i = 0; i < classes && names[i] && !status; i++) {
        const char *name = dataset_class_name(e->part->set, i);
        if (strcmp(name, names[i]) != 0)
            status = error_set(err, ERR_INPUT,
                               "%s: class %d is \"%.60s\", in the data it is \"%.60s\"",
                               e->checkpoint, i, names[i], name);
    }
    free(names);
    return status;
}

/* --- running
 * ------------------------------------------------------------------------------------ */

static void put_row(void *context, size_t record, int label, const double *probabilities)
{
    struct eval *e = context;
    int best = 0, classes = e->network->shape.classes;
    for (int i = 1; i < classes; i++)
        if (probabilities[i] > probabilities[best])
            best = i;
    fprintf(e->rows, "%zu,%d,%d", record, label, best);
    for (int i = 0; i < classes; i++)
        fprintf(e->rows, ",%.9g", probabilities[i]);
    fputc('\n', e->rows);
}

static enum status run_loader(struct eval *e, struct error *err)
{
    struct loader *loader;
    const struct loader_options options = experiment_loader(e->model, false);
    enum status status = loader_create(&loader, e->part->set, e->data.config, e->part->records,
                                       e->part->count, &options, err);
    if (status)
        return status;
    status = evaluate(&e->result, e->network, loader, NULL, e->rows ? put_row : NULL, e, err);
    loader_destroy(loader);
    return status;
}

/* Evaluates, and where predictions are wanted collects them first, so that their file is whole. */
static enum status run_and_write(struct eval *e, struct error *err)
{
    const char *path = arguments_value(e->a, "--predictions");
    char *text = NULL;
    size_t size = 0;
    if (!path)
        return run_loader(e, err);
    if (!(e->rows = open_memstream(&text, &size)))
        return error_memory(err, 0);
    fprintf(e->rows, "index,label,prediction");
    for (int i = 0; i < e->network->shape.classes; i++)
        fprintf(e->rows, ",p%d", i);
    fputc('\n', e->rows);
    enum status status = run_loader(e, err);
    bool lost = ferror(e->rows) != 0;
    lost = fclose(e->rows) != 0 || lost;
    if (!status && (lost || !text))
        status = error_memory(err, size);
    if (!status)
        status = file_write(path, text, size, err);
    free(text);
    return status;
}

/* The table of predictions can be written, and not over the checkpoint. */
static enum status check_output(const struct eval *e, struct error *err)
{
    const char *path = arguments_value(e->a, "--predictions");
    if (!path)
        return OK;
    enum status status = output_check_path("--predictions", path, err);
    return status ? status : output_check_apart("--predictions", path, e->checkpoint, err);
}

/* The model is planned before data is read: what is wrong with it shows at once. */
static enum status create_network(struct eval *e, struct error *err)
{
    int threads;
    enum status status = source_threads(&threads, e->a, err);
    if (status)
        return status;
    return network_create(&e->network, e->model, NETWORK_INFER, e->model->train.batch_size, threads,
                          err);
}

static enum status load_weights(struct eval *e, struct error *err)
{
    char *note;
    enum status status =
        checkpoint_load_resized(&e->network->params, &e->model->model, e->checkpoint, &note, err);
    if (status)
        return status;
    if (note)
        output_note("%s", note);
    free(note);
    return OK;
}

/* --- results
 * ------------------------------------------------------------------------------------ */

static double percent(long long part, long long whole)
{
    return whole ? 100.0 * (double)part / (double)whole : (double)NAN;
}

static double speed(const struct evaluation *r)
{
    return r->seconds > 0 ? (double)r->n / r->seconds : 0;
}

/* Validation on the test set is to be called by its name. */
static bool is_test_as_validation(const struct eval *e)
{
    return strcmp(e->split, "val") == 0 && e->splits.validation == VALIDATION_TEST;
}

static enum status eval_json(const struct eval *e, struct error *err)
{
    const struct evaluation *r = &e->result;
    struct json *j = json_create();
    if (!j)
        return error_memory(err, 0);
    json_object(j, NULL);
    json_string(j, "split", e->split);
    if (is_test_as_validation(e))
        json_bool(j, "validation_is_test", true);
    json_number(j, "loss", r->loss);
    json_number(j, "top1", r->top1);
    json_number(j, "top5", r->top5);
    json_int(j, "n", r->n);
    json_number(j, "ece", r->ece);
    json_array(j, "per_class");
    for (int i = 0; i < r->classes; i++) {
        json_object(j, NULL);
        json_string(j, "name", dataset_class_name(e->part->set, i));
        json_int(j, "n", r->class_n[i]);
        json_number(j, "top1", percent(r->class_correct[i], r->class_n[i]));
        json_end(j);
    }
    json_end(j);
    json_array(j, "confusion");
    for (int i = 0; i < r->classes; i++) {
        json_array(j, NULL);
        for (int k = 0; k < r->classes; k++)
            json_int(j, NULL, r->confusion[(size_t)i * (size_t)r->classes + (size_t)k]);
        json_end(j);
    }
    json_end(j);
    json_number(j, "img_per_sec", speed(r));
    json_end(j);
    enum status status = output_json(j, err);
    json_destroy(j);
    return status;
}

static void eval_text(const struct eval *e)
{
    const struct evaluation *r = &e->result;
    char n[OUTPUT_NUMBER_SIZE];
    printf("%s on %s%s: %s images, %.0f img/s\n", e->checkpoint, e->split,
           is_test_as_validation(e) ? " (the official test set)" : "", output_count(n, r->n),
           speed(r));
    printf("top-1 %.2f %%", r->top1);
    if (!isnan(r->top5))
        printf(", top-5 %.2f %%", r->top5);
    printf(", loss %.4f, calibration error %.4f\n\n%-24s %10s %10s\n", r->loss, r->ece, "class",
           "images", "top-1");
    for (int i = 0; i < r->classes; i++) {
        printf("%-24s %10lld ", dataset_class_name(e->part->set, i), r->class_n[i]);
        if (r->class_n[i])
            printf("%8.2f %%\n", percent(r->class_correct[i], r->class_n[i]));
        else
            printf("%10s\n", "-");
    }
}

static enum status run(const struct arguments *a, struct error *err)
{
    struct eval e = {.a = a, .checkpoint = a->operands[0]};
    enum status status = check_output(&e, err);
    if (!status)
        status = open_sources(&e, err);
    if (!status)
        status = create_network(&e, err);
    if (!status)
        status = load_weights(&e, err);
    if (!status)
        status = open_part(&e, err);
    if (!status)
        status = compare_classes(&e, err);
    if (!status)
        status = run_and_write(&e, err);
    if (!status) {
        if (arguments_has(a, "--json"))
            status = eval_json(&e, err);
        else
            eval_text(&e);
        evaluation_free(&e.result);
    }
    network_destroy(e.network);
    splits_close(&e.splits);
    datasource_free(&e.data);
    if (e.own.config)
        experiment_free(&e.own);
    free(e.set.all);
    return status;
}

static const struct command_option options_of_eval[] = {
    {"--data", "CONFIG|PATH", false, "data to use (default: config.json beside the checkpoint)"},
    {"--split", "PART", false, "val, test or train (default: test where there is one, else val)"},
    OPTION_SET,
    OPTION_JSON,
    {"--predictions", "FILE.csv", false, "write index, label, prediction and probabilities"},
    OPTION_THREADS,
    OPTION_END,
};

const struct command eval_command = {
    .name = "eval", .summary = "loss and accuracy of a checkpoint", .operands = "CHECKPOINT",
    .least = 1, .most = 1, .options = options_of_eval, .computes = true,
    .about =
        "Evaluates a checkpoint: loss, top-1, top-5 (where there are more than five\n"
        "classes), calibration error, accuracy by class; with --json the confusion matrix\n"
        "too. For weights from elsewhere the model is that of --data CONFIG. With\n"
        "--set model.image_size=288 images are as large as that, and position embeddings\n"
        "and tables of Swin's windows are resampled.\n",
    .example = "  attnbench eval runs/try/best.safetensors\n"
               "  attnbench eval runs/try/last.safetensors --split val --json\n",
    .run = run,
};
