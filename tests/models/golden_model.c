/* golden_model.c - see golden_model.h. */
#include "golden_model.h"

#include "ops/ops.h"

/* Largest relative error allowed of values and of gradients. */
static const double *tolerances(const struct golden *c)
{
    static const double of_bf16[] = {2e-2, 5e-2};
    static const double of_real[] = {sizeof(real) == 8 ? 1e-9 : 2e-5,
                                     sizeof(real) == 8 ? 1e-9 : 1e-4};
    return c->how.bf16 ? of_bf16 : of_real;
}

/* --- reading ------------------------------------------------------------------------------------
 */

struct train_part {
    double label_smoothing;
};

struct case_config {
    struct choice model;
    struct train_part train;
};

static const struct field train_fields[] = {
    FIELD_REAL(struct train_part, label_smoothing, 0, 0, 1, "smoothing"),
    FIELD_END,
};

static const struct field case_fields[] = {
    FIELD_CHOICE(struct case_config, model, model_kinds, "vit", "the model"),
    FIELD_OBJECT(struct case_config, train, train_fields, "the loss"),
    FIELD_END,
};

static void read_config(struct golden *c)
{
    struct error *error = &c->rig.error;
    struct case_config config;
    CHECK_OK(config_parse(&c->config, golden_config(c->root), c->name, error), *error);
    CHECK_OK(config_read(c->config, case_fields, &config, &c->rig.memory, error), *error);
    c->model = config.model;
    c->smoothing = config.train.label_smoothing;
    CHECK_OK(model_of(&c->model)->check(c->model.options, error), *error);
}

/* --- running ------------------------------------------------------------------------------------
 */

static const struct json_value *input_of(const struct golden *c)
{
    return golden_member(c->root, "input");
}

static struct tensor *record(struct golden *c, struct shape images)
{
    struct graph *g = c->rig.graph;
    g->options.trace = true;
    images.dim[0] = c->how.slice;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, images, true);
    struct tensor *labels = graph_input(g, "y", TYPE_INT, SHAPE(c->how.slice), false);
    struct tensor *logits = model_of(&c->model)->record(g, c->model.options, x, NULL);
    graph_output(g, logits);
    struct tensor *loss = op_cross_entropy(g, logits, labels, c->smoothing);
    int plain = g->node_count;
    if (c->how.fused) {
        graph_fuse(g);
        CHECK(g->node_count < plain);
    }
    return loss;
}

static void set_up(struct golden *c, const struct shape *images)
{
    struct rig *r = &c->rig;
    const struct json_value *label = json_first(golden_member(input_of(c), "labels"));
    golden_fill(r->x[0], json_to_string(golden_member(input_of(c), "x")), images);
    for (int b = 0; b < c->B; b++, label = json_next(label)) {
        CHECK(label != NULL);
        r->labels[1][b] = (int)json_to_number(label);
        r->dy[b] = (real)1 / (real)c->B;
    }
    for (int i = 0; i < r->params.count; i++)
        golden_fill(r->params.list[i]->value, r->params.list[i]->name, &r->params.list[i]->shape);
    for (int i = 0; i < r->graph->output_count; i++) {
        const struct tensor *t = r->graph->outputs[i];
        size_t n = tensor_count(t) / (size_t)r->graph->options.batch * (size_t)c->B;
        c->output[i] = r->feed.output[i] ? r->feed.output[i] : rig_alloc(r, n * sizeof(real));
        r->feed.output[i] = c->output[i];
    }
}

void golden_begin(struct golden *c, const char *path, const struct golden_how *how)
{
    memset(c, 0, sizeof *c);
    c->how = *how;
    c->root = golden_load(path);
    c->name = json_to_string(golden_member(c->root, "name"));
    test_about("%s, slices of %d, %d lanes", c->name, how->slice, how->lanes);
    struct shape images = golden_shape(golden_member(input_of(c), "shape"));
    c->B = images.dim[0];
    rig_begin(&c->rig, how->slice, false);
    c->rig.lanes = how->lanes;
    c->rig.threads = how->threads;
    c->rig.graph->options.type = how->bf16 ? TYPE_BF16 : TYPE_REAL;
    read_config(c);
    struct tensor *loss = record(c, images);
    rig_ready(&c->rig, loss, c->B);
    set_up(c, &images);
    rig_run(&c->rig);
}

