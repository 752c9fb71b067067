/* test_linear_attention.c - attention by products of features against plain loops, and its
 * identities. Spec section 1.5. */
#include "linear_terms.h"
#include "pair.h"

/* --- one layer with features as graph inputs -----------------------------------------------------
 */

/* a: (B, H, N, D), f: (B, H, M, D), v: (B, H, M, e); the features are in (0, 1). */
struct layer {
    struct rig rig;
    int B, H, N, M, D, e;
    real *a, *f, *v;
};

static void begin(struct layer *l, struct linear_terms terms, int N, int M, int D, int e)
{
    struct rig *r = &l->rig;
    l->B = IMAGES * WINDOWS;
    l->H = 2;
    l->N = N;
    l->M = M;
    l->D = D;
    l->e = e;
    rig_begin(r, l->B, false);
    struct graph *g = r->graph;
    struct tensor *a = graph_input(g, "a", TYPE_REAL, SHAPE(l->B, 2, N, D), true);
    struct tensor *f = graph_input(g, "f", TYPE_REAL, SHAPE(l->B, 2, M, D), true);
    struct tensor *v = graph_input(g, "v", TYPE_REAL, SHAPE(l->B, 2, M, e), true);
    rig_ready(r, op_merge_heads(g, op_linear_attention(g, a, f, v, &terms)), l->B);
    l->a = r->x[0];
    l->f = r->x[1];
    l->v = r->x[2];
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < r->count[i]; k++)
            r->x[i][k] = (real)0.5 * (1 + r->x[i][k]);
}

static real *query(const struct layer *l, real *x, int b, int h, int i)
{
    return x + ((ptrdiff_t)(b * l->H + h) * l->N + i) * l->D;
}

static real *key(const struct layer *l, real *x, int b, int h, int j)
{
    return x + ((ptrdiff_t)(b * l->H + h) * l->M + j) * l->D;
}

static real *value(const struct layer *l, real *x, int b, int h, int j)
{
    return x + ((ptrdiff_t)(b * l->H + h) * l->M + j) * l->e;
}

static real *output(const struct layer *l, real *y, int b, int h, int i)
{
    return y + ((ptrdiff_t)(b * l->N + i) * l->H + h) * l->e;
}

static double weight(const struct layer *l, const struct linear_terms *t, int b, int h, int i,
                     int j)
{
    double s = rig_dot(query(l, l->a, b, h, i), key(l, l->f, b, h, j), (size_t)l->D);
    return t->basis ? t->c[0] + t->c[1] * s + t->c[2] * s * s : s;
}

static double den_of(const struct linear_terms *t, double n, int keys)
{
    double eps = t->per_key ? t->eps * keys : t->eps;
    return t->den == DEN_ADD     ? n + eps
           : t->den == DEN_CLAMP ? fmax(n, eps)
           : t->den == DEN_NONE  ? 1
                                 : eps;
}

/* One query by plain loops. Returns the sum of its weights. */
static double by_loops(const struct layer *l, const struct linear_terms *t, int b, int h, int i,
                       double *y)
{
    const unsigned char *id = t->regions ? region + b % WINDOWS * TOKENS : NULL;
    double n = 0;
    int keys = 0;
    memset(y, 0, (size_t)l->e * sizeof *y);
    for (int j = 0; j < l->M; j++) {
        if (id && id[i] != id[j])
            continue;
        double w = weight(l, t, b, h, i, j);
        for (int c = 0; c < l->e; c++)
            y[c] += w * (double)value(l, l->v, b, h, j)[c];
        n += w;
        keys++;
    }
    for (int c = 0; c < l->e; c++)
        y[c] /= den_of(t, n, keys);
    return n;
}

static void check_loops(struct linear_terms terms, int N, int M, int D, int e)
{
    struct layer l;
    begin(&l, terms, N, M, D, e);
    rig_run(&l.rig);
    double y[64];
    for (int b = 0; b < l.B; b++)
        for (int h = 0; h < l.H; h++)
            for (int i = 0; i < N; i += 1 + N / 50) {
                double n = by_loops(&l, &terms, b, h, i, y), largest = 1 + n / den_of(&terms, n, M);
                for (int c = 0; c < e; c++)
                    CHECK_NEAR(output(&l, l.rig.y, b, h, i)[c], y[c], rig_rounding * largest);
            }
    rig_end(&l.rig);
}

