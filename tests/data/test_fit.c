/* test_fit.c - pictures at the size of a model: scaled, cut, padded or refused. */
#include <stdlib.h>
#include <string.h>

#include "data/fit.h"
#include "test.h"

/* A picture with some structure in every direction. */
static void fill(struct image *image, int width, int height)
{
    struct error err;
    CHECK_OK(image_room(image, width, height, &err), err);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++)
                image->rgb[3 * (y * width + x) + c] =
                    (uint8_t)((x * (c + 3) + y * 5 + x * y / 7 + (x / 9 + y / 5) % 2 * 90) % 256);
}

/* The view by way of the whole picture at size width x height, from which the model's size is cut at
 * (left, top). */
static void check_view(int from_width, int from_height, int model_width, int model_height,
                       double crop_pct, int width, int height, int left, int top)
{
    struct fit_scratch s = {0};
    struct image whole = {.width = width, .height = height};
    struct error err;
    const struct fit_options o = {RESIZE_BICUBIC, {3, model_height, model_width}, crop_pct};
    size_t plane = (size_t)model_width * (size_t)model_height, other = 0;
    uint8_t *planes = malloc(3 * plane);
    CHECK(planes != NULL);
    fill(&s.record, from_width, from_height);
    CHECK_OK(fit_view(&s, &o, planes, &err), err);
    CHECK_OK(resample_image(&s.resampler, &s.record, 0, 0, from_width, from_height, RESIZE_BICUBIC,
                            &whole, &err),
             err);
    for (int y = 0; y < model_height; y++) {
        for (int x = 0; x < model_width; x++) {
            for (int c = 0; c < 3; c++) {
                int want = whole.rgb[3 * ((y + top) * width + x + left) + c];
                other += planes[(size_t)c * plane + (size_t)(y * model_width + x)] != want;
            }
        }
    }
    CHECK_INT(other, 0);
    free(planes);
    image_free(&whole);
    fit_scratch_free(&s);
}

TEST(fit__the_arithmetic_is_timms)
{
    check_view(500, 375, 224, 224, 0.875, 341, 256, 58, 16); /* 117 / 2 = 58.5: to even */
    check_view(375, 500, 224, 224, 0.875, 256, 341, 16, 58);
    check_view(256, 341, 224, 224, 1.0, 224, 298, 0, 37);
    check_view(64, 64, 64, 64, 0.875, 73, 73, 4, 4); /* 4.5: to even */
    check_view(100, 60, 48, 48, 0.875, 90, 54, 21, 3);
    check_view(97, 33, 48, 48, 1.0, 141, 48, 46, 0); /* 93 / 2 = 46.5 */
    check_view(10, 10, 48, 48, 0.9, 53, 53, 2, 2);
}

TEST(fit__models_that_are_not_square_are_covered)
{
    /* 96 / 0.8 = 120 wide, 48 / 0.8 = 60 high: the ratio 200 / 120 covers both. */
    check_view(200, 150, 96, 48, 0.8, 120, 90, 12, 21);
    check_view(400, 110, 96, 48, 0.8, 218, 60, 61, 6);
}

TEST(fit__small_models_see_the_whole_picture)
{
    check_view(64, 64, 32, 32, 0.875, 32, 32, 0, 0);
    check_view(60, 90, 28, 28, 0.5, 28, 42, 0, 7);
}

TEST(fit__extreme_pictures_are_scaled_as_any_other)
{
    struct fit_scratch s = {0};
    struct error err;
    const struct fit_options o = {RESIZE_BILINEAR, {3, 64, 64}, 0.875};
    static uint8_t planes[3 * 64 * 64];
    static const int sizes[][2] = {{1, 1}, {1, 5000}, {5000, 1}, {2, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        test_about("%d x %d", sizes[i][0], sizes[i][1]);
        CHECK_OK(image_room(&s.record, sizes[i][0], sizes[i][1], &err), err);
        memset(s.record.rgb, 77, 3 * (size_t)sizes[i][0] * (size_t)sizes[i][1]);
        CHECK_OK(fit_view(&s, &o, planes, &err), err);
        for (size_t p = 0; p < sizeof planes; p++)
            CHECK_INT(planes[p], 77);
    }
    fit_scratch_free(&s);
}

TEST(fit__padding_and_refusal)
{
    struct fit_scratch s = {0};
    struct error err;
    struct fit_options o = {RESIZE_PAD, {3, 4, 5}, 1};
    uint8_t planes[3 * 4 * 5];
    CHECK_OK(image_room(&s.record, 2, 2, &err), err);
    memcpy(s.record.rgb, "abcdefghijkl", 12);
    CHECK_OK(fit_view(&s, &o, planes, &err), err);
    CHECK(memcmp(planes, "\0\0\0\0\0" "\0ad\0\0" "\0gj\0\0" "\0\0\0\0\0", 20) == 0);
    o.mode = RESIZE_ERROR;
    CHECK_INT(fit_view(&s, &o, planes, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "is 2 x 2 pixels, the model takes 5 x 4");
    o.mode = RESIZE_PAD;
    CHECK_OK(image_room(&s.record, 6, 2, &err), err);
    CHECK_INT(fit_view(&s, &o, planes, &err), ERR_INPUT);
    fit_scratch_free(&s);
}

TEST(fit__one_channel_takes_grey_pictures_alone)
{
    struct fit_scratch s = {0};
    struct error err;
    const struct fit_options o = {RESIZE_ERROR, {1, 1, 2}, 1};
    uint8_t planes[2];
    CHECK_OK(image_room(&s.record, 2, 1, &err), err);
    memcpy(s.record.rgb, "aaabbb", 6);
    CHECK_OK(fit_view(&s, &o, planes, &err), err);
    CHECK(memcmp(planes, "ab", 2) == 0);
    s.record.rgb[1] = 'x';
    CHECK_INT(fit_view(&s, &o, planes, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "never made grey");
    fit_scratch_free(&s);
}
