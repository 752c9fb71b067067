/* golden.c - cases of tests/golden. */
#include "golden.h"

#include <dirent.h>
#include <stdlib.h>

#include "base/file.h"
#include "ops/ops.h"

enum { CASES = 256 };

/* Largest relative error allowed of values and of gradients. */
static const double tolerances[] = {sizeof(real) == 8 ? 1e-9 : 2e-5,
                                    sizeof(real) == 8 ? 1e-9 : 1e-4};

/* --- the formula --------------------------------------------------------------------------------
 */

static double unit(const char *name, uint32_t j)
{
    uint32_t h = 0x811C9DC5u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x01000193u;
    h += j * 0x9E3779B9u;
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    h ^= h >> 16;
    return ((double)((h >> 8) & 0xFFFFu) - 32767.5) / 65536.0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), n = strlen(end);
    return length >= n && strcmp(text + length - n, end) == 0;
}

static double weight_scale(const char *name, const struct shape *shape)
{
    size_t fan_in = shape_count(shape) / (size_t)shape->dim[0];
    if (ends_with(name, "align.weight"))
        fan_in = (size_t)shape->dim[shape->rank - 1];
    double scale = 2;
    for (size_t power = 4; power <= fan_in; power *= 4)
        scale /= 2;
    return scale;
}

double golden_entry(const char *name, const struct shape *shape, uint32_t j)
{
    double u = unit(name, j);
    if (strcmp(name, "x") == 0 || strncmp(name, "x.", 2) == 0)
        return 4 * u;
    if (ends_with(name, "bias"))
        return u / 2;
    if (ends_with(name, "weight"))
        return shape->rank == 1 ? 1 + u / 2 : weight_scale(name, shape) * u;
    return u;
}

static void fill(real *to, const char *name, const struct shape *shape)
{
    size_t n = shape_count(shape);
    for (size_t j = 0; j < n; j++)
        to[j] = (real)golden_entry(name, shape, (uint32_t)j);
}

/* --- reading ------------------------------------------------------------------------------------
 */

static struct json_value *load(const char *path)
{
    struct error error;
    struct json_value *root;
    char *text;
    size_t size;
    CHECK_OK(file_read(&text, &size, path, 1 << 20, &error), error);
    CHECK_OK(json_parse(&root, text, size, &error), error);
    free(text);
    return root;
}

static const struct json_value *member(const struct json_value *object, const char *key)
{
    const struct json_value *v = json_member(object, key);
    if (!v)
        test_about("%s is missing", key);
    CHECK(v != NULL);
    return v;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *const *golden_cases(const char *kind)
{
    static const char *paths[CASES + 1];
    const char *directory = "tests/golden/cases";
    int count = 0;
    DIR *d = opendir(directory);
    CHECK(d != NULL);
    for (struct dirent *entry; (entry = readdir(d));) {
        if (!ends_with(entry->d_name, ".json"))
            continue;
        const char *path = test_text("%s/%s", directory, entry->d_name);
        struct json_value *root = load(path);
        if (strcmp(json_to_string(member(root, "kind")), kind) == 0 && count < CASES)
            paths[count++] = path;
        json_free(root);
    }
    closedir(d);
    qsort(paths, (size_t)count, sizeof *paths, by_name);
    paths[count] = NULL;
    return paths;
}

/* The value again as text, for the reader of configs. */
static void write_json(struct json *to, const char *key, const struct json_value *v)
{
    switch (json_type(v)) {
    case JSON_NULL:
        json_null(to, key);
        break;
    case JSON_BOOL:
        json_bool(to, key, json_to_bool(v));
        break;
    case JSON_NUMBER:
        json_number(to, key, json_to_number(v));
        break;
    case JSON_STRING:
        json_string(to, key, json_to_string(v));
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        if (json_type(v) == JSON_ARRAY)
            json_array(to, key);
        else
            json_object(to, key);
        for (const struct json_value *child = json_first(v); child; child = json_next(child))
            write_json(to, json_key(child), child);
        json_end(to);
    }
}

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
    struct json *text = json_create();
    CHECK(text != NULL);
    write_json(text, NULL, member(c->root, "config"));
    CHECK_OK(config_parse(&c->config, json_text(text), c->name, error), *error);
    CHECK_OK(config_read(c->config, case_fields, &config, &c->rig.memory, error), *error);
    json_destroy(text);
    c->model = config.model;
    c->smoothing = config.train.label_smoothing;
    CHECK_OK(model_of(&c->model)->check(c->model.options, error), *error);
}

/* --- running ------------------------------------------------------------------------------------
 */

static struct shape shape_of(const struct json_value *list)
{
    struct shape shape = {0};
    for (const struct json_value *v = json_first(list); v; v = json_next(v)) {
        CHECK(shape.rank < MAX_RANK);
        shape.dim[shape.rank++] = (int)json_to_number(v);
    }
    return shape;
}

static struct tensor *record(struct golden *c, struct shape images, int slice)
{
    struct graph *g = c->rig.graph;
    g->options.trace = true;
    images.dim[0] = slice;
    struct tensor *x = graph_input(g, "x", TYPE_REAL, images, true);
    struct tensor *labels = graph_input(g, "y", TYPE_INT, SHAPE(slice), false);
    struct tensor *logits = model_of(&c->model)->record(g, c->model.options, x);
    graph_output(g, logits);
    return op_cross_entropy(g, logits, labels, c->smoothing);
}

