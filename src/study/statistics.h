/* statistics.h - what is said about a set of measured numbers. */
#ifndef STUDY_STATISTICS_H
#define STUDY_STATISTICS_H

#include <stddef.h>

/* Sorts upwards; no number may be NAN. */
void statistics_sort(double *x, size_t n);

/* The value below which the share q (0 to 1) of the sorted numbers lies, on the line between its
 * two neighbours (numpy.quantile's default); q = 0.5 gives the median. NAN where n is 0. */
double statistics_quantile(const double *sorted, size_t n, double q);

#endif
