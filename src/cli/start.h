/* start.h - the line in which a computation says where and how it runs. */
#ifndef CLI_START_H
#define CLI_START_H

#include "train/experiment.h"

enum { START_LINE_SIZE = 512 };

/* Version, CPU, instruction set, BLAS with its kernel, threads, precision. Returns text. */
const char *start_line(char text[START_LINE_SIZE], const struct experiment *x, int threads);

/* "fp32", "bf16", or "fp64" in the double build. */
const char *start_precision(const struct experiment *x);

/* On stderr: more threads than cores, a BLAS below the CPU's speed. */
void start_warnings(int threads);

#endif
