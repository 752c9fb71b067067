/* interpolate.h - learned values that lie on a grid, for another grid: position embeddings, tables of
 * relative positions. */
#ifndef NN_INTERPOLATE_H
#define NN_INTERPOLATE_H

#include "base/real.h"
#include "base/status.h"

/* The cubic of Keys with a = -0.5, widened where the grid shrinks and cut off at its edges; or with
 * a = -0.75 over four neighbours, edge values repeated. These are torch.nn.functional.interpolate with
 * mode "bicubic" and align_corners False: with antialias, as timm resamples position embeddings, and
 * without, as the code of Swin resamples its tables. */
enum grid_filter { INTERPOLATE_ANTIALIAS, INTERPOLATE_PLAIN };

/* out: (to[0], to[1], C)  in: (from[0], from[1], C), apart from each other. All sizes are at least 1;
 * between equal grids values are copied. ERR_MEMORY alone. */
MUST_USE enum status nn_interpolate(real *out, const int to[2], const real *in, const int from[2],
                                    int C, enum grid_filter how, struct error *err);

/* The same for one size again and again: the tables and the memory between both axes. */
struct interpolator;
MUST_USE enum status nn_interpolator_create(struct interpolator **out, const int to[2],
                                            const int from[2], int C, enum grid_filter how,
                                            struct error *err);
void nn_interpolator_destroy(struct interpolator *i);

/* Allocates nothing; not for two threads at a time. */
void nn_interpolator_run(struct interpolator *i, real *out, const real *in);

/* Bytes of one. */
double nn_interpolator_bytes(const struct interpolator *i);

#endif
