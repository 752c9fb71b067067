/* checkpoint.c - weights for anybody. */
#include "train/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"
#include "config/json.h"
#include "data/normalize.h"
#include "io/safetensors.h"

/* Tensors as F32, whatever the engine computes in: floats are borrowed, doubles rounded to a copy.
 */
static enum status list_tensors(struct st_tensor **out, float **copy, const struct network *n,
                                const real *values, struct error *err)
{
    const struct params *p = &n->params;
    struct st_tensor *list = calloc((size_t)p->count + 1, sizeof *list);
    float *floats = NULL;
    if (!list)
        return error_memory(err, (size_t)p->count * sizeof *list);
    if (sizeof(real) != sizeof(float)) {
        if (!(floats = malloc((p->total + 1) * sizeof *floats))) {
            free(list);
            return error_memory(err, p->total * sizeof *floats);
        }
        for (size_t i = 0; i < p->total; i++)
            floats[i] = (float)values[i];
    }
    for (int i = 0; i < p->count; i++) {
        const struct param *param = p->list[i];
        list[i] = (struct st_tensor){
            .name = param->name,
            .dtype = DTYPE_F32,
            .rank = param->shape.rank,
            .count = param->count,
            .data =
                floats ? (const void *)(floats + param->at) : (const void *)(values + param->at),
        };
        for (int k = 0; k < param->shape.rank; k++)
            list[i].shape[k] = param->shape.dim[k];
    }
    *out = list;
    *copy = floats;
    return OK;
}

static char *take_text(struct json *j)
{
    char *text = json_text(j) ? strdup(json_text(j)) : NULL;
    json_destroy(j);
    return text;
}

static char *names_text(const char *const *class_names, int classes)
{
    struct json *j = json_create();
    if (!j)
        return NULL;
    json_array(j, NULL);
    for (int i = 0; i < classes; i++)
        json_string(j, NULL, class_names[i]);
    json_end(j);
    return take_text(j);
}

static char *normalize_text(const struct network *n)
{
    struct normalization norm;
    struct json *j = json_create();
    if (!j)
        return NULL;
    const struct data_config *data = &n->experiment->data;
    if (normalization_resolve(&norm, data, n->shape.channels, NULL)) {
        json_destroy(j);
        return NULL;
    }
    json_object(j, NULL);
    json_array(j, "mean");
    for (int c = 0; c < norm.channels; c++)
        json_number(j, NULL, norm.mean[c]);
    json_end(j);
    json_array(j, "std");
    for (int c = 0; c < norm.channels; c++)
        json_number(j, NULL, norm.std[c]);
    json_end(j);
    json_end(j);
    return take_text(j);
}

enum status checkpoint_write(const char *path, const struct network *n, const real *values,
                             const char *const *class_names, int epoch, struct error *err)
{
    struct st_tensor *tensors = NULL;
    float *copy = NULL;
    char *config = experiment_text_without_paths(n->experiment);
    char *normalize = normalize_text(n);
    char *names = class_names ? names_text(class_names, n->shape.classes) : NULL;
    char epoch_text[32];
    snprintf(epoch_text, sizeof epoch_text, "%d", epoch);
    enum status status;
    if (!config || !normalize || (class_names && !names)) {
        status = error_memory(err, 4096);
        goto out;
    }
    status = list_tensors(&tensors, &copy, n, values, err);
    if (status)
        goto out;
    struct st_pair metadata[6] = {
        {"format", "pt"}, /* what other readers look for: rows are outputs, as in PyTorch */
        {"attnbench_version", ATTNBENCH_VERSION},
        {"config", config},
        {"normalize", normalize},
        {"epoch", epoch_text},
    };
    int pairs = 5;
    if (names)
        metadata[pairs++] = (struct st_pair){"class_names", names};
    status = st_write(path, tensors, n->params.count, metadata, pairs, err);
out:
    free(tensors);
    free(copy);
    free(config);
    free(normalize);
    free(names);
    return status;
}

enum status checkpoint_config(char **config_text, const char *path, struct error *err)
{
    struct st_file *f = NULL;
    enum status status = st_open(&f, path, err);
    if (status)
        return status;
    const char *text = st_metadata(f, "config");
    *config_text = text ? strdup(text) : NULL;
    if (!text)
        status = error_set(err, ERR_INPUT,
                           "%s: has no config in its metadata: it is no checkpoint of attnbench "
                           "(name the model's config with --data CONFIG)",
                           path);
    else if (!*config_text)
        status = error_memory(err, strlen(text));
    st_close(f);
    return status;
}

/* A block of pointers with the strings behind them. */
static char **names_block(const struct json_value *array)
{
    size_t count = 0, bytes = 0;
    for (const struct json_value *v = json_first(array); v; v = json_next(v)) {
        const char *name = json_to_string(v);
        count++;
        bytes += (name ? strlen(name) : 0) + 1;
    }
    char **block = malloc((count + 1) * sizeof *block + bytes);
    if (!block)
        return NULL;
    char *text = (char *)(block + count + 1);
    size_t i = 0;
    for (const struct json_value *v = json_first(array); v; v = json_next(v)) {
        const char *name = json_to_string(v);
        block[i++] = text;
        strcpy(text, name ? name : "");
        text += strlen(text) + 1;
    }
    block[i] = NULL;
    return block;
}

enum status checkpoint_class_names(char ***out, const char *path, struct error *err)
{
    *out = NULL;
    struct st_file *f = NULL;
    struct json_value *root = NULL;
    enum status status = st_open(&f, path, err);
    if (status)
        return status;
    const char *text = st_metadata(f, "class_names");
    if (text)
        status = json_parse(&root, text, strlen(text), err);
    if (status) {
        error_prefix(err, "%s: class_names in its metadata: ", path);
    } else if (text && !(*out = names_block(root))) {
        status = error_memory(err, strlen(text));
    }
    json_free(root);
    st_close(f);
    return status;
}
