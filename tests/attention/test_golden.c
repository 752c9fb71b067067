/* test_golden.c - every attention layer of tests/golden, computed with PyTorch in double precision:
 * output, gradient of the input and of every parameter, in whichever order it is evaluated and
 * however the batch is cut. */
#include <stdint.h>

#include "golden.h"
#include "layer.h"

/* How a layer is run. */
struct how {
    int slice, lanes;
    bool fused, bf16;
};

struct golden_layer {
    struct layer layer;
    struct json_value *root;
    const char *name;
    bool bf16;
};

/* Largest relative error allowed of the output and of gradients. */
static const double *tolerances(const struct golden_layer *c)
{
    static const double of_bf16[] = {2e-2, 5e-2};
    static const double of_real[] = {sizeof(real) == 8 ? 1e-10 : 2e-5,
                                     sizeof(real) == 8 ? 1e-10 : 1e-4};
    return c->bf16 ? of_bf16 : of_real;
}

/* --- reading ------------------------------------------------------------------------------------
 */

static const struct kind *kind_of(const struct json_value *root)
{
    return layer_kind(json_to_string(golden_member(golden_member(root, "config"), "name")));
}

static int whole(const struct json_value *object, const char *key)
{
    return (int)json_to_number(golden_member(object, key));
}

static void pair(int to[2], const struct json_value *object, const char *key)
{
    struct shape list = golden_shape(golden_member(object, key));
    CHECK_INT(list.rank, 2);
    to[0] = list.dim[0];
    to[1] = list.dim[1];
}

static struct attn_site site_of(const struct json_value *root)
{
    const struct json_value *v = golden_member(root, "site");
    struct attn_site s = {.B = whole(v, "B"), .N = whole(v, "N"), .D = whole(v, "D"),
                          .H = whole(v, "H"), .prefix = whole(v, "prefix"),
                          .block = whole(v, "block"), .blocks = whole(v, "blocks"),
                          .qkv_bias = json_to_bool(golden_member(v, "qkv_bias")),
                          .proj_bias = json_to_bool(golden_member(v, "proj_bias"))};
    pair(s.grid, v, "grid");
    pair(s.window, v, "window");
    pair(s.shift, v, "shift");
    return s;
}

/* The attention's JSON, evaluated in this order; NULL: as it chooses. */
static const char *attention_json(const struct json_value *root, const char *order)
{
    const char *text = golden_config(root);
    return order ? layer_in_order(text, order) : text;
}

/* --- running ------------------------------------------------------------------------------------
 */

/* n numbers as the graph reads them. */
static const void *stored(struct rig *r, enum type type, real *x, size_t n)
{
    if (type != TYPE_BF16)
        return x;
    uint16_t *copy = rig_alloc(r, n * sizeof *copy);
    struct vec from = {x, TYPE_REAL, (ptrdiff_t)n}, to = {copy, TYPE_BF16, (ptrdiff_t)n};
    kernel_accumulate(to, 0, from, 1, 1, n);
    return copy;
}

static void fill(const struct golden_layer *c, struct param *p)
{
    const struct json_value *given = json_member(c->root, "values");
    const struct json_value *list = given ? json_member(given, p->name) : NULL;
    if (!list) {
        golden_fill(p->value, p->name, &p->shape);
        return;
    }
    size_t n = 0;
    for (const struct json_value *v = json_first(list); v; v = json_next(v), n++)
        if (n < p->count)
            p->value[n] = (real)json_to_number(v);
    CHECK_INT(n, p->count);
}

static void set_up(struct golden_layer *c)
{
    struct rig *r = &c->layer.rig;
    const struct attn_site *s = &c->layer.site;
    const struct shape shape = SHAPE(s->B, s->N, s->D);
    golden_fill(r->x[0], "x", &shape);
    golden_fill(r->dy, "dy", &shape);
    r->feed.input[0] = stored(r, r->graph->inputs[0]->type, r->x[0], r->count[0]);
    for (int i = 0; i < r->params.count; i++)
        fill(c, r->params.list[i]);
}

