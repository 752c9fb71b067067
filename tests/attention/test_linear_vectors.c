/* test_linear_vectors.c - the published values of the linear attentions: one head, four tokens on a
 * 2 x 2 map, d = 4. linear-attention.md, section 7.
 *
 * With the identity as input a layer's projections are q^T, k^T and v^T, and their gradients those
 * of q, k and v. */
#include "layer.h"

enum { TOKENS = 4, WIDTH = 4 };

struct vector {
    const char *name, *options; /* of the JSON, behind the name */
    double scalars[3];          /* alpha, beta, gamma, where it has them */
    double row[WIDTH];          /* output of the first token */
    double sums[4]; /* output, gradients of q, k, v: entry (i, j) times 1 + 4 i + j, summed */
};

static const double half = 0.70710678118654752440; /* sqrt(1 / 2) */

#define QT ", \"ape\": false, \"shortcut\": false"
#define TAYLOR2                                                                                    \
    {-0.1032591, -0.1121364, -0.1033098, -0.0781729}, {-3.485659, 13.20358, -11.41763, -32.74155}

static const struct vector vectors[] = {
    {"relu_linear", "", {0}, {-0.2638694, -0.3111562, -0.3093183, -0.2586458},
     {-31.834986, -1.92106, 1.89566, -28.44953}},
    {"elu_linear", "", {0}, {-0.0658247, -0.1010626, -0.1203450, -0.1206276},
     {-13.090256, -0.02559, 3.22091, -31.60402}},
    {"taylor1", ", \"centre\": \"none\", \"residual\": false", {0},
     {-0.0928681, -0.1023471, -0.0956678, -0.0738847},
     {-6.642171, 14.27385, -10.94889, -38.80385}},
    {"taylor1", ", \"residual\": false", {0}, {-0.0880744, -0.0967028, -0.0900640, -0.0692061},
     {-3.318523, 15.37804, -6.72993, -38.10772}},
    {"qt_exact", ", \"basis\": \"sym\"", {0}, TAYLOR2},
    {"qt_exact", ", \"basis\": \"full\"", {0}, TAYLOR2},
    {"qt_exact", ", \"basis\": \"kron\"", {0}, TAYLOR2},
    {"based", ", \"f\": 4", {0}, TAYLOR2},
    {"qt", QT, {half, 0, 1}, {-0.0455185, -0.0364779, -0.0216783, -0.0034561},
     {-0.157388, 4.64863, 5.66638, -32.65826}},
    {"qt", QT, {half, half, 1}, {-0.0880810, -0.0863638, -0.0710116, -0.0444483},
     {-4.009001, 10.45813, -2.03407, -34.46951}},
    {"qt", QT, {half, half, 2 * half}, {-0.0595690, -0.0560240, -0.0436339, -0.0243551},
     {-1.615645, 7.42039, -0.52826, -34.02163}},
    {"qt_released", QT, {0, 0, 1}, {-0.0204544, -0.0169623, -0.0107922, -0.0029182},
     {0.717353, 1.16016, 1.08463, -32.46580}},
    {"angular", "", {0}, {-0.0415748, -0.0367718, -0.0261634, -0.0114243},
     {-1.294853, 3.17205, -2.92206, -34.92897}},
    {"angular", ", \"form\": \"castling\", \"aux\": false", {0},
     {0.4099681, 0.5240090, 0.5553204, 0.4989589}, {-36.539140, 4.91935, 5.36352, -16.31568}},
    {"focused", "", {0}, {-0.3253775, -0.3801631, -0.3749293, -0.3105024},
     {-52.328081, -7.71015, -6.22672, -30.51654}},
    {"cosformer", "", {0}, {-0.1336303, -0.1541066, -0.1502528, -0.1226774},
     {-50.706459, -1.37280, 0.00055, -33.67214}},
    {"vicinity", "", {0}, {-0.2067317, -0.2416047, -0.2383336, -0.1974349},
     {-37.127358, -1.88850, 0.54293, -30.44386}},
    {"shen", "", {0}, {-0.1216413, -0.1691235, -0.1899047, -0.1807042},
     {-19.641346, -0.19669, 6.12690, -31.74792}},
    {"hydra", "", {0}, {-0.1180791, -0.2407966, -0.0563261, 0.2722982},
     {-2.179341, 5.52807, -1.70866, -4.98093}},
    {"aft_simple", "", {0}, {-0.0835141, -0.1897381, -0.1088876, -0.0475830},
     {-13.239651, 2.37970, 1.15696, -14.27433}},
    {"hedgehog", "", {0}, {-0.0201260, -0.0051048, 0.0107224, 0.0248568},
     {1.485442, 0.03016, -0.04552, -33.77354}},
    {"hedgehog", ", \"form\": \"joint\"", {0}, {-0.0944136, -0.1017390, -0.0930021, -0.0695822},
     {-7.073872, 19.35654, -8.33730, -35.60628}},
    {"rebased", ", \"f\": 4", {0}, {-0.0410343, -0.0305705, -0.0152803, 0.0024223},
     {1.276273, -0.94600, -0.75827, -27.07451}},
    {"polynl", "", {0}, {-0.1828873, -0.2160387, -0.2150824, -0.1801693},
     {-10.393385, 31.14637, -12.67162, -19.65685}},
};

