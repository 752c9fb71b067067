/* info.c - records a model for one image and for a batch, and adds up what its nodes say. */
#include "study/info.h"

#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "train/network.h"
#include "ops/ops.h"

/* Planned bytes of a whole batch. */
static enum status activation_bytes(size_t *bytes, struct params *params,
                                    const struct experiment *x, bool train, struct error *err)
{
    struct graph *g;
    const struct recording how = {
        .batch = x->train.batch_size, .gradients = train, .noise = train, .fused = true,
        .smoothing = train ? x->train.label_smoothing : 0,
    };
    enum status status = network_record(&g, params, x, &how, err);
    if (status)
        return status;
    *bytes = g->block_bytes;
    graph_free(g);
    return OK;
}

/* What a process needs that runs the experiment. */
static enum status memory_bytes(double *bytes, const struct experiment *x, enum network_mode mode,
                                int threads, struct error *err)
{
    struct network *n;
    enum status status = network_plan(&n, x, mode, x->train.batch_size, threads, err);
    if (status)
        return status;
    *bytes = network_bytes(n);
    network_destroy(n);
    return OK;
}

/* --- which part of the model a name belongs to
 * -------------------------------------------------- */

bool info_is_mixing(const struct node *n)
{
    return attn_owns(n->scope) && n->op != &linear_op;
}

/* Layers that are being listed. */
struct listing {
    struct info *info;
    struct name_index names; /* places among the layers */
};

/* The layer of that name, which is entered if it is new; NULL without memory. */
static struct info_layer *find_layer(struct listing *l, const char *name, size_t length)
{
    struct info *info = l->info;
    int number = name_index_find(&l->names, name, length);
    if (number >= 0)
        return &info->layers[number];
    struct info_layer *layer = &info->layers[info->layer_count];
    char *copy = arena_alloc(&info->list.memory, length + 1);
    if (!copy)
        return NULL;
    memcpy(copy, name, length);
    if (!name_index_add(&l->names, copy, info->layer_count))
        return NULL;
    *layer = (struct info_layer){.name = copy};
    info->layer_count++;
    return layer;
}

/* The layer of a parameter: its name without the last component, if there is another one. */
static struct info_layer *layer_of_param(struct listing *l, const struct param *param)
{
    const char *dot = strrchr(param->name, '.');
    return find_layer(l, param->name, dot ? (size_t)(dot - param->name) : strlen(param->name));
}

/* Enters the layers as the nodes meet them, so that they stand in the order of the model. */
static bool list_layers(struct listing *l, const struct graph *g)
{
    const struct params *list = &l->info->list;
    for (int i = 0; i < g->node_count; i++) {
        const struct node *n = g->nodes[i];
        double macs = node_macs(n);
        for (int k = 0; k < n->inputs; k++)
            if (n->in[k] && n->in[k]->root->param &&
                !layer_of_param(l, n->in[k]->root->param))
                return false;
        if (macs > 0) {
            struct info_layer *layer = find_layer(l, n->scope, strlen(n->scope));
            if (!layer)
                return false;
            layer->macs += macs;
        }
    }
    for (int i = 0; i < list->count; i++) {
        const struct param *param = list->list[i];
        struct info_layer *layer = layer_of_param(l, param);
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
        if (!(params->list[i]->flags & PARAM_BUFFER) && attn_owns(params->list[i]->name))
            count += params->list[i]->count;
    return count;
}

static enum status add_up(struct info *info, const struct graph *g, struct error *err)
{
    for (int i = 0; i < g->node_count; i++) {
        const struct node *n = g->nodes[i];
        double macs = node_macs(n);
        info->macs += macs;
        if (attn_owns(n->scope))
            info->macs_attention += macs;
        if (info_is_mixing(n))
            info->macs_attention_core += macs;
        info->copies += n->op == &copy_op;
    }
    info->params = params_counted(&info->list);
    info->params_attention = count_attention(&info->list);
    size_t most = (size_t)g->node_count + (size_t)info->list.count + 1;
    info->layers = calloc(most, sizeof *info->layers);
    struct listing listing = {.info = info};
    bool listed = info->layers && list_layers(&listing, g);
    name_index_free(&listing.names);
    return listed ? OK : error_memory(err, most * sizeof *info->layers);
}

/* --- the same model with standard attention
 * ------------------------------------------------------ */

/* Counts what the mixers would have with the attention that others are compared with; 0 for models
 * that have no such choice. */
static enum status count_standard(struct info *info, const struct experiment *x, struct error *err)
{
    const struct kind *model = x->model.kind;
    struct arena memory;
    struct params params;
    struct graph *g = NULL;
    int choices = 0;
    arena_init(&memory);
    params_init(&params);
    void *options = arena_alloc(&memory, model->size);
    enum status status = options ? OK : error_memory(err, model->size);
    if (!status) {
        memcpy(options, x->model.options, model->size);
        status = config_set_choice(model->fields, options, attn_kinds, attn_kinds(0), &memory,
                                   &choices, err);
    }
    const struct recording how = {.model = options, .batch = 1};
    if (!status && choices)
        status = network_record(&g, &params, x, &how, err);
    if (g)
        info->params_standard = count_attention(&params);
    graph_free(g);
    params_free(&params);
    arena_free(&memory);
    return status;
}

enum status info_create(struct info *info, const struct experiment *x, int threads,
                        struct error *err)
{
    memset(info, 0, sizeof *info);
    params_init(&info->list);
    info->batch = x->train.batch_size;
    info->threads = threads;
    struct graph *g = NULL;
    const struct recording how = {.batch = 1};
    enum status status = network_record(&g, &info->list, x, &how, err);
    if (!status)
        status = add_up(info, g, err);
    if (!status)
        status = activation_bytes(&info->activation_bytes_infer, &info->list, x, false, err);
    if (!status)
        status = activation_bytes(&info->activation_bytes_train, &info->list, x, true, err);
    if (!status)
        status = memory_bytes(&info->memory_bytes_infer, x, NETWORK_INFER, threads, err);
    if (!status)
        status = memory_bytes(&info->memory_bytes_train, x, NETWORK_TRAIN, threads, err);
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
