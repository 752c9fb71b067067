/* wrong.h - ops on shapes that do not fit. */
#ifndef TESTS_OPS_WRONG_H
#define TESTS_OPS_WRONG_H

#include <stddef.h>

#include "graph/graph.h"

struct wrong {
    const char *op, *shape; /* what the message must name beside the scope */
    void (*record)(struct graph *g);
};

/* Planning reports each with its scope. */
void check_wrong(const struct wrong *list, size_t count);

#endif
