/* na.c - neighbourhood attention: each patch sees the k x k patches around it, with a bias by
 * relative position. Hassani et al., "Neighborhood Attention Transformer", arXiv:2204.07143,
 * section 3.1: near the border the neighbourhood is moved inwards, so that all patches see equally
 * many. With `edge` clip what lies outside of the map is left out instead. A kernel longer than a
 * side is that side; the authors' code pads the map with zeros there, which join the softmax. */
#include "attention/adapt.h"
#include "attention/neighbourhood.h"

enum { EDGE_CLAMP, EDGE_CLIP };

struct na {
    int kernel, edge;
    bool rpe;
};

static const char *const edge_names[] = {"clamp", "clip", NULL};

static const struct field na_fields[] = {
    FIELD_INT(struct na, kernel, 7, 3, 63, "patches along a neighbourhood, odd"),
    FIELD_ENUM(struct na, edge, EDGE_CLAMP, edge_names,
               "clamp: moved inwards at the border of the map; clip: cut off there"),
    FIELD_BOOL(struct na, rpe, true, "relative position bias"),
    FIELD_END,
};

static struct neighbourhood na_place(const struct na *o, const struct attn_site *s)
{
    return (struct neighbourhood){
        .grid = {s->grid[0], s->grid[1]},
        .prefix = s->prefix,
        .kernel = o->kernel,
        .clip = o->edge == EDGE_CLIP,
        .bias = o->rpe,
    };
}

static enum status na_check(const void *options, const struct attn_site *s, struct error *err)
{
    const struct na *o = options;
    const struct neighbourhood n = na_place(o, s);
    if (o->kernel % 2 == 0)
        return error_set(err, ERR_INPUT, "kernel: %d is even (%d and %d are odd)", o->kernel,
                         o->kernel - 1, o->kernel + 1);
    return neighbourhood_check("kernel", &n, s, err);
}

static struct tensor *na_build(struct graph *g, const void *options, const struct attn_site *s,
                               struct tensor *x)
{
    const struct na *o = options;
    const struct neighbourhood n = na_place(o, s);
    struct group_list l;
    groups_begin(&l, g, s, neighbourhood_groups(&n));
    struct qkv t = nn_qkv(g, "qkv", groups_fold(&l, x), s->H, s->qkv_bias);
    struct tensor *table = o->rpe ? groups_bias(g, s, neighbourhood_entries(&n)) : NULL;
    neighbourhood_add(&l, &n);
    struct tensor *y = groups_attend(&l, &t, NULL, NULL, table);
    return groups_unfold(&l, nn_linear_bias(g, "proj", op_merge_heads(g, y), s->D, s->proj_bias));
}

/* 4 N D^2 + 2 N k^2 D; with clip, k^2 is the mean number of keys. */
static double na_macs(const void *options, const struct attn_site *s)
{
    const struct neighbourhood n = na_place(options, s);
    double N = s->N, D = s->D;
    return 4 * N * D * D + 2 * (neighbourhood_pairs(&n) + groups_prefix_pairs(s)) * D;
}

static bool na_offsets(const void *options, const struct attn_site *s, struct attn_offsets *o)
{
    const struct na *n = options;
    *o = (struct attn_offsets){.sign = -1};
    for (int axis = 0; axis < 2; axis++)
        o->reach[axis] = n->kernel < s->grid[axis] ? n->kernel : s->grid[axis];
    return n->rpe;
}

const struct attn_variant na_attn = {
    .name = "na",
    .summary = "neighbourhood attention: a window around each patch",
    .paper = "arXiv:2204.07143",
    .complexity = "O(N k^2 D)",
    .fields = na_fields,
    .options_size = sizeof(struct na),
    .check = na_check,
    .build = na_build,
    .macs = na_macs,
    .offsets = na_offsets,
};
