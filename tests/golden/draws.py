"""The program's random numbers, from their description in src/base/rng.h: Philox4x32-10 (Salmon et al.,
SC 2011) keyed by seed and stream, and the inverse of the normal distribution function. Golden cases of
layers that draw noise in training need the same draws.
"""

import statistics

import torch

SEED = 5  # of the tests' graphs
MASK = 0xFFFFFFFF


def stream(name, seed=SEED):
    """Key of a stream: FNV-1a over the seed's eight bytes and the name, splitmix64's finaliser."""
    h, full = 0xCBF29CE484222325, (1 << 64) - 1
    for byte in seed.to_bytes(8, "little") + name.encode():
        h = (h ^ byte) * 0x100000001B3 & full
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & full
    h = (h ^ h >> 27) * 0x94D049BB133111EB & full
    return h ^ h >> 31


def block(key, step, sample, index):
    """Four 32-bit words; of the counter's 128 bits 48 are the index, 40 the sample, 40 the step."""
    count = index | sample << 48 | step << 88
    c = [count >> 32 * i & MASK for i in range(4)]
    k = [key & MASK, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & MASK, a >> 32 ^ c[3] ^ k[1], a & MASK]
        k = [k[0] + 0x9E3779B9 & MASK, k[1] + 0xBB67AE85 & MASK]
    return c


def normal(key, step, sample, index):
    c = block(key, step, sample, index)
    uniform = ((c[0] << 32 | c[1]) >> 12) + 0.5
    return statistics.NormalDist().inv_cdf(uniform * 2.0 ** -52)


def rows(name, sample, H, count, d):
    """(H, count, d): number (h count + r) d + i of the stream in row r of head h, at step 0."""
    key = stream(name)
    return torch.tensor([normal(key, 0, sample, i) for i in range(H * count * d)],
                        dtype=torch.float64).reshape(H, count, d)