static struct tensor *record(struct golden_layer *c, const char *order, const struct how *how,
                             int slice)
{
    struct layer *l = &c->layer;
    struct rig *r = &l->rig;
    test_about("%s, order %s, slices of %d%s", c->name, order ? order : "of its own", slice,
               how->fused ? ", fused" : "");
    rig_begin(r, slice, json_to_bool(golden_member(c->root, "training")));
    r->lanes = r->threads = how->lanes;
    r->graph->options.type = how->bf16 ? TYPE_BF16 : TYPE_REAL;
    l->site = site_of(c->root);
    struct attn_site site = l->site;
    site.B = slice;
    layer_choose(l, attention_json(c->root, order));
    CHECK_OK(attn_check(&l->attention, &site, &r->error), r->error);
    struct tensor *x = graph_sample(r->graph, SHAPE(site.B, site.N, site.D));
    struct tensor *y = attn_build(r->graph, "attn", &l->attention, &site, x);
    CHECK_STR(r->graph->error.status ? r->graph->error.text : "", "");
    CHECK(shape_equal(&y->shape, &x->shape));
    return y;
}

static void begin(struct golden_layer *c, const char *path, const char *order,
                  const struct how *how)
{
    struct layer *l = &c->layer;
    struct rig *r = &l->rig;
    c->root = golden_load(path);
    c->name = json_to_string(golden_member(c->root, "name"));
    c->bf16 = how->bf16;
    struct tensor *y = record(c, order, how, how->slice);
    if (r->graph->whole_batch && how->slice < l->site.B) {
        int all = l->site.B;
        layer_end(l);
        y = record(c, order, how, all);
    }
    if (how->fused)
        graph_fuse(r->graph);
    rig_ready(r, y, l->site.B);
    set_up(c);
    rig_run(r);
}

static void end(struct golden_layer *c)
{
    layer_end(&c->layer);
    json_free(c->root);
}

/* --- comparing ----------------------------------------------------------------------------------
 */

static bool is_gradient(const struct json_value *tensor)
{
    return strncmp(json_key(tensor), "grad.", 5) == 0;
}

/* What the run gave for a stored tensor, and its shape; NULL where there is none. */
static const real *result(const struct golden_layer *c, const char *key, struct shape *shape)
{
    const struct rig *r = &c->layer.rig;
    const struct attn_site *s = &c->layer.site;
    *shape = SHAPE(s->B, s->N, s->D);
    if (strcmp(key, "out") == 0)
        return r->y;
    if (strcmp(key, "grad.x") == 0)
        return r->dx[0];
    const struct param *p = params_find(&r->params, key + strlen("grad."));
    if (!p)
        return NULL;
    *shape = p->shape;
    return param_grad(&r->params, p);
}

static void check_tensor(const struct golden_layer *c, const struct json_value *tensor,
                         double largest)
{
    const char *about = test_text("%s%s: %s", c->name, c->bf16 ? ", bf16" : "", json_key(tensor));
    struct shape shape, want = golden_shape(golden_member(tensor, "shape"));
    char got_text[64], want_text[64];
    test_about("%s", about);
    const real *t = result(c, json_key(tensor), &shape);
    CHECK(t != NULL);
    CHECK_STR(shape_text(got_text, &shape), shape_text(want_text, &want));
    double norm = json_to_number(golden_member(tensor, "norm")), least = 1e-3 * largest;
    golden_check_values(tensor, t, shape_count(&shape),
                        tolerances(c)[is_gradient(tensor)] * (norm > least ? norm : least));
}

