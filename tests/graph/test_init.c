/* test_init.c - initial values: each kind keeps its promise, each parameter its own stream. */
#include "graph/rig.h"

static void allocate(struct params *p, uint64_t seed)
{
    struct error error;
    CHECK_OK(params_allocate(p, seed, 0, 0, false, &error), error);
}

struct moments {
    double mean, variance, least, most;
};

static struct moments moments(const struct param *p)
{
    struct moments m = {0, 0, HUGE_VAL, -HUGE_VAL};
    for (size_t i = 0; i < p->count; i++) {
        double v = (double)p->value[i];
        m.mean += v / (double)p->count;
        m.variance += v * v / (double)p->count;
        m.least = v < m.least ? v : m.least;
        m.most = v > m.most ? v : m.most;
    }
    m.variance -= m.mean * m.mean;
    return m;
}

/* n numbers of deviation std and of the kurtosis `fourth` (E x^4 / std^4). */
static void check_moments(struct moments m, double std, double fourth, double n)
{
    CHECK_NEAR(m.mean, 0, 4 * std / sqrt(n));
    CHECK_NEAR(m.variance, std * std, 4 * std * std * sqrt((fourth - 1) / n));
}

TEST(init__kinds_have_their_distributions)
{
    struct params p;
    const struct shape shape = SHAPE(3, 100, 140);
    const double n = 42000;
    params_init(&p);
    params_add(&p, "zeros", shape, INIT_ZEROS, 0);
    params_add(&p, "ones", shape, INIT_ONES, 0);
    params_add(&p, "constant", shape, INIT_CONSTANT(-0.25), 0);
    params_add(&p, "normal", shape, INIT_NORMAL(0.5), 0);
    params_add(&p, "truncated", shape, INIT_TRUNCATED(0.02), 0);
    params_add(&p, "cut", shape, INIT_TRUNCATED(2), 0);
    params_add(&p, "uniform", shape, INIT_UNIFORM(0.3), 0);
    params_add(&p, "xavier", shape, INIT_XAVIER_UNIFORM, 0);
    allocate(&p, 1);
    const double constants[] = {0, 1, -0.25};
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < p.list[i]->count; k++)
            CHECK(p.list[i]->value[k] == (real)constants[i]);
    check_moments(moments(p.list[3]), 0.5, 3, n);
    check_moments(moments(p.list[4]), 0.02, 3, n);

    struct moments cut = moments(p.list[5]); /* deviation 2, cut at one deviation */
    CHECK(cut.least >= -2 && cut.least < -1.99 && cut.most <= 2 && cut.most > 1.99);
    check_moments(cut, 2 * 0.5396, 1.95, n);

    struct moments uniform = moments(p.list[6]);
    CHECK(uniform.least > -0.3 && uniform.most < 0.3 && uniform.most > 0.299);
    check_moments(uniform, 0.3 / sqrt(3), 1.8, n);
    double bound = sqrt(6.0 / 240);
    struct moments xavier = moments(p.list[7]);
    CHECK(xavier.least >= -bound - 1e-7 && xavier.most <= bound + 1e-7);
    check_moments(xavier, bound / sqrt(3), 1.8, n);
    params_free(&p);
}

static double row_product(const real *a, const real *b, int n)
{
    return rig_dot(a, b, (size_t)n);
}

TEST(init__orthogonal_matrices_are_orthogonal_and_random)
{
    struct params p;
    params_init(&p);
    params_add(&p, "heads", SHAPE(2, 30, 30), INIT_ORTHOGONAL, 0);
    params_add(&p, "wide", SHAPE(5, 9), INIT_ORTHOGONAL, 0);
    allocate(&p, 1);
    for (int h = 0; h < 2; h++) {
        const real *m = p.list[0]->value + 900 * h;
        for (int i = 0; i < 30; i++)
            for (int k = 0; k < 30; k++)
                CHECK_NEAR(row_product(m + 30 * i, m + 30 * k, 30), i == k, 10 * rig_rounding);
    }
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++)
            CHECK_NEAR(row_product(p.list[1]->value + 9 * i, p.list[1]->value + 9 * k, 9), i == k,
                       10 * rig_rounding);
    CHECK(rig_distance(p.list[0]->value, p.list[0]->value + 900, 900) > 0.5);
    CHECK(fabs((double)p.list[0]->value[0]) < 0.99);
    params_free(&p);
}