TEST(linear_attention__is_what_plain_loops_give)
{
    for (int den = 0; den < DENS; den++)
        for (int quadratic = 0; quadratic < 2; quadratic++) {
            struct linear_terms terms = in_order(dens[den], quadratic);
            test_about("denominator %d, %s", den, quadratic ? "quadratic" : "linear");
            check_loops(terms, 7, 9, 4, 5);
            check_loops(terms, 1, 1, 1, 1);
            check_loops(terms, 131, 260, 17, 33);
            terms.regions = &regions;
            check_loops(terms, TOKENS, TOKENS, 4, 5);
        }
}

TEST(linear_attention__of_a_polynomial_is_what_plain_loops_give)
{
    for (int k = 0; k < 2 * BASES * POLYNOMIALS; k++) {
        struct linear_terms terms = in_order(dens[k % 4], k & 1);
        set_polynomial(&terms, k / 2 % BASES, k / 2 / BASES);
        test_about("case %d", k);
        check_loops(terms, 7, 9, 4, 5);
        check_loops(terms, 67, 131, 25, 3);
        terms.regions = &regions;
        check_loops(terms, TOKENS, TOKENS, 4, 5);
    }
}

TEST(linear_attention__has_the_gradient_of_its_output)
{
    if (sizeof(real) < sizeof(double))
        SKIP("needs the double build");
    for (int den = 0; den < DENS; den++)
        for (int k = 0; k < 8; k++) {
            struct layer l;
            struct linear_terms terms = in_order(dens[den], k & 1);
            terms.regions = k & 2 ? &regions : NULL;
            if (k & 4)
                set_polynomial(&terms, den % BASES, 0);
            test_about("denominator %d, case %d", den, k);
            begin(&l, terms, TOKENS, k & 2 ? TOKENS : 5, 4, 3);
            rig_check_gradients(&l.rig, 1e-8);
            rig_end(&l.rig);
        }
}

/* The order that is chosen is the cheaper one by products: N M (D + e) against (N + M) D (e + 1).
 */
TEST(linear_attention__chooses_the_cheaper_order)
{
    static const struct {
        int N, D;
        enum linear_order chosen;
    } rows[] = {{4, 4, ORDER_QUADRATIC},
                {5, 4, ORDER_LINEAR},
                {200, 300, ORDER_LINEAR},
                {3, 300, ORDER_QUADRATIC}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        real *y[2];
        struct layer l[2];
        struct linear_terms terms = dens[0];
        for (int k = 0; k < 2; k++) {
            begin(&l[k], terms, rows[i].N, rows[i].N, rows[i].D, 4);
            rig_run(&l[k].rig);
            y[k] = l[k].rig.y;
            terms.order = rows[i].chosen;
        }
        test_about("%d tokens, %d features", rows[i].N, rows[i].D);
        CHECK(memcmp(y[0], y[1], l[0].rig.y_count * sizeof(real)) == 0);
        CHECK(memcmp(l[0].rig.dx[0], l[1].rig.dx[0], l[0].rig.count[0] * sizeof(real)) == 0);
        for (int k = 0; k < 2; k++)
            rig_end(&l[k].rig);
    }
}

/* Sizes of spec 2.3. */
TEST(linear_features__are_as_many_as_the_basis_has)
{
    const double all[3] = {1, 1, 1}, square[3] = {0, 0, 1}, first[3] = {1, 1, 0};
    CHECK_INT(kernel_linear_features(16, BASIS_SYM, all), 153);
    CHECK_INT(kernel_linear_features(16, BASIS_FULL, all), 273);
    CHECK_INT(kernel_linear_features(16, BASIS_KRON, all), 290);
    CHECK_INT(kernel_linear_features(64, BASIS_SYM, all), 2145);
    CHECK_INT(kernel_linear_features(16, BASIS_SYM, square), 136);
    CHECK_INT(kernel_linear_features(16, BASIS_SYM, first), 17);
    CHECK_INT(kernel_linear_features(16, BASIS_NONE, all), 16);
}

/* --- identities ---------------------------------------------------------------------------------
 */

