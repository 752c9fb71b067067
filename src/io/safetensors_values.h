/* safetensors_values.h - the element types of safetensors files; for the reader and the writer. */
#ifndef IO_SAFETENSORS_VALUES_H
#define IO_SAFETENSORS_VALUES_H

#include <stddef.h>

#include "io/safetensors.h"

struct st_dtype {
    const char *name;
    enum dtype dtype;
    size_t size; /* bytes of an element */
};

/* NULL for a name that is not known; NULL for DTYPE_OTHER, which stands for several. */
const struct st_dtype *st_dtype_of_name(const char *name);
const struct st_dtype *st_dtype_of(enum dtype dtype);

#endif
