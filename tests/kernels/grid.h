/* grid.h - matrices for the tests of kernels: real or bf16, with a gap behind each row that no
 * kernel may touch, and the same numbers in double for the plain loops they are compared with. */
#ifndef TESTS_GRID_H
#define TESTS_GRID_H

#include <stddef.h>

#include "kernels/kernels.h"

struct grid {
    struct vec vec;
    size_t rows, cols, gap;
    double
        *value; /* (rows, cols): what was filled in, as stored; tests turn it into what they want */
};

/* Random numbers in -scale..scale, rounded to the type. Freed at the exit of the program. */
struct grid grid_random(enum type type, size_t rows, size_t cols, size_t gap, double scale);

/* NaN everywhere but in the gaps: for outputs that are to be overwritten. Values are 0. */
struct grid grid_poisoned(enum type type, size_t rows, size_t cols, size_t gap);

/* One of the two: what an output with this beta holds before. */
struct grid grid_output(int beta, enum type type, size_t rows, size_t cols, size_t gap);

struct grid grid_copy(const struct grid *g);

double grid_get(const struct grid *g, size_t row, size_t col);
void grid_set(struct grid *g, size_t row, size_t col, double x); /* value and storage */

/* Fails unless each element is within tolerance * (1 + |value|) of its value, half a unit of bf16's
 * last place on top where that is the type, and the gaps are untouched. */
void grid_check(const struct grid *g, double tolerance);

/* A random number in -1..1, the next of a fixed sequence. */
double next_random(void);

/* n reals, random in -scale..scale. Freed at the exit. */
real *reals_random(size_t n, double scale);

/* 0 .. n - 1 in a random order in which some stay neighbours. Freed at the exit. */
int *order_random(size_t n);

/* What rounding of real allows where float allows `tolerance`. */
double tolerance_of(double tolerance);

/* Whether the level in use rounds the weights of attention between bf16 tensors to bf16. */
bool level_rounds_weights(void);

/* Calls `check` for each instruction set that this machine has, both types, with and without gaps.
 */
void each_level(void (*check)(enum type type, size_t gap));

#endif
