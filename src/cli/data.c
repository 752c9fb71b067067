/* data.c - attnbench data. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/datasource.h"
#include "cli/output.h"
#include "cli/source.h"

enum { PARTS = 3 };

static const char *const part_names[PARTS] = {"train", "val", "test"};

struct summary {
    const struct datasource *source;
    struct splits splits;
    const struct dataset *any; /* one that is there: for shape and class names */
    int classes;
    long long *counts[PARTS];  /* (classes); NULL where there is no such part */
    double mean[DATA_MAX_CHANNELS], std[DATA_MAX_CHANNELS]; /* of the training part */
};

static enum status count_classes(struct summary *s, struct error *err)
{
    s->classes = dataset_classes(s->any);
    for (int i = 0; i < PARTS; i++) {
        const struct part *part = splits_part(&s->splits, part_names[i]);
        if (!part->set)
            continue;
        s->counts[i] = calloc((size_t)s->classes, sizeof *s->counts[i]);
        if (!s->counts[i])
            return error_memory(err, (size_t)s->classes * sizeof *s->counts[i]);
        for (size_t k = 0; k < part->count; k++)
            s->counts[i][dataset_label(part->set, part->records[k])]++;
    }
    return OK;
}

/* Mean and deviation of each channel of the training records, pixels scaled to 0..1. Sums of bytes
 * and of their squares are exact. */
static enum status measure(struct summary *s, struct error *err)
{
    const struct part *train = &s->splits.train;
    struct image_shape shape = dataset_shape(s->any);
    size_t plane = (size_t)shape.height * (size_t)shape.width;
    uint64_t sum[DATA_MAX_CHANNELS] = {0}, squares[DATA_MAX_CHANNELS] = {0};
    uint8_t *pixels = malloc(plane * (size_t)shape.channels + 1);
    if (!pixels)
        return error_memory(err, plane * (size_t)shape.channels);
    enum status status = OK;
    for (size_t k = 0; k < train->count && !status; k++) {
        status = dataset_read(train->set, train->records[k], pixels, err);
        for (int c = 0; c < shape.channels && !status; c++) {
            for (size_t p = 0; p < plane; p++) {
                uint64_t pixel = pixels[(size_t)c * plane + p];
                sum[c] += pixel;
                squares[c] += pixel * pixel;
            }
        }
    }
    free(pixels);
    double n = (double)train->count * (double)plane;
    for (int c = 0; c < shape.channels; c++) {
        double mean = (double)sum[c] / n;
        s->mean[c] = mean / 255;
        s->std[c] = sqrt(fmax(0, (double)squares[c] / n - mean * mean)) / 255;
    }
    return status;
}

static enum status summarize(struct summary *s, struct error *err)
{
    const struct datasource *d = s->source;
    struct image_shape image = {0, 0, 0};
    int classes = 0;
    if (d->own.config) {
        struct model_shape m = source_shape(&d->own);
        image = (struct image_shape){m.channels, m.height, m.width};
        classes = m.classes;
    }
    enum status status =
        splits_open(&s->splits, d->config, SPLITS_ALL, image, classes, d->seed, err);
    if (status)
        return status;
    s->any = s->splits.train.set;
    status = count_classes(s, err);
    return status ? status : measure(s, err);
}

/* --- results
 * ------------------------------------------------------------------------------------ */

/* The note on the i-th of the sets that were opened, or NULL. */
static const char *note_of(const struct summary *s, int i)
{
    const struct dataset *set = s->splits.sets[i];
    return set ? dataset_note(set) : NULL;
}

static void put_reals(struct json *j, const char *key, const double *list, int count)
{
    json_array(j, key);
    for (int i = 0; i < count; i++)
        json_number(j, NULL, list[i]);
    json_end(j);
}

