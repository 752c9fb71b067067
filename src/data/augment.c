/* augment.c - random crop and mirroring, together with normalisation in one pass. */
#include "data/augment.h"

#include "base/rng.h"

struct augment_draw augment_draw(const struct augment *options, uint64_t stream, uint64_t epoch,
                                 uint64_t position)
{
    int padding = options->random_crop_padding;
    uint64_t moves = 2 * (uint64_t)padding + 1;
    return (struct augment_draw){
        .down = (int)rng_below(stream, epoch, position, 0, moves) - padding,
        .right = (int)rng_below(stream, epoch, position, 1, moves) - padding,
        .flip = rng_uniform(stream, epoch, position, 2) < options->hflip,
    };
}

/* One row: out[x] = source[x + right], or mirrored out[width - 1 - x]; NULL is a black row. */
static void augment_row(const struct augment_draw *draw, int width, const uint8_t *source,
                        const real *table, real *out)
{
    real *to = draw->flip ? out + width - 1 : out;
    int step = draw->flip ? -1 : 1;
    for (int x = 0; x < width; x++) {
        int from = x + draw->right;
        bool inside = source && from >= 0 && from < width;
        to[x * step] = table[inside ? source[from] : 0];
    }
}

void augment_apply(const struct augment_draw *draw, struct image_shape shape, const uint8_t *pixels,
                   const real *table, real *out)
{
    for (int c = 0; c < shape.channels; c++) {
        for (int y = 0; y < shape.height; y++) {
            int from = y + draw->down;
            bool inside = from >= 0 && from < shape.height;
            augment_row(draw, shape.width,
                        inside ? pixels + (size_t)from * (size_t)shape.width : NULL, table, out);
            out += shape.width;
        }
        pixels += (size_t)shape.height * (size_t)shape.width;
        table += 256;
    }
}
