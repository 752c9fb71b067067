/* test_decode.c - PNG and JPEG of every kind: the 197 odd files of the sample data, and small ones
 * made here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "config/json.h"
#include "io/decode.h"
#include "picture.h"
#include "test.h"

static const struct decode_options usual = {.exif = true, .max_pixels = DECODE_MAX_PIXELS};

/* --- the odd files ------------------------------------------------------------------------------
 */

static double number(const struct json_value *v, const char *key)
{
    const struct json_value *member = json_member(v, key);
    CHECK(member != NULL);
    return json_to_number(member);
}

/* The mean colour of a part of the picture. */
static void mean_of(const struct image *image, int left, int top, int right, int bottom,
                    double mean[3])
{
    double sum[3] = {0};
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++)
            for (int c = 0; c < 3; c++)
                sum[c] += image->rgb[3 * (y * image->width + x) + c];
    for (int c = 0; c < 3; c++)
        mean[c] = sum[c] / ((double)(right - left) * (bottom - top));
}

static void check_colour(const struct json_value *want, const double *got, double tolerance)
{
    const struct json_value *v = json_first(want);
    for (int c = 0; c < 3; c++, v = json_next(v))
        CHECK_NEAR(got[c], json_to_number(v), tolerance);
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static void check_picture(const struct image *image, const struct decode_facts *facts,
                          const struct json_value *want, const struct json_value *tolerance)
{
    double mean[3];
    int x = image->width / 2, y = image->height / 2;
    const char *format = json_to_string(json_member(want, "format"));
    CHECK_STR(facts->format, strcmp(format, "MPO") == 0 ? "JPEG" : format);
    CHECK_INT(image->width, number(want, "width"));
    CHECK_INT(image->height, number(want, "height"));
    CHECK_INT(facts->width, image->width);
    CHECK_INT(facts->height, image->height);
    mean_of(image, 0, 0, image->width, image->height, mean);
    check_colour(json_member(want, "mean_rgb"), mean, number(tolerance, "mean"));
    mean_of(image, x, y, x + 1, y + 1, mean);
    check_colour(json_member(want, "center_rgb"), mean, number(tolerance, "center"));
    mean_of(image, larger(x - 2, 0), larger(y - 2, 0),
            image->width - larger(image->width - x - 3, 0),
            image->height - larger(image->height - y - 3, 0), mean);
    check_colour(json_member(want, "center_5x5_mean_rgb"), mean, number(tolerance, "center_5x5"));
}

/* Files that end too early for the manifest's reference, but behind their last pixel. */
static bool lacks_only_its_end(const char *path)
{
    return strstr(path, "jpeg-no-eoi.jpg") || strstr(path, "jpeg-truncated-progressive-2.jpg");
}

/* One file of the manifest. Damaged files may decode only to the whole picture, never to a part. */
static void check_file(struct image *image, const char *path, const struct json_value *file)
{
    const char *expect = json_to_string(json_member(file, "expect"));
    const struct json_value *want = json_member(file, "decode");
    if (!want)
        want = json_member(file, "reference_decode");
    const struct json_value *tolerance = json_member(file, "tolerance");
    char *bytes;
    size_t size;
    struct error err;
    struct decode_facts facts;
    CHECK_OK(file_read(&bytes, &size, path, 1 << 24, &err), err);
    enum status status =
        image_decode(image, (const uint8_t *)bytes, size, path, &usual, &facts, &err);
    free(bytes);
    if (strcmp(expect, "decode") == 0)
        CHECK_OK(status, err);
    if (status) {
        CHECK_INT(status, ERR_INPUT);
        CHECK_CONTAINS(err.text, path);
        CHECK(strlen(err.text) > strlen(path) + 20);
        return;
    }
    CHECK(strcmp(expect, "error") != 0);
    if (!want && lacks_only_its_end(path))
        want = json_member(file, "reference_partial_decode");
    CHECK(want != NULL);
    struct json_value *usual_tolerance = NULL;
    if (!tolerance) {
        const char text[] = "{\"mean\": 0.6, \"center\": 9, \"center_5x5\": 3}";
        CHECK_OK(json_parse(&usual_tolerance, text, strlen(text), &err), err);
        tolerance = usual_tolerance;
    }
    check_picture(image, &facts, want, tolerance);
    json_free(usual_tolerance);
}

TEST(decode__odd_files_give_what_their_manifest_says)
{
    const char *manifest = test_data("odd-images/odd-images.json");
    if (!manifest)
        SKIP("no odd-images");
    char *text;
    size_t size;
    struct error err;
    struct json_value *root;
    struct image image = {0};
    CHECK_OK(file_read(&text, &size, manifest, 1 << 24, &err), err);
    CHECK_OK(json_parse(&root, text, size, &err), err);
    free(text);
    int files = 0;
    for (const struct json_value *file = json_first(json_member(root, "files")); file;
         file = json_next(file), files++) {
        const char *name = json_to_string(json_member(file, "file"));
        test_about("%s", name);
        check_file(&image, test_data(test_text("odd-images/%s", name)), file);
    }
    CHECK_INT(files, 197);
    json_free(root);
    image_free(&image);
}

/* --- pictures made here -------------------------------------------------------------------------
 */

/* Decodes and frees the bytes. */
static enum status decode(struct image *image, struct bytes *b, const struct decode_options *o,
                          struct decode_facts *facts, struct error *err)
{
    enum status status = image_decode(image, b->data, b->size, "a/picture", o, facts, err);
    bytes_free(b);
    return status;
}

/* Decodes what must be fine, frees the bytes; the image is valid until the next call. */
static const struct image *decoded(struct bytes *b, const struct decode_options *o,
                                   struct decode_facts *facts)
{
    static struct image image;
    struct error err;
    CHECK_OK(decode(&image, b, o, facts, &err), err);
    return &image;
}

/* The message of decoding what must be refused; frees the bytes. */
static const char *refusal(struct bytes *b, const struct decode_options *o)
{
    static struct error err;
    struct image image = {0};
    CHECK_INT(decode(&image, b, o, NULL, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "a/picture: ");
    image_free(&image);
    return err.text;
}

static void check_pixels(const struct image *image, int width, int height, const char *want)
{
    CHECK_INT(image->width, width);
    CHECK_INT(image->height, height);
    for (int i = 0; i < 3 * width * height; i++) {
        test_about("value %d", i);
        CHECK_INT(image->rgb[i], (unsigned char)want[i]);
    }
}

/* A PNG from its parts: `extra` chunks (a palette, transparency) stand before the data. */
static struct bytes png_of(int width, int height, int depth, int type, const char *rows,
                           size_t rows_size, const char *chunk, const char *content, size_t size)
{
    struct bytes b = {0};
    png_signature(&b);
    png_header(&b, width, height, depth, type);
    if (type == PNG_PALETTE)
        png_chunk(&b, "PLTE", "\x0a\x14\x1e\x28\x32\x3c", 6);
    if (chunk)
        png_chunk(&b, chunk, content, size);
    png_data(&b, rows, rows_size);
    png_end(&b);
    return b;
}

TEST(decode__every_kind_of_png_becomes_rgb)
{
    struct bytes b = png_of(2, 1, 8, PNG_RGB, "\0\1\2\3\4\5\6", 7, NULL, NULL, 0);
    check_pixels(decoded(&b, &usual, NULL), 2, 1, "\1\2\3\4\5\6");
    b = png_of(2, 1, 2, PNG_GREY, "\0\x60", 2, NULL, NULL, 0);
    check_pixels(decoded(&b, &usual, NULL), 2, 1, "\x55\x55\x55\xaa\xaa\xaa");
    b = png_of(2, 1, 1, PNG_PALETTE, "\0\x40", 2, NULL, NULL, 0);
    check_pixels(decoded(&b, &usual, NULL), 2, 1, "\x0a\x14\x1e\x28\x32\x3c");
    /* 16 bits: 0x0080 rounds to 0, 0x0081 to 1 (129 x 255 / 65535 = 0.502). */
    b = png_of(2, 1, 16, PNG_GREY, "\0\0\x80\0\x81", 5, NULL, NULL, 0);
    check_pixels(decoded(&b, &usual, NULL), 2, 1, "\0\0\0\1\1\1");
}

TEST(decode__colour_under_transparent_pixels_counts)
{
    struct bytes b = png_of(1, 1, 8, PNG_RGB_ALPHA, "\0\x64\x65\x66\0", 5, NULL, NULL, 0);
    check_pixels(decoded(&b, &usual, NULL), 1, 1, "\x64\x65\x66");
    b = png_of(1, 1, 8, PNG_GREY_ALPHA, "\0\x64\1", 3, NULL, NULL, 0);
    check_pixels(decoded(&b, &usual, NULL), 1, 1, "\x64\x64\x64");
    b = png_of(2, 1, 1, PNG_PALETTE, "\0\x40", 2, "tRNS", "\0\x80", 2);
    check_pixels(decoded(&b, &usual, NULL), 2, 1, "\x0a\x14\x1e\x28\x32\x3c");
    b = png_of(1, 1, 8, PNG_RGB, "\0\1\2\3", 4, "tRNS", "\0\1\0\2\0\3", 6);
    check_pixels(decoded(&b, &usual, NULL), 1, 1, "\1\2\3");
}

TEST(decode__gamma_is_ignored)
{
    struct bytes b = png_of(1, 1, 8, PNG_GREY, "\0\x64", 2, "gAMA", "\0\0\1\0", 4);
    check_pixels(decoded(&b, &usual, NULL), 1, 1, "\x64\x64\x64");
}

/* A JPEG of 16 x 8 pixels whose left half is red, the right one blue. */
static struct bytes two_halves(int orientation)
{
    uint8_t pixels[8 * 16 * 3] = {0};
    for (int i = 0; i < 8 * 16; i++)
        pixels[3 * i + (i % 16 < 8 ? 0 : 2)] = 250;
    return jpeg_picture(pixels, 16, 8, 3, (struct jpeg_how){100, orientation, false});
}

/* 'r' or 'b' at a pixel. */
static char colour_at(const struct image *image, int x, int y)
{
    const uint8_t *p = image->rgb + 3 * (y * image->width + x);
    return p[0] > 200 && p[2] < 50 ? 'r' : p[2] > 200 && p[0] < 50 ? 'b' : '?';
}

TEST(decode__exif_orientation_stands_the_picture_upright)
{
    /* Colour of the corners: top left, top right, bottom left. */
    static const char *const corners[9] = {"rbr", "rbr", "brb", "brb", "rbr",
                                           "rrb", "rrb", "bbr", "bbr"};
    for (int orientation = 0; orientation <= 8; orientation++) {
        test_about("orientation %d", orientation);
        struct bytes b = two_halves(orientation);
        struct decode_facts facts;
        const struct image *image = decoded(&b, &usual, &facts);
        bool turned = orientation >= 5;
        CHECK_INT(image->width, turned ? 8 : 16);
        CHECK_INT(image->height, turned ? 16 : 8);
        CHECK_INT(facts.width, image->width);
        CHECK_INT(colour_at(image, 0, 0), corners[orientation][0]);
        CHECK_INT(colour_at(image, image->width - 1, 0), corners[orientation][1]);
        CHECK_INT(colour_at(image, 0, image->height - 1), corners[orientation][2]);
    }
    const struct decode_options plain = {.exif = false, .max_pixels = DECODE_MAX_PIXELS};
    struct bytes b = two_halves(6);
    const struct image *image = decoded(&b, &plain, NULL);
    CHECK_INT(image->width, 16);
    CHECK_INT(colour_at(image, 0, 0), 'r');
}

/* Every orientation of a picture in which no two pixels are alike. */
TEST(decode__orientations_of_an_exif_chunk)
{
    static const char *const want[9] = {
        "123456", "123456", "321654", "654321", "456123",
        "142536", "415263", "635241", "362514",
    };
    for (int orientation = 1; orientation <= 8; orientation++) {
        test_about("orientation %d", orientation);
        char tiff[] = "II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\0\0\0\0\0\0\0\0";
        tiff[18] = (char)orientation;
        struct bytes b = png_of(3, 2, 8, PNG_GREY, "\0" "123" "\0" "456", 8, "eXIf", tiff,
                                sizeof tiff - 1);
        const struct image *image = decoded(&b, &usual, NULL);
        CHECK_INT(image->width, orientation >= 5 ? 2 : 3);
        for (int i = 0; i < 6; i++)
            CHECK_INT(image->rgb[3 * i], want[orientation][i]);
    }
}

TEST(decode__jpeg_may_come_out_smaller_but_never_too_small)
{
    enum { W = 200, H = 120 };
    static uint8_t pixels[W * H];
    static const struct {
        int least_width, least_height, orientation, width, height;
    } cases[] = {
        {0, 0, 0, 200, 120},  {200, 120, 0, 200, 120}, {101, 10, 0, 200, 120},
        {100, 60, 0, 100, 60}, {50, 31, 0, 100, 60},   {50, 30, 0, 50, 30},
        {1, 1, 0, 25, 15},     {60, 100, 6, 60, 100},  {61, 100, 6, 120, 200},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_about("case %zu", i);
        struct decode_options o = usual;
        struct decode_facts facts;
        o.least_width = cases[i].least_width;
        o.least_height = cases[i].least_height;
        struct bytes b =
            jpeg_picture(pixels, W, H, 1, (struct jpeg_how){90, cases[i].orientation, false});
        const struct image *image = decoded(&b, &o, &facts);
        CHECK_INT(image->width, cases[i].width);
        CHECK_INT(image->height, cases[i].height);
        CHECK_INT(facts.width, cases[i].orientation ? H : W);
    }
}

/* Pixels that do not compress to nothing. */
static const uint8_t *noise(void)
{
    static uint8_t pixels[64 * 64];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof pixels; i++) {
        x = x * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)(x >> 24);
    }
    return pixels;
}