static void set_up(struct golden *c, const struct shape *images)
{
    struct rig *r = &c->rig;
    const struct json_value *label = json_first(member(member(c->root, "input"), "labels"));
    fill(r->x[0], json_to_string(member(member(c->root, "input"), "x")), images);
    for (int b = 0; b < c->B; b++, label = json_next(label)) {
        CHECK(label != NULL);
        r->labels[1][b] = (int)json_to_number(label);
        r->dy[b] = (real)1 / (real)c->B;
    }
    for (int i = 0; i < r->params.count; i++)
        fill(r->params.list[i]->value, r->params.list[i]->name, &r->params.list[i]->shape);
    for (int i = 0; i < r->graph->output_count; i++) {
        const struct tensor *t = r->graph->outputs[i];
        size_t n = tensor_count(t) / (size_t)r->graph->options.batch * (size_t)c->B;
        c->output[i] = r->feed.output[i] ? r->feed.output[i] : rig_alloc(r, n * sizeof(real));
        r->feed.output[i] = c->output[i];
    }
}

void golden_begin(struct golden *c, const char *path, int slice, int lanes, int threads)
{
    memset(c, 0, sizeof *c);
    c->root = load(path);
    c->name = json_to_string(member(c->root, "name"));
    test_about("%s, slices of %d, %d lanes", c->name, slice, lanes);
    struct shape images = shape_of(member(member(c->root, "input"), "shape"));
    c->B = images.dim[0];
    rig_begin(&c->rig, slice, false);
    c->rig.lanes = lanes;
    c->rig.threads = threads;
    read_config(c);
    rig_ready(&c->rig, record(c, images, slice), c->B);
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
    int logits = g->output_count - 2;
    int at = strcmp(name, "logits") == 0 ? logits : 0;
    while (at < logits && strcmp(g->outputs[at]->name, name) != 0)
        at++;
    if (at == logits && strcmp(name, "logits") != 0)
        return NULL;
    *shape = g->outputs[at]->shape;
    shape->dim[0] = c->B;
    return c->output[at];
}

/* |error| as the two random projections show it: each is, on average, sqrt(4/3) |error| in size. */
static double projected_error(const struct json_value *stored, const char *name, const real *t,
                              size_t n)
{
    double squares = 0;
    int which = 1;
    for (const struct json_value *p = json_first(member(stored, "proj")); p;
         p = json_next(p), which++) {
        const char *r = test_text("%s#%d", name, which);
        double sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += 4 * unit(r, (uint32_t)j) * (double)t[j];
        squares += (sum - json_to_number(p)) * (sum - json_to_number(p));
    }
    CHECK_INT(which, 3);
    return sqrt(3.0 / 8 * squares);
}

/* |error| of the entries that are stored. */
static double sampled_error(const struct json_value *stored, const real *t, size_t n)
{
    double squares = 0;
    const struct json_value *value = json_first(member(stored, "values"));
    CHECK(value != NULL);
    for (const struct json_value *at = json_first(member(stored, "at")); at; at = json_next(at)) {
        size_t j = (size_t)json_to_number(at);
        CHECK(value && j < n);
        double difference = (double)t[j] - json_to_number(value);
        squares += difference * difference;
        value = json_next(value);
    }
    return sqrt(squares);
}

static void check_tensor(const struct golden *c, const struct json_value *stored, double largest,
                         double tolerance)
{
    const char *name = json_key(stored);
    struct shape shape, want = shape_of(member(stored, "shape"));
    char got_text[64], want_text[64];
    const real *t = result(c, name, &shape);
    test_about("%s: %s", c->name, name);
    CHECK(t != NULL);
    CHECK_STR(shape_text(got_text, &shape), shape_text(want_text, &want));
    size_t n = shape_count(&shape);
    double norm = json_to_number(member(stored, "norm"));
    double allowed = tolerance * (norm > 1e-3 * largest ? norm : 1e-3 * largest);
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        sum += (double)t[j];
    CHECK_NEAR(rig_norm(t, n), norm, allowed);
    CHECK_NEAR(sum, json_to_number(member(stored, "sum")), allowed * sqrt((double)n));
    CHECK_NEAR(projected_error(stored, name, t, n), 0, allowed);
    CHECK_NEAR(sampled_error(stored, t, n), 0, allowed);
}

static bool is_gradient(const struct json_value *stored)
{
    return strncmp(json_key(stored), "grad.", 5) == 0;
}

static void check_logits_and_loss(const struct golden *c)
{
    const struct rig *r = &c->rig;
    const real *logits = c->output[r->graph->output_count - 2];
    size_t n = 0;
    double errors = 0, norm = 0, loss = json_to_number(member(c->root, "loss"));
    for (const struct json_value *v = json_first(member(c->root, "logits")); v;
         v = json_next(v), n++) {
        double want = json_to_number(v), difference = (double)logits[n] - want;
        errors += difference * difference;
        norm += want * want;
    }
    CHECK_INT(n, (size_t)c->B * (size_t)model_of(&c->model)->shape(c->model.options).classes);
    CHECK_NEAR(sqrt(errors), 0, tolerances[0] * sqrt(norm));
    CHECK_NEAR(rig_dot(r->dy, r->y, r->y_count), loss, tolerances[0] * loss);
}

void golden_check(struct golden *c)
{
    const struct json_value *tensors = member(c->root, "tensors");
    double largest[2] = {0, 0};
    int gradients = 0;
    CHECK_INT(params_counted(&c->rig.params), json_to_number(member(c->root, "params")));
    check_logits_and_loss(c);
    for (const struct json_value *v = json_first(tensors); v; v = json_next(v)) {
        double norm = json_to_number(member(v, "norm"));
        bool gradient = is_gradient(v);
        largest[gradient] = norm > largest[gradient] ? norm : largest[gradient];
        gradients += gradient;
    }
    CHECK_INT(gradients, 1 + c->rig.params.count); /* x too */
    for (const struct json_value *v = json_first(tensors); v; v = json_next(v))
        check_tensor(c, v, largest[is_gradient(v)], tolerances[is_gradient(v)]);
}
