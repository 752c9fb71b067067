/* test_safetensors.c - what is written is read again, and files that lie are refused. */
#include "io/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "test.h"

/* Writes a file with the header as given, padded by nothing, and `data_size` bytes 0, 1, 2, ... */
static const char *make_file(const char *header, size_t data_size)
{
    struct error err;
    const char *path = test_text("%s/a.safetensors", test_directory());
    uint64_t length = strlen(header);
    unsigned char *data = malloc(data_size + 1);
    CHECK(data);
    for (size_t i = 0; i < data_size; i++)
        data[i] = (unsigned char)i;
    struct file_part parts[] = {{&length, 8}, {header, length}, {data, data_size}};
    enum status status = file_write_parts(path, parts, 3, &err);
    free(data);
    CHECK_OK(status, err);
    return path;
}

static const char *make_raw(const void *bytes, size_t size)
{
    struct error err;
    const char *path = test_text("%s/a.safetensors", test_directory());
    CHECK_OK(file_write(path, bytes, size, &err), err);
    return path;
}

/* Opening fails with a message of one line that names the file and holds `part`. */
static void check_refused(const char *path, const char *part)
{
    struct error err;
    struct st_file *f = NULL;
    enum status status = st_open(&f, path, &err);
    if (!status)
        st_close(f);
    CHECK_INT(status, ERR_INPUT);
    CHECK_CONTAINS(err.text, path);
    CHECK_CONTAINS(err.text, part);
    CHECK(!strpbrk(err.text, "\n\x1b"));
}

static void check_header_refused(const char *header, size_t data_size, const char *part)
{
    test_about("%s", header);
    check_refused(make_file(header, data_size), part);
}

TEST(safetensors__written_is_read)
{
    struct error err;
    const char *path = test_text("%s/a.safetensors", test_directory());
    const float a[6] = {1, -2, 3.5f, INFINITY, 0, 1e-40f};
    const double b[1] = {1.0 / 3};
    const int64_t c[2] = {-1, INT64_MAX};
    const unsigned char d[3] = {1, 2, 255};
    struct st_tensor tensors[] = {
        {.name = "bytes", .dtype = DTYPE_U8, .rank = 1, .shape = {3}, .count = 3, .data = d},
        {.name = "a", .dtype = DTYPE_F32, .rank = 2, .shape = {2, 3}, .count = 6, .data = a},
        {.name = "scalar", .dtype = DTYPE_F64, .rank = 0, .count = 1, .data = b},
        {.name = "y \"1\"\n", .dtype = DTYPE_I64, .rank = 1, .shape = {2}, .count = 2, .data = c},
        {.name = "empty", .dtype = DTYPE_F32, .rank = 2, .shape = {0, 7}, .count = 0, .data = a},
    };
    struct st_pair pairs[] = {{"config", "{\"seed\": 1}"}, {"version", "\xc3\xa9"}};
    CHECK_OK(st_write(path, tensors, 5, pairs, 2, &err), err);

    struct st_file *f = NULL;
    CHECK_OK(st_open(&f, path, &err), err);
    CHECK_INT(st_count(f), 5);
    CHECK_STR(st_metadata(f, "config"), "{\"seed\": 1}");
    CHECK_STR(st_metadata(f, "version"), "\xc3\xa9");
    CHECK_STR(st_metadata(f, "nothing"), NULL);
    for (int i = 0; i < 5; i++) {
        const struct st_tensor *t = st_find(f, tensors[i].name);
        CHECK(t);
        test_about("%d", i);
        CHECK_INT(t->dtype, tensors[i].dtype);
        CHECK_INT(t->rank, tensors[i].rank);
        CHECK_INT(t->count, tensors[i].count);
        for (int r = 0; r < t->rank; r++)
            CHECK_INT(t->shape[r], tensors[i].shape[r]);
        size_t size[] = {1, 4, 8, 8, 4};
        CHECK(memcmp(t->data, tensors[i].data, t->count * size[i]) == 0);
        CHECK_INT((uintptr_t)t->data % size[i], 0);
    }
    CHECK(!st_find(f, "b"));
    CHECK(!st_find(f, "__metadata__"));
    CHECK_STR(st_at(f, 4)->name, "bytes");
    st_close(f);
}

TEST(safetensors__without_tensors_is_fine)
{
    struct error err;
    struct st_file *f = NULL;
    const char *path = test_text("%s/a.safetensors", test_directory());
    CHECK_OK(st_write(path, NULL, 0, NULL, 0, &err), err);
    CHECK_OK(st_open(&f, path, &err), err);
    CHECK_INT(st_count(f), 0);
    CHECK_STR(st_metadata(f, "x"), NULL);
    CHECK(!st_find(f, "x"));
    st_close(f);
}

