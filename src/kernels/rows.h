/* rows.h - places of rows that are ordered anew, for the files of this room. */
#ifndef KERNELS_ROWS_H
#define KERNELS_ROWS_H

#include "kernels/kernels.h"

/* The place of row r. */
static inline size_t row_place(const struct row_order *o, size_t r)
{
    size_t t = r % o->period;
    return r - t + (size_t)o->at[t];
}

/* How many of the rows r .. end - 1 lie one after the other there too, from row r on. */
static inline size_t row_run(const struct row_order *o, size_t r, size_t end)
{
    size_t t = r % o->period, last = t + 1;
    size_t most = end - r < o->period - t ? end - r : o->period - t;
    while (last - t < most && o->at[last] == o->at[last - 1] + 1)
        last++;
    return last - t;
}

#endif
