/* teacher.c - a checkpoint that is evaluated beside the training. */
#include "train/teacher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "data/normalize.h"
#include "nn/interpolate.h"
#include "train/checkpoint.h"

struct teacher {
    const char *path;
    const struct experiment *student;
    struct experiment x;
    struct network *network;
    struct model_shape ours, theirs; /* of the student and of the teacher */
    double factor[DATA_MAX_CHANNELS], shift[DATA_MAX_CHANNELS]; /* by the teacher's channels */
    struct interpolator *resample; /* of one channel; NULL: both have the same size */
    real *images;                  /* (batch, theirs.channels, theirs.height, theirs.width) */
    real *loss;                    /* (batch), of no use */
    long long runs;
};

static enum status refuse(const struct teacher *t, struct error *err, const char *what)
{
    return config_error(t->student->config, err, "train.distill.teacher", "%s", what);
}

static enum status load_experiment(struct teacher *t, struct error *err)
{
    char *text;
    enum status status = checkpoint_config(&text, t->path, err);
    if (!status) {
        status = experiment_parse(&t->x, text, t->path, err);
        free(text);
    }
    if (status == ERR_INPUT) {
        struct error part = *err;
        return refuse(t, err, part.text);
    }
    return status;
}

static enum status check_shapes(const struct teacher *t, struct error *err)
{
    char text[256];
    if (t->ours.classes != t->theirs.classes)
        snprintf(text, sizeof text, "has %d classes, the model %d (a teacher knows the same classes)",
                 t->theirs.classes, t->ours.classes);
    else if (t->ours.channels != t->theirs.channels && t->ours.channels != 1)
        snprintf(text, sizeof text, "reads %d channels, the model %d (grey is repeated, colour never "
                 "made grey)", t->theirs.channels, t->ours.channels);
    else
        return OK;
    return refuse(t, err, text);
}

/* From the student's numbers to the teacher's: x factor + shift. */
static enum status compare_normalization(struct teacher *t, struct error *err)
{
    struct normalization ours, theirs;
    enum status status =
        normalization_resolve(&ours, &t->student->data, t->ours.channels, err);
    if (!status)
        status = normalization_resolve(&theirs, &t->x.data, t->theirs.channels, err);
    for (int c = 0; c < t->theirs.channels && !status; c++) {
        int own = t->ours.channels == t->theirs.channels ? c : 0;
        t->factor[c] = ours.std[own] / theirs.std[c];
        t->shift[c] = (ours.mean[own] - theirs.mean[c]) / theirs.std[c];
    }
    return status;
}

static enum status plan(struct teacher *t, int batch, int threads, struct error *err)
{
    enum status status = load_experiment(t, err);
    if (status)
        return status;
    t->theirs = model_of(&t->x.model)->shape(t->x.model.options);
    const int to[] = {t->theirs.height, t->theirs.width}, from[] = {t->ours.height, t->ours.width};
    status = check_shapes(t, err);
    if (!status)
        status = compare_normalization(t, err);
    if (!status && (to[0] != from[0] || to[1] != from[1]))
        status = nn_interpolator_create(&t->resample, to, from, 1, INTERPOLATE_ANTIALIAS, err);
    if (!status)
        status = network_plan(&t->network, &t->x, NETWORK_INFER, batch, threads, err);
    return status;
}

enum status teacher_plan(struct teacher **out, const struct experiment *student, int batch,
                         int threads, struct error *err)
{
    struct teacher *t = *out = calloc(1, sizeof *t);
    if (!t)
        return error_memory(err, sizeof *t);
    t->path = student->train.distill->teacher;
    t->student = student;
    t->ours = model_of(&student->model)->shape(student->model.options);
    enum status status = plan(t, batch, threads, err);
    if (status) {
        teacher_destroy(t);
        *out = NULL;
    }
    return status;
}

void teacher_destroy(struct teacher *t)
{
    if (!t)
        return;
    network_destroy(t->network);
    nn_interpolator_destroy(t->resample);
    if (t->x.config)
        experiment_free(&t->x);
    free(t->images);
    free(t->loss);
    free(t);
}

static size_t image_size(const struct model_shape *s)
{
    return (size_t)s->channels * (size_t)s->height * (size_t)s->width;
}

double teacher_bytes(const struct teacher *t)
{
    double bytes = network_bytes(t->network);
    bytes += (double)t->network->batch * (double)image_size(&t->theirs) * sizeof(real);
    return bytes + (t->resample ? nn_interpolator_bytes(t->resample) : 0);
}

enum status teacher_allocate(struct teacher *t, struct error *err)
{
    size_t batch = (size_t)t->network->batch;
    t->images = malloc(batch * image_size(&t->theirs) * sizeof *t->images);
    t->loss = malloc(batch * sizeof *t->loss);
    if (!t->images || !t->loss)
        return error_memory(err, batch * image_size(&t->theirs) * sizeof *t->images);
    enum status status = network_allocate(t->network, err);
    if (!status)
        status = checkpoint_load(&t->network->params, &t->x.model, t->path, NULL, err);
    if (status == ERR_INPUT) {
        struct error part = *err;
        return refuse(t, err, part.text);
    }
    return status;
}

enum status teacher_check_classes(const struct teacher *t, const char *const *names,
                                  struct error *err)
{
    char **theirs, text[256];
    enum status status = checkpoint_class_names(&theirs, t->path, err);
    for (int i = 0; !status && theirs && theirs[i] && i < t->ours.classes; i++)
        if (strcmp(theirs[i], names[i]) != 0) {
            snprintf(text, sizeof text, "class %d is \"%.60s\", in the data it is \"%.60s\"", i,
                     theirs[i], names[i]);
            status = refuse(t, err, text);
        }
    free(theirs);
    return status;
}

uint32_t teacher_crc32(const struct teacher *t)
{
    const struct params *p = &t->network->params;
    return hash_crc32(0, p->values, p->total * sizeof(real));
}

/* One image as the teacher reads it. */
static void convert_image(struct teacher *t, real *to, const real *from)
{
    size_t ours = (size_t)t->ours.height * (size_t)t->ours.width;
    size_t theirs = (size_t)t->theirs.height * (size_t)t->theirs.width;
    for (int c = 0; c < t->theirs.channels; c++, to += theirs) {
        const real *plane = t->ours.channels == t->theirs.channels ? from + (size_t)c * ours : from;
        if (t->resample)
            nn_interpolator_run(t->resample, to, plane);
        else
            memcpy(to, plane, theirs * sizeof *to);
        for (size_t i = 0; i < theirs; i++)
            to[i] = to[i] * (real)t->factor[c] + (real)t->shift[c];
    }
}

void teacher_logits(struct teacher *t, const struct batch *b, real *logits)
{
    for (int i = 0; i < b->count; i++)
        convert_image(t, t->images + (size_t)i * image_size(&t->theirs),
                      b->images + (size_t)i * image_size(&t->ours));
    struct feed feed = {.rows = b->count, .same_values = t->runs++ > 0};
    feed.input[NETWORK_INPUT_IMAGES] = t->images;
    feed.input[NETWORK_INPUT_LABELS] = b->labels;
    feed.output[NETWORK_OUTPUT_LOGITS] = logits;
    feed.output[NETWORK_OUTPUT_LOSS] = t->loss;
    runner_run(t->network->infer_run, &feed);
}
