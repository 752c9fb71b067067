/* test_augment_ops.c - each op against what Pillow makes of the same image. */
#include "data/augment_ops.h"

#include <string.h>

#include "pillow.h"
#include "test.h"

static struct image spare_for(const struct image *image)
{
    struct image spare = {0};
    struct error err;
    CHECK_OK(image_room(&spare, image->width, image->height, &err), err);
    return spare;
}

static bool is(const struct pillow_case *c, const char *op)
{
    return strcmp(c->op, op) == 0;
}

static void apply_colour(const struct pillow_case *c, struct image *image, struct image *spare)
{
    if (is(c, "auto_contrast"))
        augment_auto_contrast(image);
    else if (is(c, "equalize"))
        augment_equalize(image);
    else if (is(c, "invert"))
        augment_invert(image);
    else if (is(c, "posterize"))
        augment_posterize(image, (int)c->value);
    else if (is(c, "solarize"))
        augment_solarize(image, (int)c->value);
    else if (is(c, "solarize_add"))
        augment_solarize_add(image, (int)c->value);
    else if (is(c, "color"))
        augment_color(image, c->value);
    else if (is(c, "contrast"))
        augment_contrast(image, c->value);
    else if (is(c, "brightness"))
        augment_brightness(image, c->value);
    else if (is(c, "sharpness"))
        augment_sharpness(image, c->value, spare);
    else
        CHECK(is(c, "blur"));
    if (is(c, "blur"))
        augment_blur(image, c->value, spare);
}

static void check_colour(const struct pillow_case *c)
{
    struct image got = pillow_copy(&c->from), spare = spare_for(&got);
    apply_colour(c, &got, &spare);
    CHECK_INT(pillow_difference(c, &got), 0);
    image_free(&got);
    image_free(&spare);
}

TEST(augment_ops__tables_and_blends_equal_those_of_pillow)
{
    CHECK_INT(pillow_walk("colour", check_colour), 31);
}

TEST(augment_ops__blurs_equal_those_of_pillow)
{
    CHECK_INT(pillow_walk("blur", check_colour), 6);
}

static int apart; /* pixels that differ by one */

static void check_affine(const struct pillow_case *c)
{
    struct image got = pillow_copy(&c->from), spare = spare_for(&got);
    const struct augment_move move = {
        strcmp(c->filter, "bicubic") == 0 ? RESIZE_BICUBIC : RESIZE_BILINEAR, {124, 7, 250}};
    if (is(c, "rotate"))
        augment_rotate(&got, c->value, &move, &spare);
    else
        augment_affine(&got, c->list, &move, &spare);
    CHECK(pillow_difference(c, &got) <= 1);
    for (int i = 0; i < 3 * c->width * c->height; i++)
        apart += got.rgb[i] != c->pixels[i];
    image_free(&got);
    image_free(&spare);
}

TEST(augment_ops__moved_images_equal_those_of_pillow_but_for_single_levels)
{
    CHECK_INT(pillow_walk("affine", check_affine), 24);
    CHECK(apart <= 5); /* of 7776: where a sum lies within rounding of a whole number */
}

TEST(augment_ops__a_factor_of_one_changes_nothing)
{
    uint8_t pixels[5 * 4 * 3], same[sizeof pixels];
    for (size_t i = 0; i < sizeof pixels; i++)
        same[i] = pixels[i] = (uint8_t)(67 * i);
    struct image image = {.width = 5, .height = 4, .rgb = pixels, .room = sizeof pixels};
    struct image spare = spare_for(&image);
    augment_brightness(&image, 1);
    augment_contrast(&image, 1);
    augment_color(&image, 1);
    augment_sharpness(&image, 1, &spare);
    augment_blur(&image, 0, &spare);
    augment_posterize(&image, 8);
    augment_solarize(&image, 256);
    augment_rotate(&image, 0, &(struct augment_move){RESIZE_BICUBIC, {0, 0, 0}}, &spare);
    CHECK(memcmp(pixels, same, sizeof pixels) == 0);
    image_free(&spare);
}
