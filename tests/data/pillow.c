/* pillow.c - see pillow.h. */
#include "pillow.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "test.h"

static int number(const struct json_value *object, const char *key)
{
    return (int)json_to_number(json_member(object, key));
}

static int item(const struct json_value *object, const char *key, int i)
{
    const struct json_value *v = json_first(json_member(object, key));
    for (; i > 0 && v; i--)
        v = json_next(v);
    CHECK(v != NULL);
    return (int)json_to_number(v);
}

static void room(struct image *image, int width, int height)
{
    struct error err;
    CHECK_OK(image_room(image, width, height, &err), err);
}

static void fill(struct image *image, int seed, int low, int high)
{
    for (int y = 0; y < image->height; y++)
        for (int x = 0; x < image->width; x++)
            for (int c = 0; c < 3; c++)
                image->rgb[3 * (y * image->width + x) + c] =
                    (uint8_t)(low + (3 * x * x + 5 * y * y + 7 * x * y + 29 * c + 13 * seed) %
                                        (high - low + 1));
}

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static void run(const struct json_value *v, void (*check)(const struct pillow_case *c))
{
    const struct json_value *value = json_member(v, "value"), *rows = json_member(v, "rows");
    const struct json_value *list = json_member(v, json_member(v, "box") ? "box" : "matrix");
    double numbers[6] = {0};
    int count = 0;
    for (const struct json_value *n = list ? json_first(list) : NULL; n; n = json_next(n))
        numbers[count++] = json_to_number(n);
    struct pillow_case c = {
        .op = json_to_string(json_member(v, "op")),
        .filter = json_member(v, "filter") ? json_to_string(json_member(v, "filter")) : NULL,
        .value = value ? json_to_number(value) : 0,
        .list = list ? numbers : NULL,
        .width = item(v, "to", 0),
        .height = item(v, "to", 1),
    };
    c.rows = c.height;
    room(&c.from, item(v, "from", 0), item(v, "from", 1));
    fill(&c.from, number(v, "seed"), number(v, "low"), number(v, "high"));
    if (rows)
        c.height = c.from.height;
    const char *hex = json_to_string(json_member(v, "pixels"));
    size_t size = 3 * (size_t)c.width * (size_t)c.rows;
    CHECK_INT(strlen(hex), 2 * size);
    c.pixels = malloc(size);
    CHECK(c.pixels != NULL);
    for (size_t i = 0; i < size; i++)
        c.pixels[i] = (uint8_t)(16 * digit(hex[2 * i]) + digit(hex[2 * i + 1]));
    test_about("%s %g, filter %s, of %dx%d", c.op, c.value, c.filter ? c.filter : "none",
               c.from.width, c.from.height);
    check(&c);
    free(c.pixels);
    image_free(&c.from);
}

int pillow_walk(const char *name, void (*check)(const struct pillow_case *c))
{
    char *text;
    size_t size;
    struct json_value *root;
    struct error err;
    int cases = 0;
    const char *path = test_text("tests/golden/cases/pillow_%s.json", name);
    CHECK_OK(file_read(&text, &size, path, 1 << 20, &err), err);
    CHECK_OK(json_parse(&root, text, size, &err), err);
    for (const struct json_value *v = json_first(json_member(root, "cases")); v; v = json_next(v)) {
        run(v, check);
        cases++;
    }
    json_free(root);
    free(text);
    return cases;
}

int pillow_difference(const struct pillow_case *c, const struct image *got)
{
    int most = 0;
    CHECK_INT(got->width, c->width);
    CHECK_INT(got->height, c->height);
    for (int i = 0; i < 3 * c->width * c->rows; i++) {
        int difference = abs(got->rgb[i] - c->pixels[i]);
        most = difference > most ? difference : most;
    }
    return most;
}

struct image pillow_copy(const struct image *from)
{
    struct image copy = {0};
    room(&copy, from->width, from->height);
    memcpy(copy.rgb, from->rgb, 3 * (size_t)from->width * (size_t)from->height);
    return copy;
}
