/* test_gzip.c - plain and gzip files, whole, cut, damaged and too large. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "io/gzip.h"
#include "test.h"

enum { TEXT_BYTES = 300000 };

/* Text that neither repeats nor fits into one buffer. */
static uint8_t *sample_text(void)
{
    static uint8_t text[TEXT_BYTES];
    uint32_t x = 1;
    for (int i = 0; i < TEXT_BYTES; i++) {
        x = x * 1664525u + 1013904223u;
        text[i] = (uint8_t)("abcdefghijklmnop"[x >> 28]);
    }
    return text;
}

static const char *put(const char *name, const void *data, size_t size)
{
    const char *path = test_text("%s/%s", test_directory(), name);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    CHECK_INT(fwrite(data, 1, size, f), size);
    CHECK_INT(fclose(f), 0);
    return path;
}

/* The gzip form of `size` bytes; malloc'd. */
static uint8_t *packed(const void *data, size_t size, size_t *out_size)
{
    z_stream z = {0};
    CHECK_INT(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, size);
    uint8_t *out = malloc(room);
    CHECK(out != NULL);
    z.next_in = (unsigned char *)(uintptr_t)data;
    z.avail_in = (unsigned)size;
    z.next_out = out;
    z.avail_out = (unsigned)room;
    CHECK_INT(deflate(&z, Z_FINISH), Z_STREAM_END);
    *out_size = room - z.avail_out;
    deflateEnd(&z);
    return out;
}

static void check_reads_as(const char *path, const uint8_t *want, size_t want_size)
{
    uint8_t *data = NULL;
    size_t size = 0;
    struct error err;
    CHECK_OK(gzip_read_file(&data, &size, path, want_size, &err), err);
    CHECK_INT(size, want_size);
    CHECK(memcmp(data, want, size) == 0);
    free(data);
}

static const char *error_of(const char *path, size_t limit)
{
    static struct error err;
    uint8_t *data = NULL;
    size_t size;
    CHECK_INT(gzip_read_file(&data, &size, path, limit, &err), ERR_INPUT);
    CHECK(data == NULL);
    CHECK_CONTAINS(err.text, path);
    return err.text;
}

TEST(gzip__plain_files_read_as_they_are)
{
    check_reads_as(put("a.gz", sample_text(), TEXT_BYTES), sample_text(), TEXT_BYTES);
    check_reads_as(put("empty", "", 0), (const uint8_t *)"", 0);
    check_reads_as(put("one", "\x1f", 1), (const uint8_t *)"\x1f", 1);
}

TEST(gzip__content_decides_whatever_the_name)
{
    size_t size;
    uint8_t *gz = packed(sample_text(), TEXT_BYTES, &size);
    check_reads_as(put("a.bin", gz, size), sample_text(), TEXT_BYTES);
    check_reads_as(put("a.gz", gz, size), sample_text(), TEXT_BYTES);
    free(gz);
    gz = packed("", 0, &size);
    check_reads_as(put("empty.gz", gz, size), (const uint8_t *)"", 0);
    free(gz);
}

TEST(gzip__streams_one_behind_the_other_read_as_one)
{
    size_t first, second;
    uint8_t *a = packed(sample_text(), 1000, &first);
    uint8_t *b = packed(sample_text() + 1000, TEXT_BYTES - 1000, &second);
    uint8_t *both = malloc(first + second);
    CHECK(both != NULL);
    memcpy(both, a, first);
    memcpy(both + first, b, second);
    check_reads_as(put("a.gz", both, first + second), sample_text(), TEXT_BYTES);
    free(a);
    free(b);
    free(both);
}

TEST(gzip__pieces_of_any_size_join)
{
    size_t size;
    uint8_t *gz = packed(sample_text(), TEXT_BYTES, &size);
    const char *path = put("a", gz, size);
    free(gz);
    struct gzip_file *f;
    struct error err;
    CHECK_OK(gzip_open(&f, path, &err), err);
    CHECK(gzip_is_compressed(f));
    CHECK_INT(gzip_most_bytes(f), size * 1032);
    size_t at = 0, got = 1;
    static uint8_t piece[70001];
    for (size_t want = 1; got > 0; want = want * 5 % sizeof piece + 1) {
        CHECK_OK(gzip_read(f, piece, want, &got, &err), err);
        CHECK(got == want || at + got == TEXT_BYTES);
        CHECK(memcmp(piece, sample_text() + at, got) == 0);
        at += got;
    }
    CHECK_INT(at, TEXT_BYTES);
    gzip_close(f);
}

TEST(gzip__every_cut_is_found)
{
    size_t size;
    uint8_t *gz = packed(sample_text(), 2000, &size);
    for (size_t cut = 2; cut < size; cut += cut < size - 12 ? 37 : 1) {
        test_about("cut to %zu of %zu bytes", cut, size);
        const char *text = error_of(put("cut.gz", gz, cut), 4000);
        CHECK_CONTAINS(text, test_text("cut off after %zu bytes", cut));
    }
    free(gz);
}

TEST(gzip__damage_is_found)
{
    size_t size;
    uint8_t *gz = packed(sample_text(), 20000, &size);
    gz[size / 2] ^= 0x10;
    CHECK_CONTAINS(error_of(put("data.gz", gz, size), 40000), "damaged");
    gz[size / 2] ^= 0x10;
    gz[size - 6] ^= 1; /* the checksum */
    CHECK_CONTAINS(error_of(put("checksum.gz", gz, size), 40000), "damaged");
    gz[size - 6] ^= 1;
    gz[size - 1] ^= 1; /* the length */
    CHECK_CONTAINS(error_of(put("length.gz", gz, size), 40000), "damaged");
    gz[size - 1] ^= 1;
    gz[2] = 7; /* the method */
    CHECK_CONTAINS(error_of(put("method.gz", gz, size), 40000), "damaged");
    gz[2] = 8;
    gz = realloc(gz, size + 4);
    CHECK(gz != NULL);
    memcpy(gz + size, "junk", 4);
    CHECK_CONTAINS(error_of(put("junk.gz", gz, size + 4), 40000), "something else follows");
    free(gz);
}

TEST(gzip__a_bomb_ends_at_the_limit)
{
    enum { ZEROS = 20000000 };
    void *zeros = calloc(1, ZEROS);
    CHECK(zeros != NULL);
    size_t size;
    uint8_t *gz = packed(zeros, ZEROS, &size);
    free(zeros);
    const char *path = put("bomb", gz, size);
    free(gz);
    CHECK_CONTAINS(error_of(path, 1000000), "unpacks to more than the 1000000 bytes");
    CHECK_CONTAINS(error_of(path, ZEROS - 1), "unpacks to more than the 19999999 bytes");
    CHECK_CONTAINS(error_of(put("plain", sample_text(), 1001), 1000), "more than the 1000 bytes");
}

TEST(gzip__what_is_no_file_is_refused)
{
    const char *folder = test_directory();
    CHECK_CONTAINS(error_of(folder, 10), "folder");
    CHECK_CONTAINS(error_of(test_text("%s/none", folder), 10), "No such file");
    const char *pipe = test_text("%s/pipe", folder);
    CHECK_INT(mkfifo(pipe, 0600), 0);
    CHECK_CONTAINS(error_of(pipe, 10), "pipe");
}
