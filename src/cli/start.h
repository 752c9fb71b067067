/* start.h - the line in which a computation says where and how it runs. */
#ifndef CLI_START_H
#define CLI_START_H

#include "train/experiment.h"

struct arguments;

enum { START_LINE_SIZE = 512, START_NOTES = 3 };

struct start {
    char line[START_LINE_SIZE];     /* version, CPU, instruction set, BLAS with its kernel, threads,
                                     * precision */
    const char *notes[START_NOTES]; /* what is slower than it could be; NULL: nothing */
    char crowded[START_LINE_SIZE];  /* text of one of them */
};

/* `a` says whether the threads came from --threads. */
void start_fill(struct start *s, const struct experiment *x, int threads,
                const struct arguments *a);

/* The line and the notes, these as warnings, on stderr. */
void start_say(const struct start *s);

#endif
