/* backbone.c - reading and recording a model. */
#include "backbone.h"

struct backbone_config {
    struct choice model;
};

static const struct field backbone_fields[] = {
    FIELD_CHOICE(struct backbone_config, model, model_kinds, "vit", "the model"),
    FIELD_END,
};

void backbone_choose(struct backbone *n, const char *json, int batch, bool noise)
{
    struct backbone_config config;
    struct rig *r = &n->rig;
    test_about("%s", json);
    rig_begin(r, batch, noise);
    CHECK_OK(config_parse(&n->config, test_text("{\"model\": %s}", json), "model", &r->error),
             r->error);
    CHECK_OK(config_read(n->config, backbone_fields, &config, &r->memory, &r->error), r->error);
    n->model = config.model;
}

struct tensor *backbone_record(struct backbone *n)
{
    struct rig *r = &n->rig;
    const struct model *model = model_of(&n->model);
    struct model_shape s = model->shape(n->model.options);
    CHECK_OK(model->check(n->model.options, &r->error), r->error);
    struct shape images = SHAPE(r->graph->options.batch, s.channels, s.height, s.width);
    struct tensor *x = graph_input(r->graph, "x", TYPE_REAL, images, true);
    struct tensor *logits = model->record(r->graph, n->model.options, x, NULL);
    CHECK_STR(r->graph->error.status ? r->graph->error.text : "", "");
    CHECK_INT(logits->shape.rank, 2);
    CHECK_INT(logits->shape.dim[1], s.classes);
    return logits;
}

void backbone_end(struct backbone *n)
{
    config_destroy(n->config);
    rig_end(&n->rig);
}

const struct node *backbone_node(const struct backbone *n, const char *op, int i)
{
    for (int k = 0; k < n->rig.graph->node_count; k++) {
        const struct node *node = n->rig.graph->nodes[k];
        if (strcmp(node->op->name, op) == 0 && i-- == 0)
            return node;
    }
    return NULL;
}
