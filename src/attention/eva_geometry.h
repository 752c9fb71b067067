/* eva_geometry.h - windows and groups of EVA on a map, and which groups a window sees. */
#ifndef ATTENTION_EVA_GEOMETRY_H
#define ATTENTION_EVA_GEOMETRY_H

#include "attention/window.h"
#include "kernels/kernels.h"

enum eva_visibility {
    EVA_ALL,       /* every window sees every group */
    EVA_DISJOINT,  /* the groups that hold none of its keys */
    EVA_REMAINDER, /* of every group what is not among its keys, which makes other groups */
};

struct eva_geometry {
    struct token_windows windows;
    struct token_windows groups; /* their windows are the groups, keys included */
    enum eva_visibility visibility;
};

/* The sets that are pooled: the groups, then what is left of groups beside windows. */
struct eva_sets {
    struct token_sets sets;
    const int *group; /* (sets): the group that each of them comes from */
};

/* A part of a window: its queries, its keys, and the sets that it sees. */
struct eva_part {
    struct token_rect queries, keys;
    int sets;
    int *set; /* their numbers */
};

/* Called for each part of each window. */
typedef void eva_visit(void *context, const struct eva_part *part);

/* Finds the sets, in the graph's arena, and visits the parts. False where the graph has failed. */
bool eva_arrange(struct graph *g, const struct eva_geometry *e, struct eva_sets *sets,
                 eva_visit *visit, void *context);

/* Sets in all, members of all sets, and pairs of a query and a set that it sees. */
struct eva_counts {
    double sets, members, pairs;
};
struct eva_counts eva_count(const struct eva_geometry *e);

/* Tokens that the window which misses most of them does not see at all, and how many lie outside of
 * it. */
int eva_gaps(const struct eva_geometry *e, int *outside);

#endif
