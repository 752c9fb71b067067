/* safetensors_values.c - element types, and conversion to numbers that can be computed with. The
 * data of a file need not be aligned: elements are fetched with memcpy. */
#include "io/safetensors_values.h"

#include <string.h>

/* Numbers are copied from and to files as they lie in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little-endian");

static const struct st_dtype dtypes[] = {
    {"F32", DTYPE_F32, 4},       {"F64", DTYPE_F64, 8},       {"F16", DTYPE_F16, 2},
    {"BF16", DTYPE_BF16, 2},     {"I64", DTYPE_I64, 8},       {"I32", DTYPE_I32, 4},
    {"U8", DTYPE_U8, 1},         {"BOOL", DTYPE_OTHER, 1},    {"I8", DTYPE_OTHER, 1},
    {"I16", DTYPE_OTHER, 2},     {"U16", DTYPE_OTHER, 2},     {"U32", DTYPE_OTHER, 4},
    {"U64", DTYPE_OTHER, 8},     {"F8_E4M3", DTYPE_OTHER, 1}, {"F8_E5M2", DTYPE_OTHER, 1},
    {"F8_E8M0", DTYPE_OTHER, 1}, {"C64", DTYPE_OTHER, 8},
};

enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const struct st_dtype *st_dtype_of_name(const char *name)
{
    for (int i = 0; i < DTYPES; i++) {
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    }
    return NULL;
}

const struct st_dtype *st_dtype_of(enum dtype dtype)
{
    for (int i = 0; i < DTYPES && dtype != DTYPE_OTHER; i++) {
        if (dtypes[i].dtype == dtype)
            return &dtypes[i];
    }
    return NULL;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits. All its values are floats. */
static float float_of_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half >> 15) << 31;
    uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 0) { /* zero and subnormals: multiples of 2^-24 */
        float value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    exponent = exponent == 31 ? 255 : exponent + 127 - 15;
    return float_of_bits(sign | exponent << 23 | fraction << 13);
}

static float float_of_bf16(uint16_t half)
{
    return float_of_bits((uint32_t)half << 16);
}

/* Element i, for the floating-point types that a float holds exactly. */
static float float_at(const struct st_tensor *t, size_t i)
{
    const char *data = t->data;
    float value;
    uint16_t half;
    if (t->dtype == DTYPE_F32) {
        memcpy(&value, data + i * sizeof value, sizeof value);
        return value;
    }
    memcpy(&half, data + i * sizeof half, sizeof half);
    return t->dtype == DTYPE_F16 ? float_of_f16(half) : float_of_bf16(half);
}

static double double_at(const struct st_tensor *t, size_t i)
{
    double value;
    memcpy(&value, (const char *)t->data + i * sizeof value, sizeof value);
    return value;
}

static enum status wrong_dtype(const struct st_tensor *t, const char *wanted, struct error *err)
{
    const struct st_dtype *info = st_dtype_of(t->dtype);
    return error_set(err, ERR_INPUT, "tensor \"%.80s\": dtype is %s, not %s", t->name,
                     info ? info->name : "one that is not read", wanted);
}

static bool is_floating(enum dtype dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F64 || dtype == DTYPE_F16 || dtype == DTYPE_BF16;
}

enum status st_to_float(float *out, const struct st_tensor *t, struct error *err)
{
    if (!is_floating(t->dtype))
        return wrong_dtype(t, "F32, F64, F16 or BF16", err);
    for (size_t i = 0; i < t->count; i++)
        out[i] = t->dtype == DTYPE_F64 ? (float)double_at(t, i) : float_at(t, i);
    return OK;
}

enum status st_to_double(double *out, const struct st_tensor *t, struct error *err)
{
    if (!is_floating(t->dtype))
        return wrong_dtype(t, "F32, F64, F16 or BF16", err);
    for (size_t i = 0; i < t->count; i++)
        out[i] = t->dtype == DTYPE_F64 ? double_at(t, i) : (double)float_at(t, i);
    return OK;
}

enum status st_to_int64(int64_t *out, const struct st_tensor *t, struct error *err)
{
    const unsigned char *data = t->data;
    for (size_t i = 0; i < t->count; i++) {
        int32_t narrow;
        switch (t->dtype) {
        case DTYPE_I64:
            memcpy(&out[i], data + i * sizeof *out, sizeof *out);
            break;
        case DTYPE_I32:
            memcpy(&narrow, data + i * sizeof narrow, sizeof narrow);
            out[i] = narrow;
            break;
        case DTYPE_U8:
            out[i] = data[i];
            break;
        default:
            return wrong_dtype(t, "I64, I32 or U8", err);
        }
    }
    return OK;
}
