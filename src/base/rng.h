/* rng.h - random numbers without state: each is a function of (seed, stream, step, sample, index).
 *
 * A stream is a purpose and a name ("init:blocks.0.attn.qkv.weight", "drop_path:blocks.3",
 * "augment"), so that what one part of the program draws never depends on what another part, thread
 * or slice drew before. The generator is Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As
 * Easy as 1, 2, 3", SC 2011): the key is a hash of seed and stream, the counter holds step, sample
 * and index. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* Key of the stream `name` under `seed`. */
uint64_t rng_stream(uint64_t seed, const char *name);

/* 64 random bits. */
uint64_t rng_bits(uint64_t stream, uint64_t step, uint64_t sample, uint64_t index);

/* Uniform in the open interval (0, 1). */
double rng_uniform(uint64_t stream, uint64_t step, uint64_t sample, uint64_t index);

/* Standard normal (the inverse of the distribution function, at a uniform number). */
double rng_normal(uint64_t stream, uint64_t step, uint64_t sample, uint64_t index);

/* A whole number in 0..n-1, n > 0. */
uint64_t rng_below(uint64_t stream, uint64_t step, uint64_t sample, uint64_t index, uint64_t n);

/* Four 32-bit words at once, for kernels that need many numbers: block `index` of the sample. */
void rng_block(uint32_t out[4], uint64_t stream, uint64_t step, uint64_t sample, uint64_t index);

/* order[0..n-1] = a permutation of 0..n-1 (Fisher-Yates with the numbers of (stream, step)). */
void rng_permutation(size_t *order, size_t n, uint64_t stream, uint64_t step);

#endif
