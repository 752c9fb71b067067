/* data.c - attnbench data. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "cli/arguments.h"
#include "cli/datasource.h"
#include "cli/output.h"
#include "cli/picture.h"
#include "cli/source.h"
#include "data/survey.h"

enum { PARTS = 3 };

static const char *const part_names[PARTS] = {"train", "val", "test"};

struct summary {
    const struct datasource *source;
    struct splits splits;
    const struct dataset *any; /* one that is there: for shape and class names */
    int classes;
    long long *counts[PARTS];  /* (classes); NULL where there is no such part */
    struct survey surveys[PARTS]; /* of pictures of their own sizes */
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

/* The same from pictures at their own sizes, and which of all parts cannot be decoded. */
static enum status measure_pictures(struct summary *s, struct error *err)
{
    enum status status = OK;
    for (int i = 0; i < PARTS && !status; i++) {
        const struct part *part = splits_part(&s->splits, part_names[i]);
        if (part->set)
            status = survey_take(&s->surveys[i], part->set, part->records, part->count,
                                 cpu_cores(), err);
    }
    memcpy(s->mean, s->surveys[0].mean, sizeof s->surveys[0].mean);
    memcpy(s->std, s->surveys[0].std, sizeof s->surveys[0].std);
    return status;
}

static enum status summarize(struct summary *s, struct error *err)
{
    const struct datasource *d = s->source;
    struct data_config config = *d->config;
    config.on_error = ON_ERROR_FAIL; /* all that are bad are listed here */
    struct image_shape image = {0, 0, 0};
    int classes = 0;
    if (d->own.config) {
        struct model_shape m = source_shape(&d->own);
        image = (struct image_shape){m.channels, m.height, m.width};
        classes = m.classes;
    }
    enum status status =
        splits_open(&s->splits, &config, SPLITS_ALL, image, classes, d->seed, err);
    if (status)
        return status;
    s->any = s->splits.train.set;
    status = count_classes(s, err);
    if (status)
        return status;
    return dataset_has_own_sizes(s->any) ? measure_pictures(s, err) : measure(s, err);
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

/* Sizes of the pictures of a part, where each has its own. */
static void put_sizes(struct json *j, const struct survey *s)
{
    if (!s->count)
        return;
    json_object(j, "sizes");
    json_int(j, "least_width", s->least_width);
    json_int(j, "most_width", s->most_width);
    json_int(j, "least_height", s->least_height);
    json_int(j, "most_height", s->most_height);
    json_end(j);
}

static void put_bad(struct json *j, const struct summary *s)
{
    json_array(j, "bad");
    for (int i = 0; i < PARTS; i++)
        for (size_t k = 0; k < s->surveys[i].bad_count; k++)
            json_string(j, NULL, s->surveys[i].bad[k].what);
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
    if (dataset_has_own_sizes(s->any)) {
        json_null(j, "height");
        json_null(j, "width");
    } else {
        json_int(j, "height", shape.height);
        json_int(j, "width", shape.width);
    }
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
        put_sizes(j, &s->surveys[i]);
        json_end(j);
    }
    json_end(j);
    put_bad(j, s);
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

/* "pictures 98 to 500 pixels wide and 161 to 254 high, " over all parts. */
static void put_size_range(const struct summary *s)
{
    int least_width = 0, least_height = 0, most_width = 0, most_height = 0;
    for (int i = 0; i < PARTS; i++) {
        const struct survey *v = &s->surveys[i];
        if (!v->count)
            continue;
        least_width = least_width && least_width < v->least_width ? least_width : v->least_width;
        least_height =
            least_height && least_height < v->least_height ? least_height : v->least_height;
        most_width = most_width > v->most_width ? most_width : v->most_width;
        most_height = most_height > v->most_height ? most_height : v->most_height;
    }
    printf("pictures %d to %d pixels wide and %d to %d high, ", least_width, most_width,
           least_height, most_height);
}

static void data_text(const struct summary *s)
{
    struct image_shape shape = dataset_shape(s->any);
    char text[OUTPUT_NUMBER_SIZE];
    const char *path = s->source->config->path;
    printf("%s%s%s: ", path ? path : "", path ? ": " : "",
           dataset_format_names[s->source->config->format]);
    if (dataset_has_own_sizes(s->any))
        put_size_range(s);
    else
        printf("images of %d x %d, ", shape.height, shape.width);
    printf("%d channel%s, %d classes\n\n%-24s", shape.channels, shape.channels > 1 ? "s" : "",
           s->classes, "class");
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
    for (int i = 0; i < PARTS; i++)
        for (size_t k = 0; k < s->surveys[i].bad_count; k++)
            printf("bad: %s\n", s->surveys[i].bad[k].what);
    if (s->splits.validation == VALIDATION_TEST)
        printf("note: validation is the official test set\n");
    for (int i = 0; i < PARTS; i++)
        if (note_of(s, i))
            printf("note: %s\n", note_of(s, i));
}

static enum status run(const struct arguments *a, struct error *err)
{
    if (picture_is_one(a->operands[0]))
        return picture_show(a->operands[0], arguments_has(a, "--json"), err);
    struct datasource source;
    struct summary s = {.source = &source};
    enum status status = datasource_open(&source, a->operands[0], NULL, NULL, 0, err);
    if (!status)
        status = summarize(&s, err);
    if (!status && arguments_has(a, "--json"))
        status = data_json(&s, err);
    else if (!status)
        data_text(&s);
    for (int i = 0; i < PARTS; i++)
        free(s.counts[i]);
    for (int i = 0; i < PARTS; i++)
        survey_free(&s.surveys[i]);
    splits_close(&s.splits);
    datasource_free(&source);
    return status;
}

static const struct command_option options_of_data[] = {OPTION_JSON, OPTION_END};

const struct command data_command = {
    .name = "data", .summary = "what a dataset holds: counts, classes, mean and deviation",
    .operands = "CONFIG|PATH|IMAGE", .least = 1, .most = 1, .options = options_of_data,
    .about =
        "Reads and checks the data of a config, or the data files in a folder, and shows\n"
        "images by class and part, and the mean and deviation of each channel. Pictures of\n"
        "image folders are measured at their own sizes, and those that cannot be decoded are\n"
        "listed. For a single picture: its format, size, centre and mean colour.\n",
    .example = "  attnbench data configs/fashion_mnist_super.json\n"
               "  attnbench data /usr/share/datasets/fashion-mnist --json\n"
               "  attnbench data photo.jpg\n",
    .run = run,
};
