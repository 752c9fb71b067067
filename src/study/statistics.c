/* statistics.c - order statistics. */
#include "study/statistics.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void statistics_sort(double *x, size_t n)
{
    if (n)
        qsort(x, n, sizeof *x, compare);
}

double statistics_quantile(const double *sorted, size_t n, double q)
{
    if (n == 0)
        return (double)NAN;
    double at = q * (double)(n - 1);
    size_t below = (size_t)at;
    if (below + 1 >= n)
        return sorted[n - 1];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}