static enum status data_json(const struct summary *s, struct error *err)
{
    struct image_shape shape = dataset_shape(s->any);
    char fingerprint[20];
    struct json *j = json_create();
    if (!j)
        return error_memory(err, 0);
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, s->splits.fingerprint);
    json_object(j, NULL);
    json_string(j, "format", dataset_format_names[s->source->config->format]);
    json_string(j, "path", s->source->config->path);
    json_int(j, "channels", shape.channels);
    json_int(j, "height", shape.height);
    json_int(j, "width", shape.width);
    json_array(j, "classes");
    for (int i = 0; i < s->classes; i++)
        json_string(j, NULL, dataset_class_name(s->any, i));
    json_end(j);
    json_array(j, "parts");
    for (int i = 0; i < PARTS; i++) {
        if (!s->counts[i])
            continue;
        json_object(j, NULL);
        json_string(j, "name", part_names[i]);
        json_int(j, "n", (long long)splits_part(&s->splits, part_names[i])->count);
        json_array(j, "per_class");
        for (int k = 0; k < s->classes; k++)
            json_int(j, NULL, s->counts[i][k]);
        json_end(j);
        json_end(j);
    }
    json_end(j);
    put_reals(j, "mean", s->mean, shape.channels);
    put_reals(j, "std", s->std, shape.channels);
    json_string(j, "fingerprint", fingerprint);
    json_array(j, "notes");
    for (int i = 0; i < PARTS; i++)
        if (note_of(s, i))
            json_string(j, NULL, note_of(s, i));
    json_end(j);
    json_end(j);
    enum status status = output_json(j, err);
    json_destroy(j);
    return status;
}

static void data_text(const struct summary *s)
{
    struct image_shape shape = dataset_shape(s->any);
    char text[OUTPUT_NUMBER_SIZE];
    const char *path = s->source->config->path;
    printf("%s%s%s: images of %d x %d, %d channel%s, %d classes\n\n%-24s", path ? path : "",
           path ? ": " : "", dataset_format_names[s->source->config->format], shape.height,
           shape.width, shape.channels, shape.channels > 1 ? "s" : "", s->classes, "class");
    for (int i = 0; i < PARTS; i++)
        if (s->counts[i])
            printf(" %10s", part_names[i]);
    for (int k = 0; k < s->classes; k++) {
        printf("\n%-24s", dataset_class_name(s->any, k));
        for (int i = 0; i < PARTS; i++)
            if (s->counts[i])
                printf(" %10s", output_count(text, s->counts[i][k]));
    }
    printf("\n%-24s", "in all");
    for (int i = 0; i < PARTS; i++)
        if (s->counts[i])
            printf(" %10s", output_count(text, (long long)splits_part(&s->splits,
                                                                       part_names[i])->count));
    printf("\n\nmean");
    for (int c = 0; c < shape.channels; c++)
        printf(" %.4f", s->mean[c]);
    printf(", std");
    for (int c = 0; c < shape.channels; c++)
        printf(" %.4f", s->std[c]);
    printf(" (training images, pixels scaled to 0..1)\n");
    if (s->splits.validation == VALIDATION_TEST)
        printf("note: validation is the official test set\n");
    for (int i = 0; i < PARTS; i++)
        if (note_of(s, i))
            printf("note: %s\n", note_of(s, i));
}

static enum status run(const struct arguments *a, struct error *err)
{
    struct datasource source;
    struct summary s = {.source = &source};
    enum status status = datasource_open(&source, a->operands[0], NULL, err);
    if (!status)
        status = summarize(&s, err);
    if (!status && arguments_has(a, "--json"))
        status = data_json(&s, err);
    else if (!status)
        data_text(&s);
    for (int i = 0; i < PARTS; i++)
        free(s.counts[i]);
    splits_close(&s.splits);
    datasource_free(&source);
    return status;
}

static const struct command_option options_of_data[] = {OPTION_JSON, OPTION_END};

const struct command data_command = {
    .name = "data", .summary = "what a dataset holds: counts, classes, mean and deviation",
    .operands = "CONFIG|PATH", .least = 1, .most = 1, .options = options_of_data,
    .about =
        "Reads and checks the data of a config, or the data files in a folder, and shows\n"
        "images by class and part, and the mean and deviation of each channel.\n",
    .example = "  attnbench data configs/fashion_mnist_super.json\n"
               "  attnbench data /usr/share/datasets/fashion-mnist --json\n",
    .run = run,
};
