/* state.c - all that resume needs, in one safetensors file. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/version.h"
#include "config/json.h"
#include "io/safetensors.h"
#include "kernels/finite.h"
#include "train/checkpoint.h"

enum { BLOCKS = 2 + PARAMS_MAX_MOMENTS };

/* The blocks of params that are stored, with the prefixes of their tensors' names. */
struct blocks {
    int count;
    struct {
        const char *prefix;
        real *at;
        bool trained_only;
    } block[BLOCKS];
};

static struct blocks list_blocks(const struct params *p)
{
    static const char *const moments[PARAMS_MAX_MOMENTS] = {"moment1.", "moment2."};
    struct blocks b = {.count = 1, .block[0] = {"values.", p->values, false}};
    for (int i = 0; i < PARAMS_MAX_MOMENTS; i++) {
        if (!p->moments[i])
            continue;
        b.block[b.count].prefix = moments[i];
        b.block[b.count].at = p->moments[i];
        b.block[b.count++].trained_only = true;
    }
    if (p->average) {
        b.block[b.count].prefix = "average.";
        b.block[b.count++].at = p->average;
    }
    return b;
}

static bool is_stored(const struct param *param, bool trained_only)
{
    return !trained_only || !(param->flags & (PARAM_FROZEN | PARAM_BUFFER));
}

/* --- the numbers, as JSON -----------------------------------------------------------------------
 */

/* One number of struct train_state. */
struct number {
    const char *name;
    enum { NUMBER_INT, NUMBER_LONG, NUMBER_REAL, NUMBER_BOOL } type;
    size_t offset;
    bool is_optional; /* then -1 where it is missing, of type LONG or REAL */
};

#define AT(member) offsetof(struct train_state, member)

static const struct number numbers[] = {
    {"update", NUMBER_LONG, AT(update), false},
    {"epoch", NUMBER_INT, AT(epoch), false},
    {"position", NUMBER_LONG, AT(position), false},
    {"metrics_bytes", NUMBER_LONG, AT(metrics_bytes), false},
    {"metrics_crc32", NUMBER_LONG, AT(metrics_crc32), true},
    {"teacher_crc32", NUMBER_LONG, AT(teacher_crc32), true},
    {"total_seconds", NUMBER_REAL, AT(total_seconds), false},
    {"total_samples", NUMBER_LONG, AT(total_samples), false},
    {"train_seconds", NUMBER_REAL, AT(train_seconds), false},
    {"best_top1", NUMBER_REAL, AT(best[0].val_top1), false},
    {"best_loss", NUMBER_REAL, AT(best[0].val_loss), false},
    {"best_epoch", NUMBER_INT, AT(best[0].epoch), false},
    {"best_ema_top1", NUMBER_REAL, AT(best[1].val_top1), false},
    {"best_ema_loss", NUMBER_REAL, AT(best[1].val_loss), false},
    {"best_ema_epoch", NUMBER_INT, AT(best[1].epoch), false},
    {"last_top1", NUMBER_REAL, AT(last[0].val_top1), false},
    {"last_loss", NUMBER_REAL, AT(last[0].val_loss), false},
    {"last_epoch", NUMBER_INT, AT(last[0].epoch), false},
    {"last_ema_top1", NUMBER_REAL, AT(last[1].val_top1), false},
    {"last_ema_loss", NUMBER_REAL, AT(last[1].val_loss), false},
    {"last_ema_epoch", NUMBER_INT, AT(last[1].epoch), false},
    {"plateau_best", NUMBER_REAL, AT(plateau.best), true},
    {"plateau_seen", NUMBER_LONG, AT(plateau.seen), true},
    {"plateau_bad", NUMBER_LONG, AT(plateau.bad), true},
    {"plateau_rest", NUMBER_LONG, AT(plateau.rest), true},
    {"plateau_drops", NUMBER_LONG, AT(plateau.drops), true},
    {"loss_sum", NUMBER_REAL, AT(loss_sum), false},
    {"grad_norm_sum", NUMBER_REAL, AT(grad_norm_sum), false},
    {"seconds", NUMBER_REAL, AT(seconds), false},
    {"waited", NUMBER_REAL, AT(waited), false},
    {"correct", NUMBER_LONG, AT(correct), false},
    {"samples", NUMBER_LONG, AT(samples), false},
    {"updates", NUMBER_LONG, AT(updates), false},
    {"lr", NUMBER_REAL, AT(lr), false},
    {"complete", NUMBER_BOOL, AT(complete), false},
    {"last_test_top1", NUMBER_REAL, AT(test_top1[0]), false},
    {"best_test_top1", NUMBER_REAL, AT(test_top1[1]), false},
};

