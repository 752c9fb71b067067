/* info.c - records a model for one image and for a batch, and adds up what its nodes say. */
#include "study/info.h"

#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"

/* Records the model of `options`, without a loss. */
static enum status record(struct graph **out, struct params *params, const struct experiment *x,
                          const void *options, int batch, bool train, struct error *err)
{
    const struct model *model = model_of(&x->model);
    struct model_shape s = model->shape(options);
    const struct graph_options how = {.batch = batch, .gradients = train, .noise = train};
    struct graph *g = graph_create(params, &how);
    if (!g)
        return error_memory(err, sizeof *g);
    struct tensor *image = graph_input(g, "x", TYPE_REAL,
                                       SHAPE(batch, s.channels, s.height, s.width), false);
    struct tensor *logits = model->record(g, options, image);
    graph_output(g, logits);
    if (train)
        graph_set_loss(g, logits);
    enum status status = graph_plan(g, err);
    if (status) {
        error_prefix(err, "model: ");
        graph_free(g);
        return status;
    }
    *out = g;
    return OK;
}

/* Planned bytes of a whole batch. */
static enum status activation_bytes(size_t *bytes, struct params *params,
                                    const struct experiment *x, bool train, struct error *err)
{
    struct graph *g;
    enum status status =
        record(&g, params, x, x->model.options, x->train.batch_size, train, err);
    if (status)
        return status;
    *bytes = g->block_bytes;
    graph_free(g);
    return OK;
}

/* --- which part of the model a name belongs to
 * -------------------------------------------------- */

/* The component "attn" of a dotted name, or NULL. */
static const char *find_attention(const char *name)
{
    for (const char *at = name; (at = strstr(at, "attn")); at += 4)
        if ((at == name || at[-1] == '.') && (at[4] == 0 || at[4] == '.'))
            return at;
    return NULL;
}

/* Scopes below "attn" whose products are projections, not mixing. */
static bool is_projection(const char *scope)
{
    static const char *const names[] = {"qkv", "qk", "q", "k", "v", "proj", NULL};
    const char *at = find_attention(scope);
    for (int i = 0; at && at[4] && names[i]; i++)
        if (strcmp(at + 5, names[i]) == 0)
            return true;
    return false;
}

static struct info_layer *find_layer(struct info *info, const char *name, size_t length)
{
    for (int i = 0; i < info->layer_count; i++)
        if (strlen(info->layers[i].name) == length &&
            strncmp(info->layers[i].name, name, length) == 0)
            return &info->layers[i];
    struct info_layer *layer = &info->layers[info->layer_count];
    char *copy = arena_alloc(&info->list.memory, length + 1);
    if (!copy)
        return NULL;
    memcpy(copy, name, length);
    *layer = (struct info_layer){.name = copy};
    info->layer_count++;
    return layer;
}

/* The layer of a parameter: its name without the last component, if there is another one. */
static struct info_layer *layer_of_param(struct info *info, const struct param *param)
{
    const char *dot = strrchr(param->name, '.');
    return find_layer(info, param->name, dot ? (size_t)(dot - param->name) : strlen(param->name));
}

/* Enters the layers as the nodes meet them, so that they stand in the order of the model. */
static bool list_layers(struct info *info, const struct graph *g)
{
    for (int i = 0; i < g->node_count; i++) {
        const struct node *n = g->nodes[i];
        double macs = n->op->macs ? n->op->macs(n) : 0;
        for (int k = 0; k < n->inputs; k++)
            if (n->in[k] && n->in[k]->root->param &&
                !layer_of_param(info, n->in[k]->root->param))
                return false;
        if (macs > 0) {
            struct info_layer *layer = find_layer(info, n->scope, strlen(n->scope));
            if (!layer)
                return false;
            layer->macs += macs;
        }
    }
    for (int i = 0; i < info->list.count; i++) {
        const struct param *param = info->list.list[i];
        struct info_layer *layer = layer_of_param(info, param);
        if (!layer)
            return false;
        if (!(param->flags & PARAM_BUFFER))
            layer->params += param->count;
    }
    return true;
}

