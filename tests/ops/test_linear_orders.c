/* test_linear_orders.c - linear attention: both orders of evaluation give the same values and
 * gradients. */
#include "linear_terms.h"
#include "pair.h"

/* --- both orders --------------------------------------------------------------------------------
 */

static struct linear_terms now; /* of the pair that runs */

/* Squares: weights that are not negative keep the denominators away from 0. */
static struct tensor *features(struct graph *g, const char *name, int N, int D)
{
    struct tensor *x = graph_input(g, name, TYPE_REAL, SHAPE(2, 3, N, D), true);
    return op_multiply(g, x, x);
}

static struct tensor *attend(struct graph *g, bool quadratic, struct tensor *a, struct tensor *f,
                             struct tensor *v)
{
    struct linear_terms terms = in_order(now, quadratic);
    return op_merge_heads(g, op_linear_attention(g, a, f, v, &terms));
}

static struct tensor *apart(struct graph *g, bool quadratic)
{
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 3, 9, 5), true);
    return attend(g, quadratic, features(g, "a", 7, 4), features(g, "f", 9, 4), v);
}

static struct tensor *columns_of_one_buffer(struct graph *g, bool quadratic)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 7, 36), true), *t[3];
    x = op_multiply(g, x, x);
    for (int i = 0; i < 3; i++)
        t[i] = graph_split_heads(g, graph_columns(g, x, 12 * i, 12), 3);
    return attend(g, quadratic, t[0], t[1], t[2]);
}

static struct tensor *all_shared(struct graph *g, bool quadratic)
{
    struct tensor *x = features(g, "x", 7, 4);
    return attend(g, quadratic, x, x, x);
}

/* Gradients are added to what another reader wrote before. */
static struct tensor *read_by_others_too(struct graph *g, bool quadratic)
{
    struct tensor *x = features(g, "x", 7, 4);
    struct tensor *y = attend(g, quadratic, x, x, x);
    return op_add(g, op_merge_heads(g, op_multiply(g, x, x)), y);
}

static struct tensor *only_values_wanted(struct graph *g, bool quadratic)
{
    struct tensor *a = graph_input(g, "a", TYPE_REAL, SHAPE(2, 3, 7, 4), false);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 3, 7, 5), true);
    a = op_multiply(g, a, a);
    return attend(g, quadratic, a, a, v);
}

static struct tensor *only_queries_wanted(struct graph *g, bool quadratic)
{
    struct tensor *f = graph_input(g, "f", TYPE_REAL, SHAPE(2, 3, 7, 4), false);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 3, 7, 5), false);
    return attend(g, quadratic, features(g, "a", 6, 4), op_multiply(g, f, f), v);
}

static struct tensor *only_keys_wanted(struct graph *g, bool quadratic)
{
    struct tensor *a = graph_input(g, "a", TYPE_REAL, SHAPE(2, 3, 7, 4), false);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 3, 7, 5), false);
    return attend(g, quadratic, op_multiply(g, a, a), features(g, "f", 7, 4), v);
}

static struct tensor *one_token(struct graph *g, bool quadratic)
{
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 3, 1, 5), true);
    struct tensor *a = features(g, "a", 1, 4);
    struct tensor *y = attend(g, quadratic, a, a, v);
    return op_add(g, graph_reshape(g, y, SHAPE(2, 15)),
                  graph_reshape(g, op_scale(g, v, 1), SHAPE(2, 15)));
}

/* More tokens than one tile of either order holds, and features that fill several panels. */
static struct tensor *many_tokens(struct graph *g, bool quadratic)
{
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 3, 391, 33), true);
    return attend(g, quadratic, features(g, "a", 391, 70), features(g, "f", 391, 70), v);
}

static struct tensor *many_features(struct graph *g, bool quadratic)
{
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 3, 5, 2), true);
    return attend(g, quadratic, features(g, "a", 150, 301), features(g, "f", 5, 301), v);
}

TEST(linear_attention__is_the_same_in_both_orders)
{
    static const struct {
        const char *name;
        pair_record *record;
    } cases[] = {
        {"a, f, v apart", apart},        {"columns of one buffer", columns_of_one_buffer},
        {"a, f, v shared", all_shared},  {"read by others too", read_by_others_too},
        {"only dv", only_values_wanted}, {"only da", only_queries_wanted},
        {"only df", only_keys_wanted},   {"one token", one_token},
        {"many tokens", many_tokens},    {"many features", many_features},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int den = 0; den < DENS; den++) {
            test_about("%s, denominator %d", cases[i].name, den);
            now = dens[den];
            check_pair(cases[i].record);
        }
}

TEST(linear_attention__of_a_polynomial_is_the_same_in_both_orders)
{
    pair_record *const cases[] = {apart,
                                  columns_of_one_buffer,
                                  all_shared,
                                  read_by_others_too,
                                  only_values_wanted,
                                  only_queries_wanted,
                                  only_keys_wanted,
                                  one_token};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < BASES * POLYNOMIALS; k++) {
            test_about("case %zu, basis %d, polynomial %d", i, k % BASES, k / BASES);
            now = dens[k % 3];
            set_polynomial(&now, k % BASES, k / BASES);
            check_pair(cases[i]);
        }
}

/* --- regions ------------------------------------------------------------------------------------
 */

/* Heads of the windows of all images. */
static struct tensor *window_heads(struct graph *g, const char *name, int d)
{
    int count = WINDOWS * HEADS * TOKENS * d;
    struct tensor *x = graph_input(g, name, TYPE_REAL, SHAPE(IMAGES, count), true);
    return graph_reshape(g, op_multiply(g, x, x), SHAPE(IMAGES * WINDOWS, HEADS, TOKENS, d));
}

static struct tensor *merge_windows(struct graph *g, struct tensor *y)
{
    return graph_reshape(g, y, SHAPE(IMAGES, WINDOWS * TOKENS, tensor_cols(y)));
}

static struct tensor *in_regions(struct graph *g, bool quadratic)
{
    struct tensor *a = window_heads(g, "a", 4), *f = window_heads(g, "f", 4);
    return merge_windows(g, attend(g, quadratic, a, f, window_heads(g, "v", 5)));
}

static struct tensor *in_regions_shared(struct graph *g, bool quadratic)
{
    struct tensor *x = window_heads(g, "x", 4);
    struct tensor *y = merge_windows(g, attend(g, quadratic, x, x, x));
    return op_add(g, merge_windows(g, op_merge_heads(g, op_scale(g, x, 2))), y);
}

TEST(linear_attention__is_the_same_in_both_orders_with_regions)
{
    for (int den = 0; den < DENS; den++) {
        test_about("denominator %d", den);
        now = dens[den];
        now.regions = &regions;
        check_pair(in_regions);
        check_pair(in_regions_shared);
    }
}

/* --- without a denominator it is two products ----------------------------------------------------
 */

static struct tensor *as_products(struct graph *g, bool products)
{
    struct tensor *a = graph_input(g, "a", TYPE_REAL, SHAPE(2, 3, 140, 4), true);
    struct tensor *f = graph_input(g, "f", TYPE_REAL, SHAPE(2, 3, 9, 4), true);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(2, 3, 9, 5), true);
    if (!products)
        return attend(g, false, a, f, v);
    return op_merge_heads(g, op_matmul(g, a, op_matmul_tn(g, f, v)));
}

TEST(linear_attention__of_no_denominator_is_two_products)
{
    now = dens[3];
    check_pair(as_products);
}
