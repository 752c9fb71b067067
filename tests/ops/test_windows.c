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

/* --- mixing within regions ----------------------------------------------------------------------
 */

enum { WINDOWS = 4, MIXED = 9, WIDTH = 40, IMAGES = 4, SAMPLES = IMAGES * WINDOWS };

/* Windows of 3 x 3 behind a shift: whole, cut in two (twice alike, by other numbers), cut in four. */
static const unsigned char region[WINDOWS * MIXED] = {
    3, 3, 3, 3, 3, 3, 3, 3, 3, /**/ 1, 1, 2, 1, 1, 2, 1, 1, 2,
    5, 5, 0, 5, 5, 0, 5, 5, 0, /**/ 0, 0, 1, 0, 0, 1, 2, 2, 3,
};
static const struct token_regions regions = {.windows = WINDOWS, .tokens = MIXED, .id = region};

static bool meet(int sample, int t, int j)
{
    const unsigned char *id = region + sample % WINDOWS * MIXED;
    return id[t] == id[j];
}

/* x (SAMPLES, MIXED, WIDTH) mixed by W, one matrix or one for each of `heads` parts of the columns; two
 * images a slice. */
static void ready_mix(struct rig *r, enum type type, int heads, const struct token_regions *o)
{
    rig_begin(r, 2 * WINDOWS, false);
    struct graph *g = r->graph;
    g->options.type = type;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2 * WINDOWS, MIXED, WIDTH), true);
    struct shape shape = heads > 1 ? SHAPE(heads, MIXED, MIXED) : SHAPE(MIXED, MIXED);
    struct tensor *W = graph_param(g, "W", shape, INIT_NORMAL(1));
    struct tensor *b = graph_param(g, "b", SHAPE(MIXED), INIT_NORMAL(1));
    if (type == TYPE_BF16) /* an op that stores what it gives in the graph's type */
        x = op_patchify(g, graph_reshape(g, x, SHAPE(2 * WINDOWS, 1, MIXED, WIDTH)), 1, WIDTH);
    rig_ready(r, op_token_mix_regions(g, x, W, b, o), SAMPLES);
    rig_randomize(r, 1);
}

TEST(token_mix__mixes_within_regions_alone)
{
    enum { HEADS = 2, SQUARE = MIXED * MIXED };
    struct rig r;
    ready_mix(&r, TYPE_REAL, HEADS, &regions);
    rig_run(&r);
    const real *W = rig_value(&r, "W"), *b = rig_value(&r, "b"), *x = r.x[0];
    double dW[HEADS * SQUARE] = {0}, db[MIXED] = {0};
    for (int s = 0; s < SAMPLES; s++)
        for (int c = 0; c < WIDTH; c++) {
            double dx[MIXED] = {0};
            int head = c / (WIDTH / HEADS) * SQUARE, first = s * MIXED * WIDTH + c;
            for (int t = 0; t < MIXED; t++) {
                double y = (double)b[t], dy = (double)r.dy[first + t * WIDTH];
                for (int j = 0; j < MIXED; j++) {
                    double w = meet(s, t, j) ? (double)W[head + t * MIXED + j] : 0;
                    double from = (double)x[first + j * WIDTH];
                    y += w * from;
                    dx[j] += w * dy;
                    dW[head + t * MIXED + j] += meet(s, t, j) ? dy * from : 0;
                }
                db[t] += dy;
                CHECK_NEAR(r.y[first + t * WIDTH], y, 10 * rig_rounding);
            }
            for (int j = 0; j < MIXED; j++)
                CHECK_NEAR(r.dx[0][first + j * WIDTH], dx[j], 10 * rig_rounding);
        }
    for (int i = 0; i < HEADS * SQUARE; i++)
        CHECK_NEAR(rig_grad(&r, "W")[i], dW[i], 100 * rig_rounding);
    for (int t = 0; t < MIXED; t++)
        CHECK_NEAR(rig_grad(&r, "b")[t], db[t], 100 * rig_rounding);
    rig_end(&r);
}

/* Other numbers for all tokens that do not meet token 0 of their window, in x and dy. */
static void disturb(struct rig *r)
{
    for (int s = 0; s < SAMPLES; s++)
        for (int t = 0; t < MIXED; t++)
            for (int c = 0; c < WIDTH && !meet(s, t, 0); c++) {
                r->x[0][(s * MIXED + t) * WIDTH + c] *= -3;
                r->dy[(s * MIXED + t) * WIDTH + c] += 7;
            }
}

TEST(token_mix__keeps_regions_apart_to_the_last_bit)
{
    const enum type types[] = {TYPE_REAL, TYPE_BF16};
    for (int i = 0; i < 2; i++) {
        struct rig r;
        test_about(types[i] == TYPE_BF16 ? "bf16" : "real");
        ready_mix(&r, types[i], 1, &regions);
        rig_run(&r);
        real *y = rig_copy(&r, r.y, r.y_count), *dx = rig_copy(&r, r.dx[0], r.count[0]);
        disturb(&r);
        rig_run(&r);
        int changed = 0;
        for (int s = 0; s < SAMPLES; s++)
            for (int t = 0; t < MIXED; t++) {
                size_t at = (size_t)((s * MIXED + t) * WIDTH), bytes = WIDTH * sizeof *y;
                bool same = !memcmp(y + at, r.y + at, bytes) &&
                            !memcmp(dx + at, r.dx[0] + at, bytes);
                if (meet(s, t, 0))
                    CHECK(same);
                changed += !same;
            }
        CHECK_INT(changed, IMAGES * (3 + 3 + 5));
        rig_end(&r);
    }
}

TEST(token_mix__mixes_windows_of_one_region_as_without_regions)
{
    struct rig a, b;
    ready_mix(&a, TYPE_REAL, 1, NULL);
    ready_mix(&b, TYPE_REAL, 1, &regions);
    rig_run(&a);
    rig_run(&b);
    for (int s = 0; s < SAMPLES; s++) {
        size_t at = (size_t)(s * MIXED * WIDTH), bytes = MIXED * WIDTH * sizeof(real);
        CHECK(!memcmp(a.y + at, b.y + at, bytes) == (s % WINDOWS == 0));
        CHECK(!memcmp(a.dx[0] + at, b.dx[0] + at, bytes) == (s % WINDOWS == 0));
    }
    rig_end(&a);
    rig_end(&b);
}
