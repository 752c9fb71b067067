/* hash.c - CRC-32, eight bytes at a time, and FNV-1a. */
#include "base/hash.h"

enum { LONG_SIZE = 1 << 16 }; /* bytes from which on tables pay */

/* crc32 of the sixteen values of half a byte, small enough to be read at a glance. */
static const uint32_t crc_of_nibble[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

/* The crc after its lowest byte was shifted out. */
static uint32_t crc_shift(uint32_t crc)
{
    crc = crc >> 4 ^ crc_of_nibble[crc & 15];
    return crc >> 4 ^ crc_of_nibble[crc & 15];
}

static uint32_t crc_bytes(uint32_t crc, const uint8_t *byte, size_t size)
{
    for (size_t i = 0; i < size; i++)
        crc = crc_shift(crc ^ byte[i]);
    return crc;
}

/* Eight bytes at once ("slicing"): table[k][b] is the crc of the byte b with k zero bytes behind
 * it. The tables take microseconds to make, so that none need to be kept. */
static uint32_t crc_words(uint32_t crc, const uint8_t *byte, size_t words)
{
    uint32_t table[8][256];
    for (uint32_t b = 0; b < 256; b++) {
        table[0][b] = crc_shift(b);
        for (int k = 1; k < 8; k++)
            table[k][b] = crc_shift(table[k - 1][b]);
    }
    for (const uint8_t *end = byte + 8 * words; byte < end; byte += 8) {
        crc ^= (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 |
               (uint32_t)byte[3] << 24;
        crc = table[7][crc & 0xff] ^ table[6][crc >> 8 & 0xff] ^ table[5][crc >> 16 & 0xff] ^
              table[4][crc >> 24] ^ table[3][byte[4]] ^ table[2][byte[5]] ^ table[1][byte[6]] ^
              table[0][byte[7]];
    }
    return crc;
}

uint32_t hash_crc32(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *byte = data;
    size_t words = size >= LONG_SIZE ? size / 8 : 0;
    crc = ~crc;
    if (words)
        crc = crc_words(crc, byte, words);
    return ~crc_bytes(crc, byte + 8 * words, size - 8 * words);
}

uint64_t hash_fnv(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *byte = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}
