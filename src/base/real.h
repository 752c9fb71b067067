/* real.h - the number types of the engine. */
#ifndef BASE_REAL_H
#define BASE_REAL_H

/* Type of parameters, sums and statistics, and of activations unless a tensor says otherwise. */
#ifdef ATTNBENCH_DOUBLE
typedef double real;
#else
typedef float real;
#endif

/* How a tensor is stored. Sums and statistics are always real. */
enum type {
    TYPE_REAL = 1,
    TYPE_BF16 = 2,
    TYPE_INT = 4, /* labels: int */
};

/* Bytes of one element. */
static inline unsigned type_size(enum type type)
{
    return type == TYPE_BF16 ? 2u : type == TYPE_INT ? (unsigned)sizeof(int) : (unsigned)sizeof(real);
}

#endif
