/* synthetic.c - patterns that can be learnt, drawn from the seed: for benchmarks and for tests
 * without files.
 *
 * Each class is a sum of three waves a channel. A record is its class's pattern shifted by up to a
 * sixteenth of the image either way, with noise: train and test share the patterns, not the shifts
 * and the noise. */
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/rng.h"
#include "data/format.h"

enum { WAVES = 3, FREQUENCIES = 4 }; /* a channel has three waves of 0 to 3 periods an axis */

struct wave {
    int fy, fx; /* periods over the height and the width */
    double phase, amplitude;
};

struct synthetic {
    uint64_t stream; /* of shifts and noise */
    int split;
    struct wave *waves;    /* (classes, channels, WAVES) */
    double *cosine, *sine; /* (FREQUENCIES, width), of 2 pi f x / width */
};

static const double two_pi = 6.283185307179586;

static void synthetic_draw_waves(struct wave *waves, int classes, int channels, uint64_t seed)
{
    uint64_t stream = rng_stream(seed, "synthetic:patterns");
    for (int c = 0; c < classes; c++) {
        for (int i = 0; i < channels * WAVES; i++) {
            uint64_t step = (uint64_t)c, sample = (uint64_t)i;
            uint64_t pair = 1 + rng_below(stream, step, sample, 0, FREQUENCIES * FREQUENCIES - 1);
            waves[c * channels * WAVES + i] = (struct wave){
                .fy = (int)pair / FREQUENCIES,
                .fx = (int)pair % FREQUENCIES,
                .phase = two_pi * rng_uniform(stream, step, sample, 1),
                .amplitude = 15 + 20 * rng_uniform(stream, step, sample, 2),
            };
        }
    }
}

static enum status synthetic_open(struct dataset *d, const struct dataset_request *r,
                                  struct error *err)
{
    if (r->split == SPLIT_VAL)
        return OK;
    struct image_shape shape = r->shape.height ? r->shape : (struct image_shape){3, 32, 32};
    int classes = r->classes ? r->classes : 10;
    int count = r->split == SPLIT_TEST ? r->config->test_count : r->config->train_count;
    size_t waves = (size_t)classes * (size_t)shape.channels * WAVES;
    size_t entries = FREQUENCIES * (size_t)shape.width;
    if (count < 1)
        return error_set(err, ERR_INPUT, "data.%s_count: %d is not 1 or more",
                         r->split == SPLIT_TEST ? "test" : "train", count);

    struct synthetic *s = arena_alloc(&d->memory, sizeof *s);
    if (!s || !(s->waves = arena_alloc(&d->memory, waves * sizeof *s->waves)) ||
        !(s->cosine = arena_alloc(&d->memory, entries * sizeof *s->cosine)) ||
        !(s->sine = arena_alloc(&d->memory, entries * sizeof *s->sine)) ||
        !(d->labels = malloc((size_t)count * sizeof *d->labels)))
        return error_memory(err, waves * sizeof *s->waves + 2 * entries * sizeof *s->sine +
                                     (size_t)count * sizeof *d->labels);
    s->stream = rng_stream(r->seed, "synthetic:samples");
    s->split = (int)r->split;
    synthetic_draw_waves(s->waves, classes, shape.channels, r->seed);
    for (int f = 0; f < FREQUENCIES; f++) {
        for (int x = 0; x < shape.width; x++) {
            s->cosine[f * shape.width + x] = cos(two_pi * f * x / shape.width);
            s->sine[f * shape.width + x] = sin(two_pi * f * x / shape.width);
        }
    }
    for (int i = 0; i < count; i++)
        d->labels[i] = i % classes;

    const uint64_t facts[] = {
        r->seed,
        (uint64_t)r->split,
        (uint64_t)count,
        (uint64_t)classes,
        (uint64_t)shape.channels,
        (uint64_t)shape.height,
        (uint64_t)shape.width,
    };
    d->fingerprint = hash_fnv(HASH_START, facts, sizeof facts);
    d->count = (size_t)count;
    d->native = shape;
    d->where = "data.format synthetic";
    d->named = classes;
    d->source = s;
    return OK;
}

/* -45 .. 45 for the pixel: each block of the generator serves 16 of them. */
static double synthetic_noise(const struct synthetic *s, size_t sample, size_t pixel,
                              uint32_t block[4])
{
    if (pixel % 16 == 0)
        rng_block(block, s->stream, (uint64_t)s->split, sample, 2 + pixel / 16);
    uint32_t byte = block[pixel % 16 / 4] >> (8 * (pixel % 4)) & 0xff;
    return ((double)byte - 127.5) * (45 / 127.5);
}

static void synthetic_draw(const struct dataset *d, size_t i, uint8_t *pixels)
{
    const struct synthetic *s = d->source;
    int height = d->native.height, width = d->native.width, channels = d->native.channels;
    const struct wave *wave = s->waves + (size_t)d->labels[i] * (size_t)channels * WAVES;
    double down = (rng_uniform(s->stream, (uint64_t)s->split, i, 0) - 0.5) / 8;
    double right = (rng_uniform(s->stream, (uint64_t)s->split, i, 1) - 0.5) / 8;
    uint32_t block[4];
    size_t pixel = 0;
    for (int c = 0; c < channels; c++, wave += WAVES) {
        for (int y = 0; y < height; y++) {
            /* cos(a + b) = cos a cos b - sin a sin b, a of the row and b of the column */
            double of_cosine[WAVES], of_sine[WAVES];
            for (int k = 0; k < WAVES; k++) {
                const struct wave *w = &wave[k];
                double angle =
                    w->phase + two_pi * (w->fy * ((double)y / height + down) + w->fx * right);
                of_cosine[k] = w->amplitude * cos(angle);
                of_sine[k] = w->amplitude * sin(angle);
            }
            for (int x = 0; x < width; x++, pixel++) {
                double value = 128 + synthetic_noise(s, i, pixel, block);
                for (int k = 0; k < WAVES; k++) {
                    int at = wave[k].fx * width + x;
                    value += of_cosine[k] * s->cosine[at] - of_sine[k] * s->sine[at];
                }
                pixels[pixel] = value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)(value + 0.5);
            }
        }
    }
}

const struct dataset_format synthetic_format = {
    .name = "synthetic",
    .summary = "class patterns drawn from the seed, shifted and with noise; reads no files",
    .mean = {0.5},
    .std = {0.5},
    .channels = 0,
    .open = synthetic_open,
    .draw = synthetic_draw,
};