static size_t count_attention(const struct params *params)
{
    size_t count = 0;
    for (int i = 0; i < params->count; i++)
        if (!(params->list[i]->flags & PARAM_BUFFER) && find_attention(params->list[i]->name))
            count += params->list[i]->count;
    return count;
}

static enum status add_up(struct info *info, const struct graph *g, struct error *err)
{
    for (int i = 0; i < g->node_count; i++) {
        const struct node *n = g->nodes[i];
        double macs = n->op->macs ? n->op->macs(n) : 0;
        info->macs += macs;
        if (find_attention(n->scope))
            info->macs_attention += macs;
        if (find_attention(n->scope) && !is_projection(n->scope))
            info->macs_attention_core += macs;
        info->copies += strcmp(n->op->name, "copy") == 0;
    }
    info->params = params_counted(&info->list);
    info->params_attention = count_attention(&info->list);
    size_t most = (size_t)g->node_count + (size_t)info->list.count + 1;
    info->layers = calloc(most, sizeof *info->layers);
    if (!info->layers || !list_layers(info, g))
        return error_memory(err, most * sizeof *info->layers);
    return OK;
}

/* --- the same model with standard attention
 * ------------------------------------------------------ */

static const struct field *attention_field(const struct field *fields)
{
    for (; fields->type != FIELD_TYPE_END; fields++)
        if (fields->type == FIELD_TYPE_CHOICE && strcmp(fields->name, "attention") == 0)
            return fields;
    return NULL;
}

static const struct kind *standard_kind(void)
{
    for (int i = 0; attn_kinds(i); i++)
        if (strcmp(attn_kinds(i)->name, "standard") == 0)
            return attn_kinds(i);
    return NULL;
}

/* Counts what the mixers would have with standard attention; 0 for models that have no such
 * choice. */
static enum status count_standard(struct info *info, const struct experiment *x, struct error *err)
{
    const struct kind *model = x->model.kind, *standard = standard_kind();
    const struct field *field = attention_field(model->fields);
    if (!field || !standard)
        return OK;
    struct arena memory;
    struct params params;
    struct graph *g = NULL;
    arena_init(&memory);
    params_init(&params);
    enum status status = OK;
    unsigned char *options = arena_alloc(&memory, model->size);
    void *choices = arena_alloc(&memory, standard->size ? standard->size : 1);
    if (!options || !choices) {
        status = error_memory(err, model->size);
        goto out;
    }
    if (standard->fields)
        status = config_defaults(standard->fields, choices, &memory, err);
    if (status)
        goto out;
    memcpy(options, x->model.options, model->size);
    const struct choice choice = {standard, standard->name, choices};
    memcpy(options + field->offset, &choice, sizeof choice);
    status = record(&g, &params, x, options, 1, false, err);
    if (!status)
        info->params_standard = count_attention(&params);
out:
    graph_free(g);
    params_free(&params);
    arena_free(&memory);
    return status;
}

enum status info_create(struct info *info, const struct experiment *x, struct error *err)
{
    memset(info, 0, sizeof *info);
    params_init(&info->list);
    info->batch = x->train.batch_size;
    struct graph *g = NULL;
    enum status status = record(&g, &info->list, x, x->model.options, 1, false, err);
    if (!status)
        status = add_up(info, g, err);
    if (!status)
        status = activation_bytes(&info->activation_bytes_infer, &info->list, x, false, err);
    if (!status)
        status = activation_bytes(&info->activation_bytes_train, &info->list, x, true, err);
    if (!status)
        status = count_standard(info, x, err);
    graph_free(g);
    if (status)
        info_free(info);
    return status;
}

void info_free(struct info *info)
{
    free(info->layers);
    params_free(&info->list);
    memset(info, 0, sizeof *info);
}
