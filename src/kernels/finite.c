/* finite.c - a value minus itself is zero unless it is infinite or NaN. */
#include "kernels/finite.h"

#include <string.h>

static float load_bf16(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

bool kernel_all_finite(struct vec x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        real sum = 0;
        if (x.type == TYPE_BF16) {
            const uint16_t *row = (const uint16_t *)x.data + (ptrdiff_t)r * x.stride;
            for (size_t c = 0; c < cols; c++)
                sum += (real)(load_bf16(row[c]) - load_bf16(row[c]));
        } else {
            const real *row = (const real *)x.data + (ptrdiff_t)r * x.stride;
            for (size_t c = 0; c < cols; c++)
                sum += row[c] - row[c];
        }
        if (!(sum == 0))
            return false;
    }
    return true;
}
