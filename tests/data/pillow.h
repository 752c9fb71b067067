/* pillow.h - what Pillow made of small images: tests/golden/cases/pillow_*.json, written by
 * tests/golden/pillow.py. */
#ifndef PILLOW_H
#define PILLOW_H

#include "config/json.h"
#include "io/image.h"

struct pillow_case {
    const char *op, *filter; /* filter: NULL where there is none */
    double value;            /* 0 where there is none */
    const double *list;      /* box, or matrix; NULL */
    struct image from;       /* the formula's */
    int width, height;       /* of Pillow's result */
    int rows;                /* rows of it that are stored */
    uint8_t *pixels;         /* (rows, width, 3) */
};

/* Calls `check` with each case of cases/pillow_NAME.json, test_about saying which; returns how many
 * there were. */
int pillow_walk(const char *name, void (*check)(const struct pillow_case *c));

/* The largest difference of a pixel from Pillow's, whose size `got` must have. */
int pillow_difference(const struct pillow_case *c, const struct image *got);

/* A copy that the caller frees. */
struct image pillow_copy(const struct image *from);

#endif