enum { NUMBER_COUNT = sizeof numbers / sizeof numbers[0] };

static char *numbers_text(const struct train_state *s)
{
    struct json *j = json_create();
    if (!j)
        return NULL;
    json_object(j, NULL);
    for (int i = 0; i < NUMBER_COUNT; i++) {
        const struct number *n = &numbers[i];
        const char *at = (const char *)s + n->offset;
        if (n->type == NUMBER_INT)
            json_int(j, n->name, *(const int *)(const void *)at);
        else if (n->type == NUMBER_LONG)
            json_int(j, n->name, *(const long long *)(const void *)at);
        else if (n->type == NUMBER_BOOL)
            json_bool(j, n->name, *(const bool *)(const void *)at);
        else
            json_number(j, n->name, *(const double *)(const void *)at);
    }
    char hash[32];
    snprintf(hash, sizeof hash, "%016" PRIx64, s->fingerprint);
    json_string(j, "fingerprint", hash);
    json_end(j);
    char *text = json_text(j) ? strdup(json_text(j)) : NULL;
    json_destroy(j);
    return text;
}

/* A whole number in 0 .. limit; false where the value is none. */
static bool whole(double *out, const struct json_value *v, double limit)
{
    *out = json_type(v) == JSON_NUMBER ? json_to_number(v) : -1;
    return *out >= 0 && *out <= limit && *out == floor(*out);
}

static bool read_number(struct train_state *s, const struct number *n, const struct json_value *v)
{
    char *at = (char *)s + n->offset;
    double number = 0;
    if (!v && n->is_optional && n->type == NUMBER_REAL)
        *(double *)(void *)at = -1;
    else if (!v && n->is_optional)
        *(long long *)(void *)at = -1;
    if (!v)
        return n->is_optional;
    switch (n->type) {
    case NUMBER_INT:
        if (!whole(&number, v, 1e9))
            return false;
        *(int *)(void *)at = (int)number;
        return true;
    case NUMBER_LONG:
        if (!whole(&number, v, 9007199254740992.0))
            return false;
        *(long long *)(void *)at = (long long)number;
        return true;
    case NUMBER_BOOL:
        *(bool *)(void *)at = json_to_bool(v);
        return json_type(v) == JSON_BOOL;
    case NUMBER_REAL:
        *(double *)(void *)at = json_type(v) == JSON_NUMBER ? json_to_number(v) : (double)NAN;
        return json_type(v) == JSON_NUMBER || json_type(v) == JSON_NULL;
    }
    return false;
}

static enum status read_numbers(struct train_state *s, const struct st_file *f, const char *path,
                                struct error *err)
{
    const char *text = st_metadata(f, "state");
    struct json_value *root = NULL;
    if (!text)
        return error_set(err, ERR_INPUT, "%s: is no training state of attnbench", path);
    enum status status = json_parse(&root, text, strlen(text), err);
    if (status) {
        error_prefix(err, "%s: state in its metadata: ", path);
        return status;
    }
    for (int i = 0; i < NUMBER_COUNT && !status; i++)
        if (!read_number(s, &numbers[i], json_member(root, numbers[i].name)))
            status = error_set(err, ERR_INPUT, "%s: state in its metadata: no valid \"%s\"", path,
                               numbers[i].name);
    const struct json_value *hash = json_member(root, "fingerprint");
    const char *digits = hash ? json_to_string(hash) : NULL;
    s->fingerprint = digits ? strtoull(digits, NULL, 16) : 0;
    json_free(root);
    return status;
}

/* --- the file -----------------------------------------------------------------------------------
 */

static struct st_tensor describe(const struct param *param, const char *name, const real *block)
{
    struct st_tensor t = {
        .name = name,
        .dtype = sizeof(real) == sizeof(double) ? DTYPE_F64 : DTYPE_F32,
        .rank = param->shape.rank,
        .count = param->count,
        .data = block + param->at,
    };
    for (int k = 0; k < param->shape.rank; k++)
        t.shape[k] = param->shape.dim[k];
    return t;
}