TEST(safetensors__foreign_layout_is_read)
{
    /* Header not padded, data out of the header's order and not aligned, unknown members. */
    struct error err;
    struct st_file *f = NULL;
    const char *path =
        make_file("{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3],\"more\":[]},"
                  "\"c\":{\"data_offsets\":[11,12],\"dtype\":\"BOOL\",\"shape\":[1,1]},"
                  "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[3,11]},"
                  "\"__metadata__\":{\"format\":\"pt\"}}   ",
                  12);
    CHECK_OK(st_open(&f, path, &err), err);
    CHECK_INT(st_count(f), 3);
    CHECK_STR(st_at(f, 0)->name, "b");
    CHECK_STR(st_at(f, 1)->name, "a");
    CHECK_STR(st_at(f, 2)->name, "c");
    CHECK_INT(st_at(f, 2)->dtype, DTYPE_OTHER);
    float got[2], want[2];
    const unsigned char bytes[8] = {3, 4, 5, 6, 7, 8, 9, 10};
    memcpy(want, bytes, sizeof want);
    CHECK_OK(st_to_float(got, st_at(f, 1), &err), err);
    CHECK(memcmp(got, want, sizeof want) == 0);
    CHECK_INT(st_to_float(got, st_at(f, 2), &err), ERR_INPUT);
    st_close(f);
}

TEST(safetensors__other_files_are_recognised)
{
    const char lfs[] =
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
        "size 346284714\n";
    check_refused(make_raw(lfs, strlen(lfs)), "Git LFS pointer of 134 bytes");
    check_refused(make_raw(lfs, strlen(lfs)), "346284714 bytes");
    const char html[] = "\xef\xbb\xbf \r\n<!DOCTYPE html><html><head><title>404</title>";
    check_refused(make_raw(html, strlen(html)), "is an HTML page of");
    check_refused(make_raw("<html>", 6), "is an HTML page of 6 bytes");
    check_refused(make_raw("PK\3\4\0\0\10\10\0\0archive/data.pkl", 26), "is a zip archive of 26");
    check_refused(make_raw("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", 15), "Python pickle");
    check_refused(make_raw("GGUF\3\0\0\0\1\0\0\0\0\0\0\0", 16),
                  "is not a safetensors file (16 bytes");
    check_refused(test_directory(), "is a directory");
    check_refused(test_text("%s/none", test_directory()), "No such file");
}

TEST(safetensors__short_files_are_refused)
{
    check_refused(make_raw("", 0), "has 0 bytes");
    check_refused(make_raw("\2\0\0\0\0\0\0", 7), "has 7 bytes");
    check_refused(make_raw("\2\0\0\0\0\0\0\0", 8), "a header of 2 bytes does not fit into 8 bytes");
    check_refused(make_raw("\2\0\0\0\0\0\0\0{", 9),
                  "a header of 2 bytes does not fit into 9 bytes");
    check_refused(make_raw("\0\0\0\0\0\0\0\0{}", 10), "is not a safetensors file");
    check_refused(make_raw("\377\377\377\377\377\377\377\377{}", 10), "18446744073709551615");
    check_refused(make_raw("\370\377\377\377\377\377\377\377{}", 10), "is not a safetensors file");
    check_refused(make_raw("\377\377\377\177\0\0\0\0{}", 10), "2147483647");
    check_refused(make_raw("\2\0\0\0\0\0\0\0[]", 10), "is not a safetensors file");
}

TEST(safetensors__half_a_file_tells_sizes)
{
    struct error err;
    const char *path = test_text("%s/a.safetensors", test_directory());
    float *values = calloc(1000, sizeof *values);
    CHECK(values);
    struct st_tensor t = {.name = "w", .rank = 1, .shape = {1000}, .count = 1000, .data = values};
    enum status status = st_write(path, &t, 1, NULL, 0, &err);
    free(values);
    CHECK_OK(status, err);
    int64_t size = file_size(path);
    CHECK_OK(file_truncate(path, size / 2, &err), err);
    check_refused(path, "is cut short: the header describes 4000 bytes of data");
    check_refused(path, test_text("(the file has %lld bytes)", (long long)size / 2));
    for (int64_t left = size / 2; left >= 0; left -= left > 80 ? 500 : 1) {
        test_about("%lld bytes", (long long)left);
        CHECK_OK(file_truncate(path, left, &err), err);
        check_refused(path, "");
    }
}

