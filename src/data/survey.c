/* survey.c - threads that take records in turn; sums of bytes and of their squares are exact. */
#include "data/survey.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TURN = 16 }; /* records a thread takes at a time */

/* What one picture adds, and in the end all of them. */
struct sums {
    uint64_t pixels, sum[3], squares[3];
};

static void add_pixels(struct sums *to, const struct image *image)
{
    size_t pixels = (size_t)image->width * (size_t)image->height;
    uint64_t sum[3] = {0}, squares[3] = {0};
    for (size_t p = 0; p < pixels; p++) {
        for (int c = 0; c < 3; c++) {
            uint64_t value = image->rgb[3 * p + (size_t)c];
            sum[c] += value;
            squares[c] += value * value;
        }
    }
    to->pixels += pixels;
    for (int c = 0; c < 3; c++) {
        to->sum[c] += sum[c];
        to->squares[c] += squares[c];
    }
}

static void add_size(struct survey *s, int least_width, int least_height, int most_width,
                     int most_height)
{
    if (s->count == 0 || least_width < s->least_width)
        s->least_width = least_width;
    if (s->count == 0 || least_height < s->least_height)
        s->least_height = least_height;
    s->most_width = most_width > s->most_width ? most_width : s->most_width;
    s->most_height = most_height > s->most_height ? most_height : s->most_height;
}

static enum status add_bad(struct survey *s, size_t record, const char *what, struct error *err)
{
    size_t bytes = (s->bad_count + 1) * sizeof *s->bad;
    struct survey_bad *grown = realloc(s->bad, bytes);
    char *copy = strdup(what);
    if (grown)
        s->bad = grown;
    if (!grown || !copy) {
        free(copy);
        return error_memory(err, bytes);
    }
    s->bad[s->bad_count++] = (struct survey_bad){record, copy};
    return OK;
}

static void merge(struct survey *to, const struct survey *from)
{
    if (from->count)
        add_size(to, from->least_width, from->least_height, from->most_width, from->most_height);
    to->count += from->count;
}

static int compare_bad(const void *a, const void *b)
{
    const struct survey_bad *x = a, *y = b;
    return (x->record > y->record) - (x->record < y->record);
}

static void finish(struct survey *s, const struct sums *sums)
{
    double n = sums->pixels ? (double)sums->pixels : (double)NAN;
    for (int c = 0; c < 3; c++) {
        double mean = (double)sums->sum[c] / n;
        s->mean[c] = mean / 255;
        s->std[c] = sqrt(fmax(0, (double)sums->squares[c] / n - mean * mean)) / 255;
    }
    if (s->bad_count)
        qsort(s->bad, s->bad_count, sizeof *s->bad, compare_bad);
}

enum status survey_take(struct survey *s, const struct dataset *d, const size_t *records,
                        size_t count, int threads, struct error *err)
{
    struct sums sums = {0};
    struct error failure = {.status = OK};
    *s = (struct survey){0};
#pragma omp parallel num_threads(threads)
    {
        struct survey own = {0};
        struct sums own_sums = {0};
        struct image image = {0};
        struct error problem;
#pragma omp for schedule(dynamic, TURN)
        for (size_t i = 0; i < count; i++) {
            size_t record = records ? records[i] : i;
            enum status status = dataset_image(d, record, &image, &problem);
            if (status == OK) {
                add_size(&own, image.width, image.height, image.width, image.height);
                own.count++;
                add_pixels(&own_sums, &image);
                continue;
            }
#pragma omp critical(survey)
            {
                if (status != ERR_MEMORY)
                    status = add_bad(s, record, problem.text, &problem);
                if (status == ERR_MEMORY)
                    failure = problem;
            }
        }
        image_free(&image);
#pragma omp critical(survey)
        {
            merge(s, &own);
            sums.pixels += own_sums.pixels;
            for (int c = 0; c < 3; c++) {
                sums.sum[c] += own_sums.sum[c];
                sums.squares[c] += own_sums.squares[c];
            }
        }
    }
    finish(s, &sums);
    if (failure.status == OK)
        return OK;
    survey_free(s);
    if (err)
        *err = failure;
    return failure.status;
}

void survey_free(struct survey *s)
{
    for (size_t i = 0; i < s->bad_count; i++)
        free(s->bad[i].what);
    free(s->bad);
    *s = (struct survey){0};
}