TEST(decode__a_cut_at_any_byte_is_an_error_or_the_whole_picture)
{
    for (int kind = 0; kind < 3; kind++) {
        struct jpeg_how how = {80, 0, kind == 2};
        struct bytes whole = kind ? jpeg_picture(noise(), 64, 64, 1, how)
                                  : png_picture(noise(), 64, 64, 1);
        struct bytes copy = {0};
        bytes_add(&copy, whole.data, whole.size);
        struct image full = {0};
        struct error err;
        CHECK_OK(decode(&full, &copy, &usual, NULL, &err), err);
        int failed = 0;
        for (size_t size = 0; size < whole.size; size += size + 200 < whole.size ? 37 : 1) {
            test_about("kind %d, %zu of %zu bytes", kind, size, whole.size);
            struct image part = {0};
            enum status status =
                image_decode(&part, whole.data, size, "a/picture", &usual, NULL, &err);
            CHECK(!status || status == ERR_INPUT);
            failed += status != OK;
            if (!status)
                CHECK(memcmp(part.rgb, full.rgb, 3 * 64 * 64) == 0);
            image_free(&part);
        }
        CHECK(failed > 50);
        bytes_free(&whole);
        image_free(&full);
    }
}

TEST(decode__a_changed_byte_of_a_png_never_passes)
{
    struct bytes b = png_picture(noise(), 64, 64, 1);
    struct image image = {0};
    struct error err;
    for (size_t at = 8; at < b.size - 12; at += 61) {
        test_about("byte %zu", at);
        b.data[at] ^= 0x10;
        CHECK_INT(image_decode(&image, b.data, b.size, "a/picture", &usual, NULL, &err), ERR_INPUT);
        b.data[at] ^= 0x10;
    }
    bytes_free(&b);
    image_free(&image);
}