enum { VECTORS = sizeof vectors / sizeof vectors[0] };

/* --- the layer around the values ----------------------------------------------------------------
 */

static double query(int t)
{
    return 1.2 * sin(t);
}

static double key(int t)
{
    return 1.2 * cos(0.7 * t);
}

static double value(int t)
{
    return sin(0.4 * t + 0.5);
}

static double gradient(int t)
{
    return cos(0.3 * t);
}

/* The parameter's values where the layer has it, else NULL. */
static struct param *find(const struct layer *l, const char *name)
{
    return params_find(&l->rig.params, test_text("attn.%s", name));
}

static void set(const struct layer *l, const char *name, double to)
{
    struct param *p = find(l, name);
    for (size_t i = 0; p && i < p->count; i++)
        p->value[i] = (real)to;
}

/* Where q, k and v are projected: a parameter, and its first row for them. */
struct projection {
    const struct param *param;
    int first;
};

static struct projection projection_of(const struct layer *l, int which)
{
    static const char *const alone[] = {"q.weight", "k.weight", "v.weight"};
    const struct param *all = find(l, "qkv.weight");
    if (all)
        return (struct projection){all, which * WIDTH};
    return (struct projection){find(l, alone[which]), 0};
}

static size_t entry(const struct layer *l, struct projection p, int token, int channel)
{
    return (size_t)((p.first + channel) * l->site.D + token);
}

/* Everything that is not of the mechanism itself is switched off. */
static void fill(struct layer *l, const struct vector *v)
{
    static double (*const of[])(int t) = {query, key, value};
    static const char *const identities[] = {"q_map.weight", "k_map.weight"};
    struct rig *r = &l->rig;
    const int D = l->site.D;
    memset(r->params.values, 0, r->params.total * sizeof(real));
    for (int which = 0; which < 3; which++) {
        struct projection p = projection_of(l, which);
        CHECK(p.param != NULL);
        for (int k = 0; k < TOKENS * WIDTH; k++)
            p.param->value[entry(l, p, k / WIDTH, k % WIDTH)] = (real)of[which](1 + k);
    }
    for (int i = 0; i < WIDTH; i++)
        layer_value(l, "proj.weight")[i * WIDTH + i] = 1;
    for (int i = 0; i < 2; i++)
        if (find(l, identities[i]))
            layer_identity(find(l, identities[i])->value, WIDTH);
    set(l, "q_norm.weight", 1);
    set(l, "k_norm.weight", 1);
    set(l, "alpha", v->scalars[0]);
    set(l, "beta", v->scalars[1]);
    set(l, "gamma", v->scalars[2]);
    for (int k = 0; k < TOKENS * D; k++) {
        int token = k / D, channel = k % D;
        r->x[0][k] = token == channel;
        r->dy[k] = channel < WIDTH ? (real)gradient(1 + token * WIDTH + channel) : 0;
    }
}

/* The gate of vicinity attention, with weights of 0, gives 1 + 1/2. */
static double gate(const struct layer *l)
{
    return find(l, "gate.fc1.weight") ? 1.5 : 1;
}

static void check_vector(const struct vector *v, const char *order)
{
    struct layer l;
    const int D = strcmp(v->name, "vicinity") == 0 ? 2 * WIDTH : WIDTH;
    struct attn_site site = layer_site(1, TOKENS, D, 1);
    site.prefix = 0;
    site.grid[0] = site.grid[1] = 2;
    site.qkv_bias = site.proj_bias = false;
    const char *json = test_text("{\"name\": \"%s\"%s%s}", v->name, v->options, order);
    test_about("%s", json);
    layer_begin(&l, json, site);
    fill(&l, v);
    rig_run(&l.rig);
    double scale = gate(&l), rounding = sizeof(real) == 8 ? 0 : 1e-6, sums[4] = {0};
    for (int j = 0; j < WIDTH; j++)
        CHECK_NEAR((double)l.rig.y[j] / scale, v->row[j], 0.51e-7 + rounding);
    for (int k = 0; k < TOKENS * WIDTH; k++) {
        sums[0] += (k + 1) * (double)l.rig.y[k / WIDTH * D + k % WIDTH] / scale;
        for (int which = 0; which < 3; which++) {
            struct projection p = projection_of(&l, which);
            const real *grad = param_grad(&l.rig.params, p.param);
            double g = (double)grad[entry(&l, p, k / WIDTH, k % WIDTH)];
            sums[1 + which] += (k + 1) * g / scale;
        }
    }
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(sums[i], v->sums[i], (i ? 0.51e-5 : 0.51e-6) + 100 * rounding);
    layer_end(&l);
}

static void check_orders(const struct vector *v)
{
    check_vector(v, "");
    if (!layer_takes_order(test_text("{\"name\": \"%s\"%s}", v->name, v->options)))
        return;
    check_vector(v, ", \"order\": \"linear\"");
    check_vector(v, ", \"order\": \"quadratic\"");
}

TEST(linear_attentions__have_the_published_values)
{
    int missing = 0;
    for (int i = 0; i < VECTORS; i++)
        if (layer_kind(vectors[i].name))
            check_orders(&vectors[i]);
        else
            missing++;
    if (missing)
        SKIP(test_text("%d of %d rows have an attention that is not registered", missing, VECTORS));
}
