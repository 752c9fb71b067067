/* test_hash.c - checksums against published values. */
#include "base/hash.h"

#include "test.h"

TEST(hash_crc32__gives_the_check_value)
{
    CHECK_INT(hash_crc32(0, "123456789", 9), 0xcbf43926);
    CHECK_INT(hash_crc32(0, "", 0), 0);
    CHECK_INT(hash_crc32(0, "\xff\xff\xff\xff", 4), 0xffffffff);
}

TEST(hash_crc32__continues_over_pieces)
{
    CHECK_INT(hash_crc32(hash_crc32(0, "1234", 4), "56789", 5), 0xcbf43926);
}

/* Long pieces go another way than short ones. */
TEST(hash_crc32__is_the_same_in_one_piece_and_in_many)
{
    enum { SIZE = 70003 };
    static uint8_t data[SIZE];
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (uint8_t)(i * 167 >> 3);
    for (size_t size = SIZE - 9; size <= SIZE; size++) {
        uint32_t crc = 0;
        for (size_t at = 0; at < size; at += 1000)
            crc = hash_crc32(crc, data + at, size - at < 1000 ? size - at : 1000);
        CHECK_INT(hash_crc32(0, data, size), crc);
    }
}

TEST(hash_fnv__gives_published_values)
{
    CHECK(hash_fnv(HASH_START, "", 0) == 0xcbf29ce484222325u);
    CHECK(hash_fnv(HASH_START, "a", 1) == 0xaf63dc4c8601ec8cu);
    CHECK(hash_fnv(HASH_START, "foobar", 6) == 0x85944171f73967e8u);
    CHECK(hash_fnv(hash_fnv(HASH_START, "foo", 3), "bar", 3) == 0x85944171f73967e8u);
}
