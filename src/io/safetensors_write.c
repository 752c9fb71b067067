/* safetensors_write.c - writing: the widest elements first, so that all data is aligned. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "config/json.h"
#include "io/safetensors_values.h"

/* The bytes of one tensor. ERR_SHAPE where its count is not that of its shape. */
static enum status check_tensor(size_t *bytes, const struct st_tensor *t, struct error *err)
{
    const struct st_dtype *info = st_dtype_of(t->dtype);
    if (!info)
        return error_set(err, ERR_INPUT, "tensor \"%.80s\": a dtype that is not written", t->name);
    if (strcmp(t->name, "__metadata__") == 0)
        return error_set(err, ERR_INPUT, "tensor \"%s\": the format keeps that name", t->name);
    size_t count = 1;
    for (int i = 0; i < t->rank; i++) {
        size_t dim = (size_t)t->shape[i];
        if (t->shape[i] < 0 || (dim > 0 && count > SIZE_MAX / 16 / dim))
            return error_set(err, ERR_SHAPE, "tensor \"%.80s\": dimension %d is %lld", t->name, i,
                             (long long)t->shape[i]);
        count *= dim;
    }
    if (count != t->count)
        return error_set(err, ERR_SHAPE, "tensor \"%.80s\": %zu elements, its shape has %zu",
                         t->name, t->count, count);
    *bytes = count * info->size;
    return OK;
}

static int compare_names(const void *a, const void *b)
{
    const char *const *p = a, *const *q = b;
    return strcmp(*p, *q);
}

static enum status check_names(const struct st_tensor *tensors, int count, struct error *err)
{
    const char **names = calloc((size_t)count + 1, sizeof(*names));
    if (!names)
        return error_memory(err, ((size_t)count + 1) * sizeof(*names));
    for (int i = 0; i < count; i++)
        names[i] = tensors[i].name;
    qsort(names, (size_t)count, sizeof(*names), compare_names);
    enum status status = OK;
    for (int i = 1; i < count && !status; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            status = error_set(err, ERR_INPUT, "tensor \"%.80s\": the name is repeated", names[i]);
    }
    free(names);
    return status;
}

static void describe(struct json *header, const struct st_tensor *t, size_t begin, size_t bytes)
{
    json_object(header, t->name);
    json_string(header, "dtype", st_dtype_of(t->dtype)->name);
    json_array(header, "shape");
    for (int i = 0; i < t->rank; i++)
        json_int(header, NULL, (long long)t->shape[i]);
    json_end(header);
    json_array(header, "data_offsets");
    json_int(header, NULL, (long long)begin);
    json_int(header, NULL, (long long)(begin + bytes));
    json_end(header);
    json_end(header);
}

/* Describes the tensors and lists their data from parts[0] on. */
static enum status lay_out(struct json *header, struct file_part *parts,
                           const struct st_tensor *tensors, int count, struct error *err)
{
    size_t end = 0;
    int n = 0;
    for (size_t width = 8; width > 0; width /= 2) {
        for (int i = 0; i < count; i++) {
            size_t bytes = 0;
            enum status status = check_tensor(&bytes, &tensors[i], err);
            if (status)
                return status;
            if (st_dtype_of(tensors[i].dtype)->size != width)
                continue;
            describe(header, &tensors[i], end, bytes);
            parts[n++] = (struct file_part){tensors[i].data, bytes};
            end += bytes;
        }
    }
    return OK;
}

static enum status fill_header(struct json *header, struct file_part *parts,
                               const struct st_tensor *tensors, int count,
                               const struct st_pair *metadata, int pairs, struct error *err)
{
    json_object(header, NULL);
    if (pairs > 0) {
        json_object(header, "__metadata__");
        for (int i = 0; i < pairs; i++)
            json_string(header, metadata[i].key, metadata[i].value);
        json_end(header);
    }
    enum status status = lay_out(header, parts, tensors, count, err);
    json_end(header);
    if (!status && !json_text(header))
        status = error_memory(err, (size_t)count * 64);
    return status;
}

enum status st_write(const char *path, const struct st_tensor *tensors, int count,
                     const struct st_pair *metadata, int pairs, struct error *err)
{
    static const char spaces[] = "       ";
    enum { LENGTH, HEADER, PADDING, DATA };
    struct json *header = json_create();
    struct file_part *parts = calloc((size_t)count + DATA, sizeof *parts);
    enum status status = header && parts
                             ? check_names(tensors, count, err)
                             : error_memory(err, ((size_t)count + DATA) * sizeof *parts);
    if (!status)
        status = fill_header(header, parts + DATA, tensors, count, metadata, pairs, err);
    if (status) {
        error_prefix(err, "%s: ", path);
        goto out;
    }
    const char *text = json_text(header);
    size_t size = strlen(text), padding = 7 - (size + 7) % 8;
    uint64_t length = size + padding;
    parts[LENGTH] = (struct file_part){&length, sizeof length};
    parts[HEADER] = (struct file_part){text, size};
    parts[PADDING] = (struct file_part){spaces, padding};
    status = file_write_parts(path, parts, count + DATA, err);
out:
    free(parts);
    json_destroy(header);
    return status;
}