void golden_end(struct golden *c)
{
    rig_end(&c->rig);
    config_destroy(c->config);
    json_free(c->root);
}

/* --- comparing ----------------------------------------------------------------------------------
 */

/* What the run gave for a stored tensor, and its shape with all images; NULL where there is none.
 */
static const real *result(const struct golden *c, const char *name, struct shape *shape)
{
    const struct rig *r = &c->rig;
    const struct graph *g = r->graph;
    if (strcmp(name, "grad.x") == 0) {
        *shape = g->inputs[0]->shape;
        shape->dim[0] = c->B;
        return r->dx[0];
    }
    if (strncmp(name, "grad.", 5) == 0) {
        const struct param *p = params_find(&r->params, name + 5);
        if (!p)
            return NULL;
        *shape = p->shape;
        return param_grad(&r->params, p);
    }
    int at = 0, traced = g->output_count - 2;
    while (at < traced && strcmp(g->outputs[at]->name, name) != 0)
        at++;
    if (at == traced)
        return NULL;
    *shape = g->outputs[at]->shape;
    shape->dim[0] = c->B;
    return c->output[at];
}

static bool is_gradient(const struct json_value *stored)
{
    return strncmp(json_key(stored), "grad.", 5) == 0;
}

static void check_tensor(const struct golden *c, const struct json_value *stored, double largest,
                         double tolerance)
{
    const char *name = json_key(stored);
    struct shape shape, want = golden_shape(golden_member(stored, "shape"));
    char got_text[64], want_text[64];
    const real *t = result(c, name, &shape);
    test_about("%s: %s", c->name, name);
    if (!t && c->how.fused && !is_gradient(stored))
        return; /* fused ops do not store it */
    CHECK(t != NULL);
    CHECK_STR(shape_text(got_text, &shape), shape_text(want_text, &want));
    double norm = json_to_number(golden_member(stored, "norm")), least = 1e-3 * largest;
    golden_check_values(stored, t, shape_count(&shape), tolerance * (norm > least ? norm : least));
}

static void check_logits_and_loss(const struct golden *c)
{
    const struct rig *r = &c->rig;
    const real *logits = c->output[r->graph->output_count - 2];
    size_t n = 0;
    double errors = 0, norm = 0, loss = json_to_number(golden_member(c->root, "loss"));
    for (const struct json_value *v = json_first(golden_member(c->root, "logits")); v;
         v = json_next(v), n++) {
        double want = json_to_number(v), difference = (double)logits[n] - want;
        errors += difference * difference;
        norm += want * want;
    }
    CHECK_INT(n, (size_t)c->B * (size_t)model_of(&c->model)->shape(c->model.options).classes);
    CHECK_NEAR(sqrt(errors), 0, tolerances(c)[0] * sqrt(norm));
    CHECK_NEAR(rig_dot(r->dy, r->y, r->y_count), loss, tolerances(c)[0] * loss);
}

void golden_check(struct golden *c)
{
    const struct json_value *tensors = golden_member(c->root, "tensors");
    double largest[2] = {0, 0};
    int gradients = 0;
    CHECK_INT(params_counted(&c->rig.params), json_to_number(golden_member(c->root, "params")));
    check_logits_and_loss(c);
    for (const struct json_value *v = json_first(tensors); v; v = json_next(v)) {
        double norm = json_to_number(golden_member(v, "norm"));
        bool gradient = is_gradient(v);
        largest[gradient] = norm > largest[gradient] ? norm : largest[gradient];
        gradients += gradient;
    }
    CHECK_INT(gradients, 1 + c->rig.params.count); /* x too */
    for (const struct json_value *v = json_first(tensors); v; v = json_next(v))
        if (strcmp(json_key(v), "logits") != 0) /* done, and more exactly than projections can */
            check_tensor(c, v, largest[is_gradient(v)], tolerances(c)[is_gradient(v)]);
}
