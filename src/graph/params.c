/* params.c - the list of parameters and its blocks. */
#include "graph/params.h"

#include <stdlib.h>
#include <string.h>

#include "base/block.h"

void params_init(struct params *p)
{
    memset(p, 0, sizeof *p);
    arena_init(&p->memory);
}

void params_free(struct params *p)
{
    free(p->values);
    free(p->grads);
    for (int i = 0; i < PARAMS_MAX_MOMENTS; i++)
        free(p->moments[i]);
    free(p->average);
    free(p->packed);
    free(p->list);
    name_index_free(&p->names);
    arena_free(&p->memory);
    params_init(p);
}

struct param *params_find(const struct params *p, const char *name)
{
    int number = name_index_find(&p->names, name, strlen(name));
    return number < 0 ? NULL : p->list[number];
}

struct param *params_add(struct params *p, const char *name, struct shape shape, struct init init,
                         unsigned flags)
{
    if (p->count == p->capacity) {
        int capacity = p->capacity ? 2 * p->capacity : 64;
        struct param **list = realloc(p->list, (size_t)capacity * sizeof *list);
        if (!list)
            return NULL;
        p->list = list;
        p->capacity = capacity;
    }
    struct param *param = arena_alloc(&p->memory, sizeof *param);
    if (!param || !(param->name = arena_strdup(&p->memory, name)) ||
        !name_index_add(&p->names, param->name, p->count))
        return NULL;
    param->shape = shape;
    param->init = init;
    param->flags = flags;
    param->count = shape_count(&shape);
    param->number = p->count;
    p->list[p->count++] = param;
    return param;
}

static bool is_trained(const struct param *param)
{
    return !(param->flags & (PARAM_FROZEN | PARAM_BUFFER));
}

static real *zeroed(size_t count)
{
    real *block = block_create(count * sizeof *block);
    if (block)
        memset(block, 0, count * sizeof *block);
    return block;
}

static void lay_out(struct params *p)
{
    p->total = 0;
    for (int trained = 1; trained >= 0; trained--) {
        for (int i = 0; i < p->count; i++) {
            if (is_trained(p->list[i]) == (trained == 1)) {
                p->list[i]->at = p->total;
                p->total += p->list[i]->count;
            }
        }
        if (trained)
            p->trained = p->total;
    }
}

static int weight_rows(const struct param *param)
{
    return param->shape.dim[0];
}

static int weight_cols(const struct param *param)
{
    return (int)(param->count / (size_t)param->shape.dim[0]);
}

/* Of W^T (k = 0) or W (1), up to the next cache line; 0 where it is not packed. */
static size_t packed_bytes(const struct param *param, int k)
{
    int rows = weight_rows(param), cols = weight_cols(param);
    if (!param->packed)
        return 0;
    size_t size = k ? kernel_packed_bytes(rows, cols) : kernel_packed_bytes(cols, rows);
    return (size + 63) / 64 * 64;
}

size_t params_packed_bytes(const struct params *p)
{
    size_t bytes = 0;
    for (int i = 0; i < p->count; i++)
        bytes += packed_bytes(p->list[i], 0) + packed_bytes(p->list[i], 1);
    return bytes;
}

static void lay_out_packed(struct params *p)
{
    size_t at = 0;
    for (int i = 0; i < p->count; i++) {
        for (int k = 0; k < 2; k++) {
            p->list[i]->packed_at[k] = at;
            at += packed_bytes(p->list[i], k);
        }
    }
}

struct packed param_packed(const struct params *p, const struct param *param, enum trans trans)
{
    int rows = weight_rows(param), cols = weight_cols(param);
    if (trans == TRANSPOSED)
        return (struct packed){p->packed + param->packed_at[0], cols, rows};
    return (struct packed){p->packed + param->packed_at[1], rows, cols};
}

void params_pack(struct params *p, const real *values, int threads)
{
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int i = 0; i < 2 * p->count; i++) {
        const struct param *param = p->list[i / 2];
        if (!param->packed)
            continue;
        int rows = weight_rows(param), cols = weight_cols(param);
        struct vec W = {(real *)(uintptr_t)(values + param->at), TYPE_REAL, cols};
        if (i % 2)
            kernel_pack(p->packed + param->packed_at[1], PLAIN, W, rows, cols);
        else
            kernel_pack(p->packed + param->packed_at[0], TRANSPOSED, W, cols, rows);
    }
}

enum status params_allocate(struct params *p, uint64_t seed, int lanes, int moments, bool average,
                            struct error *err)
{
    lay_out(p);
    p->lanes = lanes;
    p->values = zeroed(p->total);
    if (!p->values)
        return error_memory(err, p->total * sizeof(real));
    if (lanes && !(p->grads = zeroed((size_t)lanes * p->trained)))
        return error_memory(err, (size_t)lanes * p->trained * sizeof(real));
    lay_out_packed(p);
    size_t packed = params_packed_bytes(p);
    if (packed && !(p->packed = block_create(packed)))
        return error_memory(err, packed);
    for (int i = 0; i < moments; i++)
        if (!(p->moments[i] = zeroed(p->trained)))
            return error_memory(err, p->trained * sizeof(real));
    for (int i = 0; i < p->count; i++) {
        p->list[i]->value = p->values + p->list[i]->at;
        enum status status = param_initialize(p->list[i], seed, err);
        if (status)
            return status;
    }
    if (average) {
        if (!(p->average = zeroed(p->total)))
            return error_memory(err, p->total * sizeof(real));
        memcpy(p->average, p->values, p->total * sizeof(real));
    }
    return OK;
}

real *param_grad(const struct params *p, const struct param *param)
{
    return p->grads && is_trained(param) ? p->grads + param->at : NULL;
}

size_t params_counted(const struct params *p)
{
    size_t count = 0;
    for (int i = 0; i < p->count; i++)
        if (!(p->list[i]->flags & PARAM_BUFFER))
            count += p->list[i]->count;
    return count;
}
