/* test_resize.c - padding and filters. */
#include <string.h>

#include "data/resize.h"
#include "test.h"

static void resize(enum resize_mode mode, int from_height, int from_width, const uint8_t *from,
                   int to_height, int to_width, uint8_t *to)
{
    struct resize *r = NULL;
    struct error err;
    CHECK_OK(resize_create(&r, mode, from_height, from_width, to_height, to_width, &err), err);
    resize_plane(r, from, to);
    resize_destroy(r);
}

/* What Pillow 9.4 makes of the 5x7 image whose pixel i is (37 i^2 + 11 i) mod 256. */
static const struct reference {
    enum resize_mode mode;
    int height, width;
    uint8_t pixels[90];
} references[] = {
    {RESIZE_BILINEAR, 8, 3, {57,  130, 160, 78,  148, 168, 107, 169, 181, 130, 155, 196,
                             154, 135, 190, 179, 110, 163, 167, 99,  159, 155, 93,  159}},
    {RESIZE_BILINEAR, 3, 10, {42,  70,  97,  107, 141, 166, 175, 162, 166, 175,
                              190, 145, 114, 127, 134, 146, 165, 196, 195, 181,
                              146, 184, 187, 108, 78,  76,  105, 182, 176, 136}},
    {RESIZE_BILINEAR, 10, 9, {0,   32,  102, 157, 110, 121, 173, 181, 118, 25,  58,  100, 135,
                              139, 151, 169, 171, 152, 74,  109, 97,  91,  197, 212, 160, 150,
                              219, 133, 127, 97,  93,  202, 219, 170, 162, 232, 203, 114, 100,
                              141, 153, 172, 197, 205, 192, 220, 132, 121, 150, 114, 135, 198,
                              217, 163, 183, 183, 159, 120, 86,  110, 175, 196, 144, 156, 201,
                              172, 100, 69,  95,  162, 185, 135, 140, 187, 161, 91,  62,  90,
                              159, 185, 137, 132, 180, 155, 86,  58,  88,  158, 185, 138}},
    {RESIZE_BICUBIC, 8, 3, {50,  133, 157, 70,  150, 168, 104, 169, 187, 129, 157, 204,
                            157, 133, 194, 183, 103, 163, 169, 90,  159, 154, 86,  161}},
    {RESIZE_BICUBIC, 3, 10, {37,  64,  95,  105, 145, 173, 179, 159, 164, 175,
                             203, 150, 106, 125, 136, 150, 170, 199, 198, 183,
                             143, 192, 201, 109, 66,  62,  99,  195, 183, 128}},
    {RESIZE_BICUBIC, 10, 9, {0,   13,  109, 177, 100, 102, 184, 193, 102, 15,  48,  104, 142,
                             134, 143, 172, 174, 143, 64,  121, 93,  67,  207, 232, 146, 132,
                             230, 135, 140, 85,  69,  216, 243, 157, 145, 248, 224, 99,  82,
                             153, 155, 172, 205, 214, 192, 241, 117, 109, 169, 110, 124, 214,
                             234, 154, 184, 193, 169, 118, 82,  99,  183, 204, 135, 148, 219,
                             189, 89,  65,  84,  167, 190, 128, 133, 197, 171, 82,  59,  82,
                             167, 192, 133, 126, 187, 162, 78,  57,  80,  167, 193, 135}},
};

TEST(resize__filters_equal_those_of_pillow)
{
    uint8_t from[35], to[90];
    for (int i = 0; i < 35; i++)
        from[i] = (uint8_t)((37 * i * i + 11 * i) % 256);
    for (size_t k = 0; k < sizeof references / sizeof references[0]; k++) {
        const struct reference *r = &references[k];
        test_about("mode %d to %dx%d", (int)r->mode, r->height, r->width);
        resize(r->mode, 5, 7, from, r->height, r->width, to);
        for (int i = 0; i < r->height * r->width; i++)
            CHECK_INT(to[i], r->pixels[i]);
    }
}

TEST(resize__the_same_size_changes_nothing)
{
    uint8_t from[35], to[35];
    for (int i = 0; i < 35; i++)
        from[i] = (uint8_t)(7 * i);
    resize(RESIZE_BILINEAR, 5, 7, from, 5, 7, to);
    CHECK(memcmp(from, to, 35) == 0);
    resize(RESIZE_BICUBIC, 5, 7, from, 5, 7, to);
    CHECK(memcmp(from, to, 35) == 0);
}

TEST(resize__a_flat_image_stays_flat)
{
    uint8_t from[35], to[31 * 2];
    memset(from, 255, sizeof from);
    resize(RESIZE_BICUBIC, 5, 7, from, 31, 2, to);
    for (int i = 0; i < 31 * 2; i++)
        CHECK_INT(to[i], 255);
}

TEST(resize__padding_centres_with_the_odd_pixel_behind)
{
    static const uint8_t want[20] = {0, 1, 2, 0, 0, 0, 3, 4, 0, 0, 0, 5, 6, 0, 0, 0, 0, 0, 0, 0};
    uint8_t to[20];
    resize(RESIZE_PAD, 3, 2, (const uint8_t *)"\1\2\3\4\5\6", 4, 5, to);
    CHECK(memcmp(to, want, 20) == 0);
}

TEST(resize__padding_never_cuts)
{
    struct resize *r = NULL;
    struct error err;
    CHECK_INT(resize_create(&r, RESIZE_PAD, 3, 2, 2, 5, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "images of 3x2 cannot be padded to 2x5");
}
