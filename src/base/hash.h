/* hash.h - checksums of memory. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 as in zlib, gzip and PNG (reflected polynomial 0xEDB88320). Start with crc = 0; the result
 * passed on as crc continues over the next piece. Threads may call it at the same time. */
uint32_t hash_crc32(uint32_t crc, const void *data, size_t size);

#define HASH_START 0xcbf29ce484222325u /* hash of nothing */

/* 64-bit FNV-1a. Start with HASH_START; the result passed on continues over the next piece. */
uint64_t hash_fnv(uint64_t hash, const void *data, size_t size);

#endif