#define F32(name, shape, begin, end)                                                               \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

TEST(safetensors__lying_offsets_are_refused)
{
    check_header_refused("{" F32("a", "[2]", "0", "8") "}", 12, "12 bytes of data are there");
    check_header_refused("{" F32("a", "[2]", "0", "8") "}", 4, "describes 8 bytes of data, 4 are");
    check_header_refused("{" F32("a", "[2]", "4", "12") "}", 12, "a hole");
    check_header_refused("{" F32("a", "[2]", "0", "8") "," F32("b", "[1]", "4", "8") "}", 8,
                         "tensor \"b\": data begins at byte 4, an overlap: not at byte 8");
    check_header_refused("{" F32("a", "[1]", "0", "4") "," F32("b", "[1]", "0", "4") "}", 4,
                         "an overlap");
    check_header_refused("{" F32("a", "[1]", "0", "4") "," F32("b", "[1]", "8", "12") "}", 12,
                         "tensor \"b\": data begins at byte 8, a hole");
    check_header_refused("{" F32("a", "[2]", "8", "0") "}", 8, "are not [begin, end]");
    check_header_refused("{" F32("a", "[2]", "-8", "0") "}", 8, "are not [begin, end]");
    check_header_refused("{" F32("a", "[2]", "0.5", "8.5") "}", 9, "are not [begin, end]");
    check_header_refused("{" F32("a", "[2]", "0", "8,9") "}", 9, "are not [begin, end]");
    check_header_refused("{" F32("a", "[2]", "\"0\"", "8") "}", 8, "are not [begin, end]");
    check_header_refused("{" F32("a", "[2]", "0", "1e300") "}", 8, "are not [begin, end]");
    check_header_refused("{" F32("a", "[3]", "0", "8") "}", 8, "3 elements of F32 need 12");
    check_header_refused("{" F32("a", "[2]", "0", "9") "}", 9, "give 9 bytes");
    check_header_refused("{" F32("a", "[1]", "9007199254740988", "9007199254740992") "}", 8,
                         "hole");
}

TEST(safetensors__impossible_shapes_are_refused)
{
    check_header_refused("{" F32("a", "[4294967296,4294967296]", "0", "0") "}", 0, "more elements");
    check_header_refused("{" F32("a", "[9007199254740992,4096,0]", "0", "0") "}", 0, "more elem");
    check_header_refused("{" F32("a", "[4611686018427387905]", "0", "4") "}", 4, "is no size");
    check_header_refused("{" F32("a", "[-1]", "0", "4") "}", 4, "dimension 0 is no size");
    check_header_refused("{" F32("a", "[1,1.5]", "0", "4") "}", 4, "dimension 1 is no size");
    check_header_refused("{" F32("a", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "more than 8");
    check_header_refused("{" F32("a", "1", "0", "4") "}", 4, "has no shape");
    check_header_refused("{" F32("a", "[[1]]", "0", "4") "}", 4, "is no size");
}

TEST(safetensors__broken_headers_are_refused)
{
    check_header_refused("{" F32("a", "[1]", "0", "4") "," F32("a", "[1]", "4", "8") "}", 8,
                         "repeat");
    check_header_refused("{" F32("a", "[1]", "0", "4") ",", 4, "header: ");
    check_header_refused("{" F32("a", "[1]", "0", "4") "} x", 4, "header: ");
    check_header_refused("{\"a\":1}", 0, "tensor \"a\": is not an object");
    check_header_refused("{\"a\":{}}", 0, "tensor \"a\": has no dtype");
    check_header_refused("{\"a\":{\"dtype\":4}}", 0, "has no dtype");
    check_header_refused("{\"a\":{\"dtype\":\"F99\"}}", 0, "dtype \"F99\" is not known");
    check_header_refused("{\"a\\n\\u001b[2J\":{\"dtype\":\"F\\n9\"}}", 0, "tensor \"a??[2J\"");
    check_header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets are not");
    check_header_refused("{\"__metadata__\":7}", 0, "__metadata__ is not an object");
    check_header_refused("{\"__metadata__\":{\"epoch\":7}}", 0,
                         "__metadata__: \"epoch\" is not text");
    check_header_refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "repeat");
}