/* Values of one give n / (n + eps), 1 without eps; values lie between those of the keys. */
TEST(linear_attention__averages_the_values)
{
    for (int k = 0; k < 4; k++) {
        struct layer l;
        struct linear_terms terms = {.den = DEN_ADD, .eps = k & 2 ? 0.5 : 0};
        terms = in_order(terms, k & 1);
        begin(&l, terms, 6, 9, 4, 3);
        for (int b = 0; b < l.B; b++)
            for (int j = 0; j < 2 * 9; j++)
                value(&l, l.v, b, 0, j)[0] = 1;
        rig_run(&l.rig);
        for (int b = 0; b < l.B; b++)
            for (int h = 0; h < 2; h++)
                for (int i = 0; i < 6; i++) {
                    double y[3], n = by_loops(&l, &terms, b, h, i, y);
                    const real *got = output(&l, l.rig.y, b, h, i);
                    CHECK_NEAR(got[0], n / (n + terms.eps), rig_rounding);
                    for (int c = 1; c < 3 && !terms.eps; c++) {
                        double least = 1, most = -1;
                        for (int j = 0; j < 9; j++) {
                            double v = (double)value(&l, l.v, b, h, j)[c];
                            least = fmin(least, v);
                            most = fmax(most, v);
                        }
                        CHECK((double)got[c] > least && (double)got[c] < most);
                    }
                }
        rig_end(&l.rig);
    }
}

/* Euler: outputs do not depend on the length of a query's features, but for eps. */
TEST(linear_attention__does_not_see_the_length_of_features)
{
    for (int k = 0; k < 4; k++) {
        struct layer l;
        struct linear_terms terms = {.den = DEN_ADD, .eps = k & 2 ? 0.5 : 0};
        terms = in_order(terms, k & 1);
        begin(&l, terms, 6, 9, 4, 3);
        rig_run(&l.rig);
        double keys = 0, size = 0;
        for (int b = 0; b < l.B; b++)
            for (int h = 0; h < 2; h++)
                for (int i = 0; i < 6; i++) {
                    double y[3], n = by_loops(&l, &terms, b, h, i, y);
                    double radial =
                        rig_dot(query(&l, l.a, b, h, i), query(&l, l.rig.dx[0], b, h, i), 4);
                    double along =
                        rig_dot(output(&l, l.rig.dy, b, h, i), output(&l, l.rig.y, b, h, i), 3);
                    CHECK_NEAR(radial, terms.eps / (n + terms.eps) * along, rig_rounding);
                    keys += terms.eps / (n + terms.eps) * along;
                    size += fabs(along);
                }
        CHECK(size > 1);
        CHECK_NEAR(rig_dot(l.f, l.rig.dx[1], l.rig.count[1]), keys, size * rig_rounding);
        rig_end(&l.rig);
    }
}

/* Keys in another order, and every pair of key and value twice: the same outputs. */
TEST(linear_attention__is_a_sum_over_keys)
{
    enum { KEYS = 9 };
    for (int k = 0; k < 4; k++) {
        struct layer once, other;
        struct linear_terms terms = in_order((struct linear_terms){.den = DEN_ADD}, k & 1);
        int times = k & 2 ? 2 : 1;
        begin(&once, terms, 6, KEYS, 4, 3);
        begin(&other, terms, 6, times * KEYS, 4, 3);
        memcpy(other.a, once.a, once.rig.count[0] * sizeof(real));
        for (int b = 0; b < once.B; b++)
            for (int h = 0; h < 2; h++)
                for (int j = 0; j < times * KEYS; j++) {
                    int from = 4 * j % KEYS;
                    memcpy(key(&other, other.f, b, h, j), key(&once, once.f, b, h, from),
                           4 * sizeof(real));
                    memcpy(value(&other, other.v, b, h, j), value(&once, once.v, b, h, from),
                           3 * sizeof(real));
                }
        rig_run(&once.rig);
        rig_run(&other.rig);
        CHECK_NEAR(rig_distance(once.rig.y, other.rig.y, once.rig.y_count), 0, rig_rounding);
        rig_end(&once.rig);
        rig_end(&other.rig);
    }
}