TEST(decode__claims_of_size_are_checked_before_memory_is_taken)
{
    struct bytes b = png_of(60000, 60000, 8, PNG_RGB, "\0", 1, NULL, NULL, 0);
    const char *text = refusal(&b, &usual);
    CHECK_CONTAINS(text, "60000 x 60000");
    CHECK_CONTAINS(text, "data.max_pixels");
    b = png_of(10000, 10000, 8, PNG_RGB, "\0", 1, NULL, NULL, 0);
    CHECK_CONTAINS(refusal(&b, &usual), "can hold");
    uint8_t one = 0;
    b = jpeg_picture(&one, 1, 1, 1, (struct jpeg_how){90, 0, false});
    for (size_t i = 0; i + 8 < b.size; i++) /* the frame header: height and width */
        if (b.data[i] == 0xff && b.data[i + 1] == 0xc0)
            memcpy(b.data + i + 5, "\x20\0\x20\0", 4);
    CHECK_CONTAINS(refusal(&b, &usual), "8192 x 8192");
    const struct decode_options small = {.max_pixels = 5};
    b = png_of(2, 3, 8, PNG_GREY, "\0..\0..\0..", 9, NULL, NULL, 0);
    CHECK_CONTAINS(refusal(&b, &small), "more than the 5 that are allowed");
}

TEST(decode__what_is_no_picture_is_called_by_its_name)
{
    static const struct {
        const char *start, *part;
    } cases[] = {
        {"", "empty"},
        {"GIF89a.", "a GIF"},
        {"<!DOCTYPE html><html>", "a web page"},
        {"version https://git-lfs.github.com/spec/v1", "Git LFS"},
        {"\x89PNG\n\x1a\n", "damaged"},
        {"hello", "neither a PNG nor a JPEG"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bytes b = {0};
        bytes_add(&b, cases[i].start, strlen(cases[i].start));
        CHECK_CONTAINS(refusal(&b, &usual), cases[i].part);
    }
}

TEST(decode__room_is_used_again)
{
    struct image image = {0};
    struct error err;
    struct bytes b = png_picture(noise(), 64, 64, 1);
    CHECK_OK(decode(&image, &b, &usual, NULL, &err), err);
    const uint8_t *room = image.rgb;
    b = png_picture(noise(), 5, 3, 1);
    CHECK_OK(decode(&image, &b, &usual, NULL, &err), err);
    CHECK(image.rgb == room);
    CHECK_INT(image.width, 5);
    CHECK_INT(image.rgb[2], noise()[0]);
    image_free(&image);
}
