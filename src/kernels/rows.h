/* rows.h - a walk over rows that an order gives other places, for the files of this room. */
#ifndef KERNELS_ROWS_H
#define KERNELS_ROWS_H

#include "kernels/kernels.h"

/* Rows `here` .. here + count - 1, which lie one after the other at `there` as well; they belong to
 * period number `sample`, and the first is its row t. */
struct row_run {
    size_t here, there, count, sample, t;
};

static inline void row_run_measure(struct row_run *run, const struct row_order *o, size_t end)
{
    const int *at = o->at + run->t;
    size_t most = end - run->here < o->period - run->t ? end - run->here : o->period - run->t;
    run->count = 1;
    while (run->count < most && at[run->count] == at[run->count - 1] + 1)
        run->count++;
    run->there = run->sample * o->period + (size_t)at[0];
}

/* The first run of rows r .. end - 1, r < end. */
static inline struct row_run row_run_first(const struct row_order *o, size_t r, size_t end)
{
    struct row_run run = {.here = r, .sample = r / o->period, .t = r % o->period};
    row_run_measure(&run, o, end);
    return run;
}

/* Goes on to the next run; false where there is none. */
static inline bool row_run_next(struct row_run *run, const struct row_order *o, size_t end)
{
    run->here += run->count;
    run->t += run->count;
    if (run->here >= end)
        return false;
    if (run->t == o->period) {
        run->t = 0;
        run->sample++;
    }
    row_run_measure(run, o, end);
    return true;
}

#endif