/* What a region gives is what its tokens give alone, and nothing else has a part in it. */
TEST(linear_attention__keeps_regions_apart_to_the_last_bit)
{
    for (int quadratic = 0; quadratic < 2; quadratic++) {
        struct layer l;
        struct linear_terms terms = in_order(dens[0], quadratic);
        terms.regions = &regions;
        begin(&l, terms, TOKENS, TOKENS, 4, 3);
        rig_run(&l.rig);
        real *y = rig_copy(&l.rig, l.rig.y, l.rig.y_count);
        real *df = rig_copy(&l.rig, l.rig.dx[1], l.rig.count[1]);
        int b = 1, moved = 2; /* of the window 0 1 0 2 1 0 */
        rig_random(query(&l, l.a, b, 0, moved), 4, "another query", 1);
        rig_random(key(&l, l.f, b, 0, moved), 4, "another key", 1);
        rig_random(value(&l, l.v, b, 0, moved), 3, "another value", 1);
        rig_run(&l.rig);
        const unsigned char *id = region + b % WINDOWS * TOKENS;
        for (int i = 0; i < TOKENS; i++) {
            bool same =
                memcmp(output(&l, y, b, 0, i), output(&l, l.rig.y, b, 0, i), 3 * sizeof(real)) == 0;
            CHECK(same == (id[i] != id[moved]));
            same =
                memcmp(key(&l, df, b, 0, i), key(&l, l.rig.dx[1], b, 0, i), 4 * sizeof(real)) == 0;
            CHECK(same == (id[i] != id[moved]));
        }
        rig_end(&l.rig);
    }
}

/* --- extremes -----------------------------------------------------------------------------------
 */

static void check_finite(const struct rig *r)
{
    for (size_t i = 0; i < r->y_count; i++)
        CHECK(isfinite(r->y[i]));
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < r->count[k]; i++)
            CHECK(isfinite(r->dx[k][i]));
}

TEST(linear_attention__of_zero_features_is_zero)
{
    for (int k = 0; k < 8; k++) {
        struct layer l;
        struct linear_terms terms = {.den = k & 2 ? DEN_CLAMP : DEN_ADD, .eps = 1e-15};
        begin(&l, in_order(terms, k & 1), 6, 9, 4, 3);
        memset(k & 4 ? l.a : l.f, 0, l.rig.count[k & 4 ? 0 : 1] * sizeof(real));
        rig_run(&l.rig);
        CHECK(rig_norm(l.rig.y, l.rig.y_count) <= 0);
        check_finite(&l.rig);
        rig_end(&l.rig);
    }
}

TEST(linear_attention__of_huge_numbers_is_finite)
{
    for (int k = 0; k < 4; k++) {
        struct layer l;
        struct linear_terms terms = {.den = k & 2 ? DEN_NONE : DEN_ADD, .eps = 1e-15};
        begin(&l, in_order(terms, k & 1), 400, 400, 4, 3);
        for (int i = 0; i < 3; i++)
            for (size_t j = 0; j < l.rig.count[i]; j++)
                l.rig.x[i][j] *= 10000;
        rig_run(&l.rig);
        check_finite(&l.rig);
        rig_end(&l.rig);
    }
}

TEST(linear_attention__of_4096_tokens_is_what_plain_loops_give)
{
    check_loops(in_order(dens[0], false), 4096, 4096, 8, 8);
}

/* --- errors -------------------------------------------------------------------------------------
 */

TEST(linear_attention__says_what_does_not_fit)
{
    static const struct token_regions wrong = {.windows = 1, .tokens = 5, .id = region};
    for (int k = 0; k < 3; k++) {
        struct rig r;
        struct linear_terms terms = {.den = DEN_NONE, .regions = k == 2 ? &wrong : NULL};
        rig_begin(&r, 2, false);
        r.graph->options.type = k == 1 ? TYPE_BF16 : TYPE_REAL;
        struct tensor *a = graph_sample(r.graph, SHAPE(2, 1, 4, 3));
        struct tensor *f = graph_sample(r.graph, SHAPE(2, 1, 4, k == 0 ? 2 : 3));
        op_linear_attention(r.graph, a, f, graph_sample(r.graph, SHAPE(2, 1, 4, 5)), &terms);
        CHECK_INT(r.graph->error.status, ERR_SHAPE);
        CHECK_CONTAINS(r.graph->error.text, k == 2 ? "regions of 1 windows of 5" : "do not fit");
        graph_free(r.graph);
        params_free(&r.params);
        arena_free(&r.memory);
    }
}
