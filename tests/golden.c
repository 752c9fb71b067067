/* golden.c - see golden.h. */
#include "golden.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "test.h"

enum { CASES = 1024 };

/* --- the formula --------------------------------------------------------------------------------
 */

double golden_unit(const char *name, uint32_t j)
{
    uint32_t h = 0x811C9DC5u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x01000193u;
    h += j * 0x9E3779B9u;
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    h ^= h >> 16;
    return ((double)((h >> 8) & 0xFFFFu) - 32767.5) / 65536.0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), n = strlen(end);
    return length >= n && strcmp(text + length - n, end) == 0;
}

static double weight_scale(const char *name, const struct shape *shape)
{
    size_t fan_in = shape_count(shape) / (size_t)shape->dim[0];
    if (ends_with(name, "align.weight"))
        fan_in = (size_t)shape->dim[shape->rank - 1];
    double scale = 2;
    for (size_t power = 4; power <= fan_in; power *= 4)
        scale /= 2;
    return scale;
}

double golden_entry(const char *name, const struct shape *shape, uint32_t j)
{
    double u = golden_unit(name, j);
    if (strcmp(name, "x") == 0 || strncmp(name, "x.", 2) == 0)
        return 4 * u;
    if (ends_with(name, "bias"))
        return u / 2;
    if (ends_with(name, "weight"))
        return shape->rank == 1 ? 1 + u / 2 : weight_scale(name, shape) * u;
    return u;
}

void golden_fill(real *to, const char *name, const struct shape *shape)
{
    size_t n = shape_count(shape);
    for (size_t j = 0; j < n; j++)
        to[j] = (real)golden_entry(name, shape, (uint32_t)j);
}

/* --- reading ------------------------------------------------------------------------------------
 */

struct json_value *golden_load(const char *path)
{
    struct error error;
    struct json_value *root;
    char *text;
    size_t size;
    CHECK_OK(file_read(&text, &size, path, 1 << 20, &error), error);
    CHECK_OK(json_parse(&root, text, size, &error), error);
    free(text);
    return root;
}

const struct json_value *golden_member(const struct json_value *object, const char *key)
{
    const struct json_value *v = json_member(object, key);
    if (!v)
        test_about("%s is missing", key);
    CHECK(v != NULL);
    return v;
}

struct shape golden_shape(const struct json_value *list)
{
    struct shape shape = {0};
    for (const struct json_value *v = json_first(list); v; v = json_next(v)) {
        CHECK(shape.rank < MAX_RANK);
        shape.dim[shape.rank++] = (int)json_to_number(v);
    }
    return shape;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *const *golden_cases(const char *kind)
{
    static const char *paths[CASES + 1];
    const char *directory = "tests/golden/cases";
    int count = 0;
    DIR *d = opendir(directory);
    CHECK(d != NULL);
    for (struct dirent *entry; (entry = readdir(d));) {
        if (!ends_with(entry->d_name, ".json"))
            continue;
        const char *path = test_text("%s/%s", directory, entry->d_name);
        struct json_value *root = golden_load(path);
        if (strcmp(json_to_string(golden_member(root, "kind")), kind) == 0 && count < CASES)
            paths[count++] = path;
        json_free(root);
    }
    closedir(d);
    qsort(paths, (size_t)count, sizeof *paths, by_name);
    paths[count] = NULL;
    return paths;
}

/* The value again as text, for the reader of configs. */
static void write_json(struct json *to, const char *key, const struct json_value *v)
{
    switch (json_type(v)) {
    case JSON_NULL:
        json_null(to, key);
        break;
    case JSON_BOOL:
        json_bool(to, key, json_to_bool(v));
        break;
    case JSON_NUMBER:
        json_number(to, key, json_to_number(v));
        break;
    case JSON_STRING:
        json_string(to, key, json_to_string(v));
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        if (json_type(v) == JSON_ARRAY)
            json_array(to, key);
        else
            json_object(to, key);
        for (const struct json_value *child = json_first(v); child; child = json_next(child))
            write_json(to, json_key(child), child);
        json_end(to);
    }
}

const char *golden_config(const struct json_value *root)
{
    struct json *text = json_create();
    CHECK(text != NULL);
    write_json(text, NULL, golden_member(root, "config"));
    const char *kept = test_text("%s", json_text(text));
    json_destroy(text);
    return kept;
}

/* --- comparing ----------------------------------------------------------------------------------
 */

/* |error| as the two random projections show it: each is, on average, sqrt(4/3) |error| in size. */
static double projected_error(const struct json_value *stored, const char *name, const real *t,
                              size_t n)
{
    double squares = 0;
    int which = 1;
    for (const struct json_value *p = json_first(golden_member(stored, "proj")); p;
         p = json_next(p), which++) {
        const char *r = test_text("%s#%d", name, which);
        double sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += 4 * golden_unit(r, (uint32_t)j) * (double)t[j];
        squares += (sum - json_to_number(p)) * (sum - json_to_number(p));
    }
    CHECK_INT(which, 3);
    return sqrt(3.0 / 8 * squares);
}

/* |error| of the entries that are stored. */
static double sampled_error(const struct json_value *stored, const real *t, size_t n)
{
    double squares = 0;
    const struct json_value *value = json_first(golden_member(stored, "values"));
    CHECK(value != NULL);
    for (const struct json_value *at = json_first(golden_member(stored, "at")); at;
         at = json_next(at)) {
        size_t j = (size_t)json_to_number(at);
        CHECK(value && j < n);
        double difference = (double)t[j] - json_to_number(value);
        squares += difference * difference;
        value = json_next(value);
    }
    return sqrt(squares);
}

void golden_check_values(const struct json_value *stored, const real *t, size_t n, double allowed)
{
    double sum = 0, squares = 0;
    for (size_t j = 0; j < n; j++) {
        sum += (double)t[j];
        squares += (double)t[j] * (double)t[j];
    }
    CHECK_NEAR(sqrt(squares), json_to_number(golden_member(stored, "norm")), allowed);
    CHECK_NEAR(sum, json_to_number(golden_member(stored, "sum")), allowed * sqrt((double)n));
    CHECK_NEAR(projected_error(stored, json_key(stored), t, n), 0, allowed);
    CHECK_NEAR(sampled_error(stored, t, n), 0, allowed);
}
