/* test_resample.c - scaled boxes of interleaved images are Pillow's to the bit. */
#include "data/resample.h"

#include <stdlib.h>
#include <string.h>

#include "pillow.h"
#include "test.h"

static struct resampler scratch; /* one for all cases, so that what it keeps is tested too */

static void check_case(const struct pillow_case *c)
{
    enum resize_mode filter = strcmp(c->filter, "bicubic") == 0 ? RESIZE_BICUBIC : RESIZE_BILINEAR;
    const double *b = c->list;
    struct image out = {.width = c->width, .height = c->height};
    struct error err;
    if (strcmp(c->op, "crop") == 0)
        CHECK_OK(resample_crop(&scratch, &c->from, (int)b[0], (int)b[1], (int)b[2], (int)b[3],
                               filter, &out, &err),
                 err);
    else
        CHECK_OK(resample_image(&scratch, &c->from, b[0], b[1], b[2], b[3], filter, &out, &err),
                 err);
    CHECK_INT(pillow_difference(c, &out), 0);
    image_free(&out);
}

TEST(resample__boxes_and_crops_equal_those_of_pillow)
{
    CHECK_INT(pillow_walk("resize", check_case), 22);
    CHECK_INT(pillow_walk("resize", check_case), 22);
    resampler_free(&scratch);
}

TEST(resample__a_crop_of_the_same_size_is_a_copy)
{
    uint8_t pixels[5 * 4 * 3];
    for (int i = 0; i < 60; i++)
        pixels[i] = (uint8_t)(41 * i);
    const struct image in = {.width = 5, .height = 4, .rgb = pixels};
    struct image out = {.width = 3, .height = 2};
    struct error err;
    CHECK_OK(resample_crop(&scratch, &in, 1, 2, 3, 2, RESIZE_BICUBIC, &out, &err), err);
    for (int y = 0; y < 2; y++)
        CHECK(memcmp(out.rgb + 9 * y, pixels + 3 * (5 * (y + 2) + 1), 9) == 0);
    image_free(&out);
    resampler_free(&scratch);
}

TEST(resample__buffers_are_kept_from_image_to_image)
{
    struct image in = {0}, out = {.width = 30, .height = 20};
    struct error err;
    CHECK_OK(image_room(&in, 100, 80, &err), err);
    memset(in.rgb, 200, (size_t)100 * 80 * 3);
    CHECK_OK(resample_image(&scratch, &in, 0, 0, 100, 80, RESIZE_BICUBIC, &out, &err), err);
    const uint8_t *rgb = out.rgb, *rows = scratch.rows;
    const int *weight = scratch.across.weight;
    out.width = 20;
    CHECK_OK(resample_image(&scratch, &in, 10, 10, 50, 40, RESIZE_BILINEAR, &out, &err), err);
    CHECK(out.rgb == rgb && scratch.rows == rows && scratch.across.weight == weight);
    for (int i = 0; i < 20 * 20 * 3; i++)
        CHECK_INT(out.rgb[i], 200);
    image_free(&in);
    image_free(&out);
    resampler_free(&scratch);
}
