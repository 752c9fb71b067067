/* interpolate.c - bicubic, one axis after the other, summed in double. */
#include "nn/interpolate.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* How one axis is resampled: out[i] = sum over j of weight[i taps + j] in[index[i taps + j]]. */
struct axis {
    int to, taps;
    int *index;
    double *weight;
};

static double cubic(double x, double a)
{
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static int clamp(int i, int count)
{
    return i < 0 ? 0 : i < count ? i : count - 1;
}

/* Four neighbours of the centre; those outside are the edge's. */
static void fill_plain(const struct axis *a, int i, int from)
{
    double centre = (i + 0.5) * from / a->to - 0.5;
    int first = (int)floor(centre) - 1;
    for (int j = 0; j < 4; j++) {
        a->index[i * a->taps + j] = clamp(first + j, from);
        a->weight[i * a->taps + j] = cubic(centre - (first + j), -0.75);
    }
}

/* All within the widened cubic; what lies outside does not count. */
static void fill_antialias(const struct axis *a, int i, int from)
{
    double step = (double)from / a->to, wide = step > 1 ? step : 1, sum = 0;
    double centre = (i + 0.5) * step;
    int first = (int)fmax(centre - 2 * wide + 0.5, 0);
    int end = (int)fmin(centre + 2 * wide + 0.5, from);
    for (int j = 0; j < a->taps; j++) {
        bool inside = first + j < end;
        double weight = inside ? cubic((first + j - centre + 0.5) / wide, -0.5) : 0;
        a->index[i * a->taps + j] = inside ? first + j : first;
        a->weight[i * a->taps + j] = weight;
        sum += weight;
    }
    for (int j = 0; j < a->taps; j++)
        a->weight[i * a->taps + j] /= sum;
}

static enum status axis_init(struct axis *a, int to, int from, enum grid_filter how,
                             struct error *err)
{
    double wide = from > to ? (double)from / to : 1;
    *a = (struct axis){.to = to, .taps = how == INTERPOLATE_PLAIN ? 4 : (int)ceil(4 * wide) + 1};
    size_t count = (size_t)to * (size_t)a->taps;
    a->index = malloc(count * sizeof *a->index);
    a->weight = malloc(count * sizeof *a->weight);
    if (!a->index || !a->weight)
        return error_memory(err, count * (sizeof *a->index + sizeof *a->weight));
    for (int i = 0; i < to; i++) {
        if (how == INTERPOLATE_PLAIN)
            fill_plain(a, i, from);
        else
            fill_antialias(a, i, from);
    }
    return OK;
}

static void axis_free(struct axis *a)
{
    free(a->index);
    free(a->weight);
}

/* Along the axis in the middle.  out: (outer, a->to, inner)  in: (outer, from, inner). */
static void resample(double *out, const double *in, const struct axis *a, int from, size_t outer,
                     size_t inner)
{
    for (size_t o = 0; o < outer; o++)
        for (int i = 0; i < a->to; i++) {
            double *row = out + (o * (size_t)a->to + (size_t)i) * inner;
            memset(row, 0, inner * sizeof *row);
            for (int j = 0; j < a->taps; j++) {
                double weight = a->weight[i * a->taps + j];
                const double *x = in + (o * (size_t)from + (size_t)a->index[i * a->taps + j]) * inner;
                for (size_t c = 0; c < inner; c++)
                    row[c] += weight * x[c];
            }
        }
}

struct interpolator {
    struct axis down, across;
    int from[2], to[2], C;
    double *in, *middle, *out; /* one block */
    size_t read, written, elements;
};

enum status nn_interpolator_create(struct interpolator **out, const int to[2], const int from[2],
                                   int C, enum grid_filter how, struct error *err)
{
    struct interpolator *i = *out = calloc(1, sizeof *i);
    if (!i)
        return error_memory(err, sizeof *i);
    size_t width = (size_t)C, half = (size_t)from[0] * (size_t)to[1] * width;
    i->read = (size_t)from[0] * (size_t)from[1] * width;
    i->written = (size_t)to[0] * (size_t)to[1] * width;
    i->elements = i->read + half + i->written;
    memcpy(i->from, from, sizeof i->from);
    memcpy(i->to, to, sizeof i->to);
    i->C = C;
    i->in = malloc(i->elements * sizeof *i->in);
    enum status status = i->in ? OK : error_memory(err, i->elements * sizeof *i->in);
    if (!status)
        status = axis_init(&i->down, to[0], from[0], how, err);
    if (!status)
        status = axis_init(&i->across, to[1], from[1], how, err);
    if (status) {
        nn_interpolator_destroy(i);
        *out = NULL;
        return status;
    }
    i->middle = i->in + i->read;
    i->out = i->middle + half;
    return OK;
}

void nn_interpolator_destroy(struct interpolator *i)
{
    if (!i)
        return;
    axis_free(&i->down);
    axis_free(&i->across);
    free(i->in);
    free(i);
}

void nn_interpolator_run(struct interpolator *i, real *out, const real *in)
{
    size_t width = (size_t)i->C;
    if (i->to[0] == i->from[0] && i->to[1] == i->from[1]) {
        memcpy(out, in, i->written * sizeof *out);
        return;
    }
    for (size_t k = 0; k < i->read; k++)
        i->in[k] = (double)in[k];
    resample(i->middle, i->in, &i->across, i->from[1], (size_t)i->from[0], width);
    resample(i->out, i->middle, &i->down, i->from[0], 1, (size_t)i->to[1] * width);
    for (size_t k = 0; k < i->written; k++)
        out[k] = (real)i->out[k];
}

double nn_interpolator_bytes(const struct interpolator *i)
{
    double taps = (double)i->down.to * i->down.taps + (double)i->across.to * i->across.taps;
    return (double)i->elements * sizeof(double) + taps * (sizeof(double) + sizeof(int));
}

enum status nn_interpolate(real *out, const int to[2], const real *in, const int from[2], int C,
                           enum grid_filter how, struct error *err)
{
    struct interpolator *i;
    enum status status = nn_interpolator_create(&i, to, from, C, how, err);
    if (status)
        return status;
    nn_interpolator_run(i, out, in);
    nn_interpolator_destroy(i);
    return OK;
}
