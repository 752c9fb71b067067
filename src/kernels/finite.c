/* finite.c - a value minus itself is zero unless it is infinite or NaN. */
#include "kernels/finite.h"

#include "kernels/bf16.h"

bool kernel_all_finite(struct vec x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        real sum = 0;
        if (x.type == TYPE_BF16) {
            const uint16_t *row = (const uint16_t *)x.data + (ptrdiff_t)r * x.stride;
            for (size_t c = 0; c < cols; c++)
                sum += bf16_to_real(row[c]) - bf16_to_real(row[c]);
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