/* Buffers are those in the file, and the parameters are those that have a gradient there. */
static void check_names(const struct golden_layer *c)
{
    const struct params *params = &c->layer.rig.params;
    const struct json_value *buffers = golden_member(c->root, "buffers");
    int trained = 0, gradients = 0;
    size_t elements = 0;
    for (int i = 0; i < params->count; i++) {
        const struct param *p = params->list[i];
        char got[64], want[64];
        test_about("%s: %s", c->name, p->name);
        if (param_grad(params, p)) {
            trained++;
            elements += p->count;
            continue;
        }
        struct shape shape = golden_shape(golden_member(buffers, p->name));
        CHECK_STR(shape_text(got, &p->shape), shape_text(want, &shape));
    }
    for (const struct json_value *v = json_first(buffers); v; v = json_next(v)) {
        test_about("%s: %s", c->name, json_key(v));
        CHECK(params_find(params, json_key(v)) != NULL);
    }
    for (const struct json_value *v = json_first(golden_member(c->root, "tensors")); v;
         v = json_next(v))
        gradients += is_gradient(v);
    test_about("%s: number of parameters", c->name);
    CHECK_INT(1 + trained, gradients); /* x too */
    CHECK_INT(elements, whole(c->root, "params"));
}

static void check(const struct golden_layer *c)
{
    const struct rig *r = &c->layer.rig;
    const struct json_value *tensors = golden_member(c->root, "tensors");
    double largest[2] = {0, 0}, loss = json_to_number(golden_member(c->root, "loss"));
    check_names(c);
    for (const struct json_value *v = json_first(tensors); v; v = json_next(v)) {
        double norm = json_to_number(golden_member(v, "norm"));
        largest[is_gradient(v)] = norm > largest[is_gradient(v)] ? norm : largest[is_gradient(v)];
    }
    for (const struct json_value *v = json_first(tensors); v; v = json_next(v))
        check_tensor(c, v, largest[is_gradient(v)]);
    test_about("%s: loss", c->name);
    double size = rig_norm(r->dy, r->y_count) * largest[0];
    CHECK_NEAR(rig_dot(r->dy, r->y, r->y_count), loss, tolerances(c)[0] * size);
}

/* --- the cases ----------------------------------------------------------------------------------
 */

static void check_case(const char *path, const char *order, const struct how *how)
{
    struct golden_layer c;
    begin(&c, path, order, how);
    check(&c);
    end(&c);
}

/* Whether the case's attention is registered and has its options. */
static bool is_known(const struct json_value *root)
{
    const struct kind *kind = kind_of(root);
    for (const struct json_value *v = json_first(golden_member(root, "config")); v && kind;
         v = json_next(v))
        if (strcmp(json_key(v), "name") != 0 && !layer_has_option(kind, json_key(v)))
            return false;
    return kind != NULL;
}

/* Runs every case whose attention is known; where the attention can be evaluated in different
 * orders, in each of them. */
static void check_all(const struct how *how)
{
    static const char *const orders[] = {NULL, "linear", "quadratic"};
    const char *const *path = golden_cases("attn");
    for (int i = 0; path[i]; i++) {
        struct json_value *root = golden_load(path[i]);
        bool runs = is_known(root) && (!how->bf16 || json_to_bool(golden_member(root, "bf16")));
        int count = !runs ? 0 : layer_takes_order(attention_json(root, NULL)) ? 3 : 1;
        json_free(root);
        for (int k = 0; k < count; k++)
            check_case(path[i], orders[k], how);
    }
}

TEST(layers__agree_with_pytorch_in_every_case)
{
    check_all(&(struct how){2, 1, false, false});
}

TEST(layers__agree_with_pytorch_however_the_batch_is_cut)
{
    check_all(&(struct how){1, 2, false, false});
}

TEST(layers__agree_with_pytorch_in_a_slice_that_is_not_full)
{
    check_all(&(struct how){3, 1, false, false});
    check_all(&(struct how){3, 1, true, true});
}

TEST(layers__agree_with_pytorch_when_fused)
{
    check_all(&(struct how){2, 1, true, false});
}

TEST(layers__agree_with_pytorch_in_bf16)
{
    check_all(&(struct how){2, 1, false, true});
    check_all(&(struct how){1, 2, true, true});
}

TEST(cases__are_of_registered_attentions)
{
    const char *const *path = golden_cases("attn");
    int cases = 0, missing = 0;
    for (; path[cases]; cases++) {
        struct json_value *root = golden_load(path[cases]);
        missing += !is_known(root);
        json_free(root);
    }
    CHECK(cases > 0);
    if (missing)
        SKIP(test_text("%d of %d cases have an attention or an option that does not exist", missing,
                       cases));
}