TEST(safetensors__half_precision_is_exact)
{
    static const struct {
        uint16_t bits;
        float f16, bf16;
    } rows[] = {
        {0x0000, 0, 0},
        {0x8000, -0.0f, -0.0f},
        {0x3c00, 1, 0.0078125f},
        {0xc000, -2, -2},
        {0x7bff, 65504, 0x1.fep+120f},
        {0x0400, 0x1p-14f, 0x1p-119f},
        {0x0001, 0x1p-24f, 0x1p-133f},
        {0x83ff, -0x1.ff8p-15f, -0x1.fep-120f},
        {0x3555, 0x1.554p-2f, 0x1.aap-21f},
        {0x7c00, INFINITY, 0x1p+121f},
        {0xfc00, -INFINITY, -0x1p+121f},
        {0x7f80, NAN, INFINITY},
        {0x7e00, NAN, 0x1p+125f},
        {0xffc0, NAN, NAN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err;
        for (int brain = 0; brain < 2; brain++) {
            struct st_tensor t = {.name = "x",
                                  .dtype = brain ? DTYPE_BF16 : DTYPE_F16,
                                  .count = 1,
                                  .data = &rows[i].bits};
            float single = 0, want = brain ? rows[i].bf16 : rows[i].f16;
            double wide = 0;
            CHECK_OK(st_to_float(&single, &t, &err), err);
            CHECK_OK(st_to_double(&wide, &t, &err), err);
            test_about("%04x as %s", (unsigned)rows[i].bits, brain ? "BF16" : "F16");
            if (isnan(want)) {
                CHECK(isnan(single) && isnan(wide));
                continue;
            }
            CHECK_NEAR(single, want, 0);
            CHECK_NEAR(wide, want, 0);
            CHECK_INT(signbit(single) != 0, signbit(want) != 0);
        }
    }
}

TEST(safetensors__numbers_are_converted_by_kind)
{
    struct error err;
    const double wide[3] = {1.0 / 3, -1e300, (double)NAN};
    const int32_t narrow[2] = {INT32_MIN, 7};
    const unsigned char bytes[2] = {0, 255};
    float singles[3];
    double doubles[3];
    int64_t whole[2];
    struct st_tensor f64 = {.name = "x", .dtype = DTYPE_F64, .count = 3, .data = wide};
    struct st_tensor i32 = {.name = "y", .dtype = DTYPE_I32, .count = 2, .data = narrow};
    struct st_tensor u8 = {.name = "z", .dtype = DTYPE_U8, .count = 2, .data = bytes};
    CHECK_OK(st_to_float(singles, &f64, &err), err);
    CHECK_NEAR(singles[0], (float)(1.0 / 3), 0);
    CHECK_NEAR(singles[1], -INFINITY, 0);
    CHECK(isnan(singles[2]));
    CHECK_OK(st_to_double(doubles, &f64, &err), err);
    CHECK_NEAR(doubles[0], 1.0 / 3, 0);
    CHECK_NEAR(doubles[1], -1e300, 0);
    CHECK_OK(st_to_int64(whole, &i32, &err), err);
    CHECK_INT(whole[0], INT32_MIN);
    CHECK_INT(whole[1], 7);
    CHECK_OK(st_to_int64(whole, &u8, &err), err);
    CHECK_INT(whole[1], 255);
    CHECK_INT(st_to_int64(whole, &f64, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "tensor \"x\": dtype is F64, not I64, I32 or U8");
    CHECK_INT(st_to_float(singles, &i32, &err), ERR_INPUT);
    CHECK_INT(st_to_double(doubles, &i32, &err), ERR_INPUT);
}

TEST(safetensors__wrong_tensors_are_not_written)
{
    struct error err;
    const float a[2] = {1, 2};
    const char *path = test_text("%s/a.safetensors", test_directory());
    struct st_tensor good = {.name = "a", .rank = 1, .shape = {2}, .count = 2, .data = a};
    struct st_tensor twice[2] = {good, good};
    CHECK_INT(st_write(path, twice, 2, NULL, 0, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "tensor \"a\": the name is repeated");
    struct st_tensor bad = good;
    bad.count = 3;
    CHECK_INT(st_write(path, &bad, 1, NULL, 0, &err), ERR_SHAPE);
    bad = good;
    bad.shape[0] = -2;
    CHECK_INT(st_write(path, &bad, 1, NULL, 0, &err), ERR_SHAPE);
    bad = good;
    bad.dtype = DTYPE_OTHER;
    CHECK_INT(st_write(path, &bad, 1, NULL, 0, &err), ERR_INPUT);
    bad = good;
    bad.name = "__metadata__";
    CHECK_INT(st_write(path, &bad, 1, NULL, 0, &err), ERR_INPUT);
    CHECK(!file_exists(path));
    CHECK_INT(st_write(test_text("%s/no/file", test_directory()), &good, 1, NULL, 0, &err), ERR_IO);
    CHECK_CONTAINS(err.text, "/no/file: cannot be written");
}
