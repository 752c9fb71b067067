/* picture.c - one picture: what it is, and enough of its pixels to compare decoders by. */
#include "cli/picture.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/output.h"
#include "io/decode.h"

bool picture_is_one(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    const char *dot = strrchr(path, '.');
    if (dot && (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
                strcasecmp(dot, ".jpeg") == 0))
        return true;
    uint8_t head[16];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(head, 1, sizeof head, file) : 0;
    if (file)
        fclose(file);
    return decode_format(head, size) != NULL;
}

static void mean_colour(double mean[3], const struct image *image)
{
    uint64_t sum[3] = {0};
    size_t pixels = (size_t)image->width * (size_t)image->height;
    for (size_t p = 0; p < pixels; p++)
        for (size_t c = 0; c < 3; c++)
            sum[c] += image->rgb[3 * p + c];
    for (int c = 0; c < 3; c++)
        mean[c] = (double)sum[c] / (double)pixels;
}

static enum status picture_json(const struct decode_facts *facts, const uint8_t *center,
                                const double *mean, struct error *err)
{
    struct json *j = json_create();
    if (!j)
        return error_memory(err, 0);
    json_object(j, NULL);
    json_string(j, "format", facts->format);
    json_int(j, "width", facts->width);
    json_int(j, "height", facts->height);
    json_array(j, "center_rgb");
    for (int c = 0; c < 3; c++)
        json_int(j, NULL, center[c]);
    json_end(j);
    json_array(j, "mean_rgb");
    for (int c = 0; c < 3; c++)
        json_number(j, NULL, mean[c]);
    json_end(j);
    json_end(j);
    enum status status = output_json(j, err);
    json_destroy(j);
    return status;
}

enum status picture_show(const char *path, bool as_json, struct error *err)
{
    const struct decode_options options = {.exif = true, .max_pixels = DECODE_MAX_PIXELS};
    struct decode_facts facts;
    struct image image = {0};
    enum status status = image_decode_file(&image, path, &options, &facts, err);
    if (!status) {
        size_t middle = (size_t)(image.height / 2) * (size_t)image.width + (size_t)image.width / 2;
        const uint8_t *center = image.rgb + 3 * middle;
        double mean[3];
        mean_colour(mean, &image);
        if (facts.warning[0])
            output_warning("%s: %s", path, facts.warning);
        if (as_json)
            status = picture_json(&facts, center, mean, err);
        else
            printf("%s: %s, %d x %d, centre (%d, %d, %d), mean (%.1f, %.1f, %.1f)\n", path,
                   facts.format, facts.width, facts.height, center[0], center[1], center[2],
                   mean[0], mean[1], mean[2]);
    }
    image_free(&image);
    return status;
}
