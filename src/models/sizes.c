/* sizes.c - checks and numbers that several backbones share. */
#include "models/sizes.h"

#include <math.h>

int model_divisor_near(int n, int wanted)
{
    for (int step = 0; step < n; step++) {
        if (wanted - step > 0 && n % (wanted - step) == 0)
            return wanted - step;
        if (wanted + step <= n && n % (wanted + step) == 0)
            return wanted + step;
    }
    return 1;
}

enum status model_check_patches(const int image[2], const int patch[2], struct error *err)
{
    static const char *const axis[] = {"height", "width"};
    for (int i = 0; i < 2; i++) {
        int below = image[i] / patch[i] * patch[i];
        if (below == image[i])
            continue;
        error_set(err, ERR_INPUT, "patch_size: %d does not divide the image %s %d (%d does; or %s",
                  patch[i], axis[i], image[i], model_divisor_near(image[i], patch[i]), axis[i]);
        if (below)
            error_append(err, " %d or", below);
        error_append(err, " %d)", below + patch[i]);
        return ERR_INPUT;
    }
    return OK;
}

enum status model_check_map(const int grid[2], int D, struct error *err)
{
    double tokens = (double)grid[0] * grid[1];
    if (tokens <= 1 << 20 && tokens * D <= 1 << 28)
        return OK;
    return error_set(err, ERR_INPUT,
                     "image_size: %.0f tokens of width %d are too large (the limit is 2^20 tokens, "
                     "2^28 numbers)", tokens, D);
}

enum status model_check_mlp(double ratio, int D, struct error *err)
{
    if (ratio * D >= 1 && ratio * D <= 1 << 20)
        return OK;
    return error_set(err, ERR_INPUT, "mlp_ratio: %g times dim %d is not in 1..2^20", ratio, D);
}

int model_mlp_width(double ratio, int D)
{
    return (int)lround(ratio * D);
}

double model_drop_path(double rate, int block, int blocks)
{
    return blocks > 1 ? rate * block / (blocks - 1) : rate;
}
