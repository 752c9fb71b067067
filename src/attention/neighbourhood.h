/* neighbourhood.h - sliding windows on a map: who sees whom in `na` and the two-dimensional forms
 * of `longformer`. Hassani et al., arXiv:2204.07143, section 3.1. */
#ifndef ATTENTION_NEIGHBOURHOOD_H
#define ATTENTION_NEIGHBOURHOOD_H

#include "attention/key_groups.h"

struct neighbourhood {
    int grid[2], prefix;
    int kernel; /* patches along it, odd; on a shorter side of the map: all of them */
    bool clip;  /* cut off at the border of the map; else moved inwards */
    bool bias;  /* by the relative position of query and key */
};

/* Entries of the table of biases: key minus query, rows first, from -(r - 1) to r - 1, where r is
 * the kernel or the side. */
int neighbourhood_entries(const struct neighbourhood *n);

/* Pairs of a patch and a patch that it sees. */
double neighbourhood_pairs(const struct neighbourhood *n);

/* Groups of a map, for groups_begin, and adding them for all maps. */
int neighbourhood_groups(const struct neighbourhood *n);
void neighbourhood_add(struct group_list *l, const struct neighbourhood *n);

/* ERR_INPUT, "OPTION: ..", in a window that a neighbourhood covers, where this is standard
 * attention. */
MUST_USE enum status neighbourhood_check(const char *option, const struct neighbourhood *n,
                                         const struct attn_site *s, struct error *err);

#endif
