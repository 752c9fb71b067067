/* maps.h - whether the maps of a staged model can be cut into its windows and merged from stage to stage.
 * Nothing is padded. */
#ifndef MODELS_MAPS_H
#define MODELS_MAPS_H

#include <stdbool.h>

#include "base/status.h"

/* MAPS_MAX_STAGES halvings leave one token of the largest map that model_check_map takes. */
enum { MAPS_MAX_STAGES = 11, MAPS_MAX_SIZE = 65536 };

/* A window larger than a map shrinks to it. Pairs are rows and columns. */
struct maps {
    int stages, dim;                /* dim: width of the first stage */
    int patch[2];                   /* pixels along a token of the first stage */
    int length[2];                  /* tokens along the map of the first stage; halved by each next one */
    int window[MAPS_MAX_STAGES][2]; /* tokens along the windows of each stage */
    bool square;                    /* one number is the size of the image along both axes */
    enum { WINDOWS_ONE, WINDOWS_PAIR, WINDOWS_STAGES } windows; /* how the config gives them */
};

/* ERR_INPUT "image_size: ..." or "window_size: ..." with stage, numbers, and the nearest sizes that work
 * without another change (where the other axis does not fit either: that work along this one). */
MUST_USE enum status maps_check(const struct maps *m, struct error *err);

#endif