TEST(init__identity_is_one_for_each_matrix)
{
    struct params p;
    params_init(&p);
    params_add(&p, "heads", SHAPE(3, 4, 4), INIT_IDENTITY, 0);
    allocate(&p, 1);
    for (int i = 0; i < 48; i++)
        CHECK_INT(p.list[0]->value[i], i % 16 / 4 == i % 4);
    params_free(&p);
}

/* a + b times the place, and a random sign. */
static enum status ramp(real *value, const struct shape *shape, const struct init *init,
                        uint64_t stream, struct error *err)
{
    (void)err;
    for (size_t i = 0; i < shape_count(shape); i++) {
        double size = init->a + init->b * (double)i;
        value[i] = (real)(rng_uniform(stream, 0, 0, i) < 0.5 ? size : -size);
    }
    return OK;
}

static enum status refuse(real *value, const struct shape *shape, const struct init *init,
                          uint64_t stream, struct error *err)
{
    (void)value;
    (void)init;
    (void)stream;
    return error_memory(err, shape_count(shape));
}

TEST(init__may_be_of_a_kind_of_its_own)
{
    struct params p, q;
    struct error error;
    params_init(&p);
    params_add(&p, "ramp", SHAPE(4, 10), (struct init){ramp, 3, 0.5}, PARAM_BUFFER);
    params_add(&p, "other", SHAPE(4, 10), (struct init){ramp, 3, 0.5}, 0);
    allocate(&p, 1);
    const real *value = p.list[0]->value;
    for (int i = 0; i < 40; i++)
        CHECK_NEAR(fabs((double)value[i]), 3 + 0.5 * i, 0);
    CHECK(memcmp(value, p.list[1]->value, 40 * sizeof *value) != 0); /* signs of another stream */
    params_free(&p);

    params_init(&q);
    params_add(&q, "refused", SHAPE(7), (struct init){refuse, 0, 0}, 0);
    CHECK_INT(params_allocate(&q, 1, 0, 0, false, &error), ERR_MEMORY);
    params_free(&q);
}

TEST(init__of_a_parameter_depends_on_seed_and_name_alone)
{
    struct params alone, among, other;
    params_init(&alone);
    params_init(&among);
    params_init(&other);
    params_add(&alone, "blocks.0.weight", SHAPE(8, 8), INIT_NORMAL(1), 0);
    params_add(&among, "new", SHAPE(7, 3), INIT_ORTHOGONAL, 0);
    struct param *same = params_add(&among, "blocks.0.weight", SHAPE(8, 8), INIT_NORMAL(1), 0);
    struct param *named = params_add(&among, "blocks.1.weight", SHAPE(8, 8), INIT_NORMAL(1), 0);
    params_add(&other, "blocks.0.weight", SHAPE(8, 8), INIT_NORMAL(1), 0);
    allocate(&alone, 1);
    allocate(&among, 1);
    allocate(&other, 2);
    const real *value = alone.list[0]->value;
    CHECK(memcmp(same->value, value, 64 * sizeof *value) == 0);
    CHECK(rig_distance(named->value, value, 64) > 0.5);
    CHECK(rig_distance(other.list[0]->value, value, 64) > 0.5);
    params_free(&alone);
    params_free(&among);
    params_free(&other);
}

TEST(params__average_starts_as_the_values_and_moments_as_zeros)
{
    struct params p;
    struct error error;
    params_init(&p);
    params_add(&p, "weight", SHAPE(8, 8), INIT_NORMAL(1), PARAM_DECAY);
    CHECK_OK(params_allocate(&p, 1, 2, 2, true, &error), error);
    CHECK(memcmp(p.average, p.values, 64 * sizeof(real)) == 0);
    CHECK(rig_norm(p.values, 64) > 0);
    CHECK(rig_norm(p.grads, 128) == 0);
    CHECK(rig_norm(p.moments[0], 64) == 0 && rig_norm(p.moments[1], 64) == 0);
    params_free(&p);
}
