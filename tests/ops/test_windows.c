/* test_windows.c - the ops that cut maps into windows, against loops. */
#include "pair.h"

/* --- orders of tokens ---------------------------------------------------------------------------
 */

enum { B = 4, N = 12, C = 3 };
static const int order[N] = {6, 7, 8, 0, 1, 2, 11, 10, 9, 3, 5, 4};

static struct tensor *input(struct graph *g, struct shape shape)
{
    return graph_input(g, "x", TYPE_REAL, shape, true);
}

TEST(permute_tokens__takes_each_row_from_where_the_order_says)
{
    struct rig r;
    rig_begin(&r, 2, false);
    rig_ready(&r, op_permute_tokens(r.graph, input(r.graph, SHAPE(2, N, C)), order, N), B);
    rig_run(&r);
    for (int b = 0; b < B; b++)
        for (int t = 0; t < N; t++)
            for (int c = 0; c < C; c++) {
                int here = (b * N + t) * C + c, there = (b * N + order[t]) * C + c;
                CHECK(r.y[here] == r.x[0][there]);
                CHECK(r.dx[0][there] == r.dy[here]);
            }
    rig_end(&r);
}

/* The same by a matrix; columns of a wider input, and a second reader. */
static struct tensor *permuted(struct graph *g, bool by_matrix)
{
    struct tensor *x = op_scale(g, input(g, SHAPE(2, N, 2 * C)), 1);
    struct tensor *part = graph_columns(g, x, 1, C), *y;
    if (by_matrix) {
        real *table = arena_alloc(&g->memory, N * N * sizeof *table);
        CHECK(table != NULL);
        for (int t = 0; t < N; t++)
            table[t * N + order[t]] = 1;
        struct tensor *zero = op_scale(g, graph_input(g, "m", TYPE_REAL, SHAPE(2, N, N), false), 0);
        y = op_matmul(g, op_add_table(g, zero, table), part);
    } else {
        graph_input(g, "m", TYPE_REAL, SHAPE(2, N, N), false);
        y = op_permute_tokens(g, part, order, N);
    }
    return op_add(g, op_multiply(g, y, y), part);
}

TEST(permute_tokens__is_a_product_with_a_permutation_matrix)
{
    check_pair(permuted);
}

/* --- relative positions -------------------------------------------------------------------------
 */

enum { H = 3, ROWS = 2, COLUMNS = 4, TOKENS = ROWS * COLUMNS };
enum { TABLE = (2 * ROWS - 1) * (2 * COLUMNS - 1) };

static int table_row(int i, int j)
{
    int y = i / COLUMNS - j / COLUMNS + ROWS - 1, x = i % COLUMNS - j % COLUMNS + COLUMNS - 1;
    return y * (2 * COLUMNS - 1) + x;
}

/* Two slices, each with H samples of one head: the first axes must agree for a sum. */
TEST(relative_bias__is_the_table_at_the_difference_of_two_positions)
{
    struct rig r;
    rig_begin(&r, H, false);
    struct tensor *table = graph_param(r.graph, "t", SHAPE(TABLE, H), INIT_NORMAL(1));
    struct tensor *bias = op_relative_bias(r.graph, table, (const int[]){ROWS, COLUMNS});
    struct tensor *x = input(r.graph, SHAPE(H, TOKENS, TOKENS));
    rig_ready(&r, op_add(r.graph, x, bias), 2 * H);
    rig_run(&r);
    double dtable[TABLE * H] = {0};
    const real *t = rig_value(&r, "t");
    for (int at = 0, b = 0; b < 2 * H; b++)
        for (int i = 0; i < TOKENS; i++)
            for (int j = 0; j < TOKENS; j++, at++) {
                int k = table_row(i, j) * H + b % H;
                CHECK_NEAR(r.y[at], (double)(r.x[0][at] + t[k]), rig_rounding);
                dtable[k] += (double)r.dy[at];
            }
    for (int k = 0; k < TABLE * H; k++)
        CHECK_NEAR(rig_grad(&r, "t")[k], dtable[k], 10 * rig_rounding);
    rig_end(&r);
}
