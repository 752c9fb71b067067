/* gradcheck.h - analytic against numeric gradients, for every op and every attention variant.
 *
 * A graph f is checked through g(x) = sum(r * f(x)) with random r: the directional derivative of g
 * by central differences (of fourth order) against the one that backward computes, in several
 * directions, for every input and parameter alone and for all together. Values are compared with
 * their signs; what is not finite fails. Besides, each leaf has to be reached by a gradient that is
 * not zero, and results must not depend on what the step block held before (it is filled with
 * NaN). */
#ifndef STUDY_GRADCHECK_H
#define STUDY_GRADCHECK_H

#include "graph/graph.h"

enum { GRADCHECK_NOTE_SIZE = 256 };

struct gradcheck {
    const char *group; /* "op", "attention" */
    const char *name;
    double worst;      /* largest relative error met */
    bool passed;
    char note[GRADCHECK_NOTE_SIZE]; /* what failed, "" where nothing did */
};

/* Relative error that is allowed: 1e-7 in the double build, else 1e-2. */
double gradcheck_tolerance(void);

/* The i-th name that can be checked, NULL past the end: ops in the order of ops.def, then
 * variants. */
const char *gradcheck_name(int i);

/* Checks the i-th of these. An op without a sample fails; each op is checked again where its inputs
 * have a second reader, each variant without and with prefix tokens and for each value of its
 * options that can be named (booleans and enums). */
void gradcheck_run(struct gradcheck *result, int i);

/* Checks one graph: build records it on g, with graph_sample as inputs whose first axes agree.
 * Where `twice` is an op, its last node is recorded once more and the sum of both is checked. */
typedef struct tensor *gradcheck_build(struct graph *g, const void *context);
void gradcheck_graph(struct gradcheck *result, gradcheck_build *build, const void *context,
                     const struct op *twice);

#endif
