/* policy.c - policy strings, magnitudes of the ops, and drawing them. */
#include "data/policy.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define FULL 10.0 /* the magnitude at which an op has its full strength */

/* --- ops ------------------------------------------------------------------------------------- */

/* What an op is applied with. */
struct strength {
    double value;
    const struct augment_move *move;
    struct image *spare;
};

static void auto_contrast(struct image *image, const struct strength *s)
{
    (void)s;
    augment_auto_contrast(image);
}

static void equalize(struct image *image, const struct strength *s)
{
    (void)s;
    augment_equalize(image);
}

static void invert(struct image *image, const struct strength *s)
{
    (void)s;
    augment_invert(image);
}

static void rotate(struct image *image, const struct strength *s)
{
    augment_rotate(image, s->value, s->move, s->spare);
}

static void posterize(struct image *image, const struct strength *s)
{
    augment_posterize(image, (int)s->value);
}

static void solarize(struct image *image, const struct strength *s)
{
    augment_solarize(image, (int)s->value);
}

static void solarize_add(struct image *image, const struct strength *s)
{
    augment_solarize_add(image, (int)s->value);
}

static void color(struct image *image, const struct strength *s)
{
    augment_color(image, s->value);
}

static void contrast(struct image *image, const struct strength *s)
{
    augment_contrast(image, s->value);
}

static void brightness(struct image *image, const struct strength *s)
{
    augment_brightness(image, s->value);
}

static void sharpness(struct image *image, const struct strength *s)
{
    augment_sharpness(image, s->value, s->spare);
}

static void shear_x(struct image *image, const struct strength *s)
{
    augment_affine(image, (const double[6]){1, s->value, 0, 0, 1, 0}, s->move, s->spare);
}

static void shear_y(struct image *image, const struct strength *s)
{
    augment_affine(image, (const double[6]){1, 0, 0, s->value, 1, 0}, s->move, s->spare);
}

static void translate_x(struct image *image, const struct strength *s)
{
    double pixels = s->value * image->width;
    augment_affine(image, (const double[6]){1, 0, pixels, 0, 1, 0}, s->move, s->spare);
}

static void translate_y(struct image *image, const struct strength *s)
{
    double pixels = s->value * image->height;
    augment_affine(image, (const double[6]){1, 0, 0, 0, 1, pixels}, s->move, s->spare);
}

/* --- magnitudes ------------------------------------------------------------------------------ */

/* part: the magnitude, 1 being full; sign: -1 or 1. */

static double no_value(double part, double sign)
{
    (void)part, (void)sign;
    return 0;
}

static double turn(double part, double sign) /* degrees */
{
    return sign * (part * 30);
}

static double lean(double part, double sign)
{
    return sign * (part * 0.3);
}

static double shift(double part, double sign) /* of the side */
{
    return sign * (part * 0.45);
}

static double bits(double part, double sign)
{
    (void)sign;
    return fmin(8, trunc(part * 4));
}

static double fewer_bits(double part, double sign)
{
    return fmax(0, 4 - bits(part, sign));
}

static double threshold(double part, double sign)
{
    (void)sign;
    return fmin(256, trunc(part * 256));
}

static double lower_threshold(double part, double sign)
{
    return 256 - threshold(part, sign);
}

static double addition(double part, double sign)
{
    (void)sign;
    return fmin(128, trunc(part * 110));
}

static double factor(double part, double sign)
{
    (void)sign;
    return part * 1.8 + 0.1;
}

static double factor_away_from_1(double part, double sign)
{
    return fmax(0.1, 1 + sign * (part * 0.9));
}

/* --- RandAugment ----------------------------------------------------------------------------- */

static const struct operation {
    void (*apply)(struct image *image, const struct strength *s);
    double (*value)(double part, double sign);
    double (*increasing)(double part, double sign);
} operations[] = {
    {auto_contrast, no_value, no_value},
    {equalize, no_value, no_value},
    {invert, no_value, no_value},
    {rotate, turn, turn},
    {posterize, bits, fewer_bits},
    {solarize, threshold, lower_threshold},
    {solarize_add, addition, addition},
    {color, factor, factor_away_from_1},
    {contrast, factor, factor_away_from_1},
    {brightness, factor, factor_away_from_1},
    {sharpness, factor, factor_away_from_1},
    {shear_x, lean, lean},
    {shear_y, lean, lean},
    {translate_x, shift, shift},
    {translate_y, shift, shift},
};

enum { OPERATIONS = sizeof operations / sizeof operations[0] };

/* Numbers that an op of the list draws, by index. */
enum { DRAW_OP, DRAW_GATE, DRAW_MAGNITUDE, DRAW_SIGN, DRAW_FILTER, DRAWS };

static double uniform(const struct policy_draw *d, int index)
{
    return rng_uniform(d->stream, d->epoch, d->position, (uint64_t)index);
}

static double draw_magnitude(const struct policy *p, const struct policy_draw *d, int index)
{
    double m = p->magnitude;
    if (isinf(p->deviation))
        m *= uniform(d, index);
    else if (p->deviation > 0)
        m += p->deviation * rng_normal(d->stream, d->epoch, d->position, (uint64_t)index);
    return fmax(0, fmin(m, p->most));
}

