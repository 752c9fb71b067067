/* test_heads.c - ops that take heads of one buffer as they lie: the same numbers as from a copy,
 * and no copy is recorded. */
#include "pair.h"

enum { B = 2, N = 3, H = 2, D = 4, BUFFER = 5 * D }; /* D: width of all heads */

/* Heads in columns first .. of a buffer that is wider; copied: in memory of their own. */
static struct tensor *heads(struct graph *g, struct tensor *buffer, int first, bool copied)
{
    struct tensor *x = graph_split_heads(g, graph_columns(g, buffer, first, D), H);
    return copied ? graph_op_copy(g, x) : x;
}

static struct tensor *buffer(struct graph *g)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(B, N, BUFFER), true);
    return op_stored(g, op_scale(g, x, 3));
}

/* What is recorded of two heads a and b. */
typedef struct tensor *of_heads(struct graph *g, struct tensor *a, struct tensor *b);

static struct tensor *scaled(struct graph *g, struct tensor *a, struct tensor *b)
{
    (void)b;
    return op_scale(g, a, -0.7);
}

static struct tensor *multiplied(struct graph *g, struct tensor *a, struct tensor *b)
{
    return op_multiply(g, a, b);
}

static struct tensor *added(struct graph *g, struct tensor *a, struct tensor *b)
{
    return op_add(g, a, b);
}

static struct tensor *gelu(struct graph *g, struct tensor *a, struct tensor *b)
{
    (void)b;
    return op_gelu(g, a);
}

static struct tensor *softmax(struct graph *g, struct tensor *a, struct tensor *b)
{
    (void)b;
    return op_softmax(g, a);
}

static struct tensor *softmax_real(struct graph *g, struct tensor *a, struct tensor *b)
{
    (void)b;
    return op_softmax_real(g, a);
}

static struct tensor *cast(struct graph *g, struct tensor *a, struct tensor *b)
{
    (void)b;
    return op_stored(g, op_real(g, a));
}

static struct tensor *mapped(struct graph *g, struct tensor *a, struct tensor *b)
{
    return op_add(g, op_map(g, a, MAP_SIGMOID), op_map_stored(g, b, MAP_SQUARE));
}

static struct tensor *normalized(struct graph *g, struct tensor *a, struct tensor *b)
{
    return op_add(g, op_normalize(g, a, 1, 1e-6), op_normalize(g, b, 2, 1e-6));
}

static const struct {
    const char *name;
    of_heads *record;
} cases[] = {
    {"scale", scaled},
    {"multiply", multiplied},
    {"add", added},
    {"gelu", gelu},
    {"softmax", softmax},
    {"softmax_real", softmax_real},
    {"cast", cast},
    {"map", mapped},
    {"normalize", normalized},
};

enum { CASES = sizeof cases / sizeof *cases };

static enum type stored;
static int number; /* of the case */

static int copies(const struct graph *g)
{
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->nodes[i]->op == &copy_op;
    return count;
}

/* Beside the heads the buffer's other columns are read, and, where no rounding would tell the
 * difference, the heads once more, so that gradients are added to. */
static struct tensor *direct_or_copied(struct graph *g, bool copied)
{
    g->options.type = stored;
    struct tensor *x = buffer(g);
    struct tensor *a = heads(g, x, 1, copied), *b = heads(g, x, 1 + 2 * D, copied);
    struct tensor *y = op_real(g, cases[number].record(g, a, b));
    CHECK_INT(copies(g), copied ? 2 : 0);
    if (stored == TYPE_REAL)
        y = op_add(g, y, op_real(g, heads(g, x, 1, false)));
    return op_add(g, op_merge_heads(g, y), op_real(g, graph_columns(g, x, 1 + D, D)));
}

TEST(heads__are_taken_as_they_lie)
{
    static const enum type types[] = {TYPE_REAL, TYPE_BF16};
    for (int type = 0; type < 2; type++) {
        stored = types[type];
        for (number = 0; number < CASES; number++) {
            test_about("%s, %s", cases[number].name, type ? "bf16" : "real");
            check_pair(direct_or_copied);
        }
    }
}

/* Heads of one memory order and of another meet. */
static struct tensor *mixed(struct graph *g, bool copied)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(B, N, BUFFER), true);
    struct tensor *own = graph_input(g, "own", TYPE_REAL, SHAPE(B, H, N, D / H), true);
    struct tensor *a = heads(g, op_scale(g, x, 2), 3, copied);
    return op_add(g, op_multiply(g, own, a), op_multiply(g, a, op_add(g, own, a)));
}

TEST(heads__meet_tensors_that_lie_otherwise)
{
    check_pair(mixed);
}

TEST(heads__side_by_side_stay_so_and_merge_without_a_node)
{
    struct rig r;
    rig_begin(&r, B, false);
    struct tensor *x = graph_input(r.graph, "x", TYPE_REAL, SHAPE(B, N, BUFFER), true);
    struct tensor *y = op_gelu(r.graph, op_scale(r.graph, heads(r.graph, x, 0, false), 2));
    CHECK_INT(y->stride[1], D / H);
    CHECK_INT(r.graph->node_count, 2);
    y = op_merge_heads(r.graph, y);
    CHECK_INT(r.graph->node_count, 2);
    CHECK_INT(y->shape.rank, 3);
    CHECK(tensor_is_contiguous(op_real(r.graph, heads(r.graph, x, 0, false))));
    rig_end(&r);
}

/* A linear map whose output is added to heads of another order, and whose sum lies as those do. */
static struct tensor *fused_or_not(struct graph *g, bool fused)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(B, N, BUFFER), true);
    struct tensor *rows = graph_input(g, "rows", TYPE_REAL, SHAPE(B, H, N, 5), true);
    struct tensor *W = graph_param(g, "W", SHAPE(D / H, 5), INIT_NORMAL(1));
    struct tensor *a = heads(g, op_scale(g, x, 1), 0, false);
    struct tensor *y = op_linear(g, rows, W, NULL); /* (B, H, N, D / H) */
    y = op_merge_heads(g, op_add(g, a, y));
    if (fused)
        graph_fuse(g);
    return y;
}

TEST(heads__are_not_absorbed_by_what_lies_otherwise)
{
    check_pair(fused_or_not);
}