static int list_tensors(struct st_tensor *list, struct arena *memory, const struct params *p)
{
    struct blocks b = list_blocks(p);
    int count = 0;
    for (int k = 0; k < b.count; k++) {
        for (int i = 0; i < p->count; i++) {
            if (!is_stored(p->list[i], b.block[k].trained_only))
                continue;
            const char *name = arena_printf(memory, "%s%s", b.block[k].prefix, p->list[i]->name);
            if (!name)
                return -1;
            list[count++] = describe(p->list[i], name, b.block[k].at);
        }
    }
    return count;
}

/* Of all tensors in their order, then of the two texts. */
static uint32_t texts_crc(uint32_t crc, const char *config, const char *state)
{
    crc = hash_crc32(crc, config, strlen(config));
    return hash_crc32(crc, state, strlen(state));
}

enum status state_write(const char *path, const struct network *n, const struct train_state *s,
                        struct error *err)
{
    enum status status;
    struct arena memory;
    arena_init(&memory);
    size_t most = (size_t)BLOCKS * (size_t)n->params.count + 1;
    struct st_tensor *list = calloc(most, sizeof *list);
    char *config = experiment_text(n->experiment), *numbers_as_text = numbers_text(s);
    int count = list ? list_tensors(list, &memory, &n->params) : -1;
    if (!config || !numbers_as_text || count < 0) {
        status = error_memory(err, most * sizeof *list);
        goto out;
    }
    uint32_t crc = 0;
    for (int i = 0; i < count; i++)
        crc = hash_crc32(crc, list[i].data, list[i].count * sizeof(real));
    char crc_text[16];
    snprintf(crc_text, sizeof crc_text, "%08" PRIx32, texts_crc(crc, config, numbers_as_text));
    const struct st_pair metadata[] = {
        {"attnbench_version", ATTNBENCH_VERSION},
        {"config", config},
        {"state", numbers_as_text},
        {"crc32", crc_text},
    };
    status = st_write(path, list, count, metadata, 4, err);
out:
    free(list);
    free(config);
    free(numbers_as_text);
    arena_free(&memory);
    return status;
}

static enum status read_tensor(real *block, const struct param *param, const char *prefix,
                               uint32_t *crc, const struct st_file *f, const char *path,
                               struct error *err)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", prefix, param->name);
    const struct st_tensor *t = st_find(f, name);
    struct st_tensor wanted = describe(param, name, block);
    if (!t || t->dtype != wanted.dtype || t->count != wanted.count)
        return error_set(err, ERR_INPUT,
                         "%s: %s is %s (the state must come from this build and model)", path, name,
                         t ? "of another size or type" : "missing");
    memcpy(block + param->at, t->data, param->count * sizeof *block);
    *crc = hash_crc32(*crc, t->data, param->count * sizeof *block);
    struct vec values = {block + param->at, TYPE_REAL, (ptrdiff_t)param->count};
    if (!kernel_all_finite(values, 1, param->count))
        return error_set(err, ERR_INPUT, "%s: %s has values that are not finite", path, name);
    return OK;
}

/* Files of versions that kept no checksum pass. */
static enum status check_crc(uint32_t crc, const struct st_file *f, const char *path,
                             struct error *err)
{
    const char *stored = st_metadata(f, "crc32"), *config = st_metadata(f, "config");
    char text[16];
    crc = texts_crc(crc, config ? config : "", st_metadata(f, "state"));
    snprintf(text, sizeof text, "%08" PRIx32, crc);
    if (!stored || strcmp(stored, text) == 0)
        return OK;
    return error_set(err, ERR_INPUT,
                     "%s: is damaged: its checksum is %s, not %.16s (restore it from a copy, or "
                     "start a new run with --out DIR)",
                     path, text, stored);
}

enum status state_read(const char *path, struct network *n, struct train_state *s,
                       struct error *err)
{
    struct st_file *f = NULL;
    enum status status = st_open(&f, path, err);
    if (status)
        return status;
    status = read_numbers(s, f, path, err);
    struct blocks b = list_blocks(&n->params);
    uint32_t crc = 0;
    for (int k = 0; k < b.count && !status; k++)
        for (int i = 0; i < n->params.count && !status; i++)
            if (is_stored(n->params.list[i], b.block[k].trained_only))
                status = read_tensor(b.block[k].at, n->params.list[i], b.block[k].prefix, &crc, f,
                                     path, err);
    if (!status)
        status = check_crc(crc, f, path, err);
    st_close(f);
    return status;
}
