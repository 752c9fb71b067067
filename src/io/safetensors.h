/* safetensors.h - reading and writing tensors by name in the safetensors format.
 *
 * File: 8 bytes little-endian header length, a JSON header {"name": {"dtype", "shape",
 * "data_offsets"}, "__metadata__": {...}}, then the data.
 * https://github.com/huggingface/safetensors */
#ifndef IO_SAFETENSORS_H
#define IO_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum dtype {
    DTYPE_F32,
    DTYPE_F64,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_I64,
    DTYPE_I32,
    DTYPE_U8,
    DTYPE_OTHER
};

enum { SAFETENSORS_MAX_RANK = 8 };

struct st_tensor {
    const char *name;
    enum dtype dtype;
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    size_t count;     /* elements */
    const void *data; /* in the mapped file (not aligned!), or borrowed from the writer's caller */
};

struct st_file; /* an open file, mapped read-only */

/* ERR_INPUT with path and sizes for anything that is not a whole safetensors file: too short, an
 * LFS pointer, an HTML page, a PyTorch zip, a header length or offsets that lie, overlaps and
 * holes, repeated names, shapes that overflow, a dtype whose size does not fit the offsets. */
MUST_USE enum status st_open(struct st_file **out, const char *path, struct error *err);
void st_close(struct st_file *f);

int st_count(const struct st_file *f);
const struct st_tensor *st_at(const struct st_file *f, int i);              /* in file order */
const struct st_tensor *st_find(const struct st_file *f, const char *name); /* or NULL */
const char *st_metadata(const struct st_file *f, const char *key);          /* or NULL */

/* Converts all elements; ERR_INPUT for a dtype that cannot be read as such numbers. */
MUST_USE enum status st_to_float(float *out, const struct st_tensor *t, struct error *err);
MUST_USE enum status st_to_double(double *out, const struct st_tensor *t, struct error *err);
MUST_USE enum status st_to_int64(int64_t *out, const struct st_tensor *t, struct error *err);

struct st_pair {
    const char *key, *value;
};

/* Writes the tensors (any dtype but DTYPE_OTHER, data as given) to a temporary file beside `path`,
 * syncs and renames it: at every moment `path` is the old or the new file. ERR_IO with path and
 * sizes; the temporary file is removed. */
MUST_USE enum status st_write(const char *path, const struct st_tensor *tensors, int count,
                              const struct st_pair *metadata, int pairs, struct error *err);

#endif
