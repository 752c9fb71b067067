/* layer.c - reading, recording and filling one layer. */
#include "layer.h"

struct layer_config {
    struct choice attention;
};

static const struct field layer_fields[] = {
    FIELD_CHOICE(struct layer_config, attention, attn_kinds, "standard", "the layer"),
    FIELD_END,
};

const struct kind *layer_kind(const char *name)
{
    for (int i = 0; attn_kinds(i); i++)
        if (strcmp(attn_kinds(i)->name, name) == 0)
            return attn_kinds(i);
    return NULL;
}

bool layer_has_option(const struct kind *kind, const char *option)
{
    for (const struct field *f = kind->fields; f && f->type != FIELD_TYPE_END; f++)
        if (strcmp(f->name, option) == 0)
            return true;
    return false;
}

void layer_choose(struct layer *l, const char *json)
{
    struct rig *r = &l->rig;
    struct layer_config config;
    const char *text = test_text("{\"attention\": %s}", json);
    CHECK_OK(config_parse(&l->config, text, "layer", &r->error), r->error);
    CHECK_OK(config_read(l->config, layer_fields, &config, &r->memory, &r->error), r->error);
    l->attention = config.attention;
}

struct attn_site layer_site(int B, int N, int D, int H)
{
    return (struct attn_site){.B = B,
                              .N = N,
                              .D = D,
                              .H = H,
                              .grid = {1, N > 1 ? N - 1 : 1},
                              .prefix = N > 1,
                              .blocks = 1,
                              .qkv_bias = true,
                              .proj_bias = true};
}

struct attn_site layer_map(int rows, int columns, int prefix)
{
    return (struct attn_site){.B = 2,
                              .N = prefix + rows * columns,
                              .D = 12,
                              .H = 2,
                              .grid = {rows, columns},
                              .prefix = prefix,
                              .blocks = 1,
                              .qkv_bias = true,
                              .proj_bias = true};
}

void layer_check_refused(const char *json, struct attn_site site, const char *text)
{
    struct layer l;
    struct error err = {.status = OK};
    test_about("%s", json);
    rig_begin(&l.rig, 1, false);
    layer_choose(&l, json);
    CHECK_INT(attn_check(&l.attention, &site, &err), text ? ERR_INPUT : OK);
    CHECK_CONTAINS(err.text, text ? text : "");
    layer_end(&l);
}

static void begin(struct layer *l, const char *json, struct attn_site site, bool exact)
{
    struct rig *r = &l->rig;
    rig_begin(r, site.B, false);
    l->site = site;
    layer_choose(l, json);
    const struct attn_variant *v = l->attention.kind->impl;
    if (exact && v->exact)
        v->exact(l->attention.options);
    CHECK_OK(attn_check(&l->attention, &site, &r->error), r->error);
    struct shape shape = SHAPE(site.B, site.N, site.D);
    struct tensor *x = graph_input(r->graph, "x", TYPE_REAL, shape, true);
    struct tensor *y = attn_build(r->graph, "attn", &l->attention, &site, x);
    CHECK_STR(r->graph->error.status ? r->graph->error.text : "", "");
    CHECK(shape_equal(&y->shape, &shape));
    rig_ready(r, y, site.B);
    rig_randomize(r, 1);
}

bool layer_takes_order(const char *json)
{
    struct layer l;
    struct error err = {0};
    rig_begin(&l.rig, 1, false);
    layer_choose(&l, json);
    const struct attn_variant *v = l.attention.kind->impl;
    bool takes = layer_has_option(l.attention.kind, "order");
    if (takes) {
        layer_end(&l);
        rig_begin(&l.rig, 1, false);
        layer_choose(&l, layer_in_order(json, "linear"));
        takes = config_check_needs(v->fields, v->needs, l.attention.options, &err) == OK;
    }
    layer_end(&l);
    return takes;
}

const char *layer_in_order(const char *json, const char *order)
{
    return test_text("%.*s, \"order\": \"%s\"}", (int)strlen(json) - 1, json, order);
}

void layer_begin(struct layer *l, const char *json, struct attn_site site)
{
    begin(l, json, site, false);
}

void layer_begin_exact(struct layer *l, const char *json, struct attn_site site)
{
    begin(l, json, site, true);
}

void layer_end(struct layer *l)
{
    config_destroy(l->config);
    rig_end(&l->rig);
}

real *layer_value(const struct layer *l, const char *name)
{
    return rig_value(&l->rig, test_text("attn.%s", name));
}

real *layer_grad(const struct layer *l, const char *name)
{
    return rig_grad(&l->rig, test_text("attn.%s", name));
}

size_t layer_count(const struct layer *l, const char *name)
{
    return rig_param(&l->rig, test_text("attn.%s", name))->count;
}

void layer_copy_rows(struct layer *to, const char *to_name, int to_first, const struct layer *from,
                     const char *from_name, int from_first, int rows)
{
    const struct shape *shape = &rig_param(&from->rig, test_text("attn.%s", from_name))->shape;
    size_t cols = shape->rank > 1 ? (size_t)shape->dim[1] : 1;
    memcpy(layer_value(to, to_name) + (size_t)to_first * cols,
           layer_value(from, from_name) + (size_t)from_first * cols,
           (size_t)rows * cols * sizeof(real));
}

void layer_identity(real *matrix, int n)
{
    for (int i = 0; i < n * n; i++)
        matrix[i] = i / n == i % n;
}