static void apply_rand(const struct policy *p, const struct policy_draw *d,
                       const struct augment_move *move, struct image *image, struct image *spare)
{
    for (int k = 0; k < p->ops; k++) {
        int first = k * DRAWS;
        const struct operation *o = &operations[rng_below(d->stream, d->epoch, d->position,
                                                          (uint64_t)(first + DRAW_OP), OPERATIONS)];
        if (uniform(d, first + DRAW_GATE) >= p->probability)
            continue;
        double part = draw_magnitude(p, d, first + DRAW_MAGNITUDE) / FULL;
        double sign = uniform(d, first + DRAW_SIGN) < 0.5 ? -1 : 1;
        struct augment_move chosen = *move;
        if (chosen.filter == RESIZE_ERROR)
            chosen.filter =
                uniform(d, first + DRAW_FILTER) < 0.5 ? RESIZE_BILINEAR : RESIZE_BICUBIC;
        const struct strength s = {(p->increasing ? o->increasing : o->value)(part, sign), &chosen,
                                   spare};
        o->apply(image, &s);
    }
}

static void apply_three(const struct policy_draw *d, struct image *image, struct image *spare)
{
    switch (rng_below(d->stream, d->epoch, d->position, 0, 3)) {
    case 0:
        augment_color(image, 0);
        break;
    case 1:
        augment_solarize(image, 128);
        break;
    default:
        augment_blur(image, 0.1 + 1.9 * uniform(d, 1), spare);
    }
}

bool policy_replaces_jitter(const struct policy *p)
{
    return p->kind == POLICY_RAND;
}

void policy_apply(const struct policy *p, const struct policy_draw *draw,
                  const struct augment_move *move, struct image *image, struct image *spare)
{
    if (p->kind == POLICY_RAND)
        apply_rand(p, draw, move, image, spare);
    else if (p->kind == POLICY_THREE)
        apply_three(draw, image, spare);
}

/* --- strings --------------------------------------------------------------------------------- */

/* Sections of a string; all but "inc" may have a fraction where `whole` is false. */
static const struct section {
    const char *key;
    double least, most;
    bool whole;
} sections[] = {
    {"m", 0, 100, true},    {"n", 1, 100, true}, {"mstd", 0, 1e9, false},
    {"mmax", 1, 100, true}, {"inc", 0, 1, true}, {"p", 0, 1, false},
};

enum { SECTION_M, SECTION_N, SECTION_MSTD, SECTION_MMAX, SECTION_INC, SECTION_P, SECTIONS };

static enum status refuse(const char *text, const char *part, size_t length, const char *what,
                          struct error *err)
{
    return error_set(err, ERR_INPUT,
                     "data.augment.auto_augment: \"%.*s\" in \"%.100s\" %s (as in "
                     "rand-m9-mstd0.5-inc1; sections are mM, nN, mstdS, mmaxM, inc1 and pP)",
                     (int)(length < 50 ? length : 50), part, text, what);
}

/* One section, `length` characters from `part` on, into values. */
static enum status read_section(double *values, unsigned *seen, const char *text, const char *part,
                                size_t length, struct error *err)
{
    char buffer[64], *end;
    size_t letters = 0;
    while (letters < length && isalpha((unsigned char)part[letters]))
        letters++;
    int k = 0;
    while (k < SECTIONS &&
           (strlen(sections[k].key) != letters || strncmp(sections[k].key, part, letters) != 0))
        k++;
    if (k == SECTIONS || length >= sizeof buffer)
        return refuse(text, part, length, "is no section that is known", err);
    snprintf(buffer, sizeof buffer, "%.*s", (int)(length - letters), part + letters);
    bool plain = *buffer && strspn(buffer, "0123456789.") == strlen(buffer);
    double value = plain ? strtod(buffer, &end) : -1;
    if (!plain || *end || !(value >= sections[k].least && value <= sections[k].most) ||
        (sections[k].whole && value > trunc(value))) {
        char what[96];
        snprintf(what, sizeof what, "needs a %s in %g..%g",
                 sections[k].whole ? "whole number" : "number", sections[k].least,
                 sections[k].most);
        return refuse(text, part, length, what, err);
    }
    if (*seen & 1u << k)
        return refuse(text, part, length, "comes a second time", err);
    *seen |= 1u << k;
    values[k] = value;
    return OK;
}

enum status policy_parse(struct policy *p, const char *text, struct error *err)
{
    *p = (struct policy){.kind = POLICY_NONE};
    if (!text)
        return OK;
    if (strcmp(text, "3a") == 0) {
        p->kind = POLICY_THREE;
        return OK;
    }
    size_t length = strcspn(text, "-");
    if (length != 4 || strncmp(text, "rand", 4) != 0)
        return error_set(err, ERR_INPUT,
                         "data.augment.auto_augment: \"%.100s\" is no policy that is known (use "
                         "\"rand-m9-mstd0.5-inc1\" or another rand-, \"3a\", or null)",
                         text);
    double values[SECTIONS] = {FULL, 2, 0, FULL, 0, 0.5};
    unsigned seen = 0;
    for (const char *part = text + length; *part; part += length) {
        part++;
        length = strcspn(part, "-");
        enum status status = read_section(values, &seen, text, part, length, err);
        if (status)
            return status;
    }
    *p = (struct policy){
        .kind = POLICY_RAND,
        .ops = (int)values[SECTION_N],
        .magnitude = values[SECTION_M],
        .deviation = values[SECTION_MSTD] > 100 ? (double)INFINITY : values[SECTION_MSTD],
        .most = values[SECTION_MMAX],
        .increasing = values[SECTION_INC] > 0,
        .probability = values[SECTION_P],
    };
    return OK;
}
