"""Inputs and weights of the golden cases: a function of tensor name and flat index, nothing stored.

README.md of this folder is the specification; the tests written in C follow the same text.
"""

import numpy as np

GOLDEN_RATIO = np.uint32(0x9E3779B9)


def fnv1a(name):
    """FNV-1a, 32 bits, of the UTF-8 bytes of `name`."""
    h = 0x811C9DC5
    for byte in name.encode("utf-8"):
        h = ((h ^ byte) * 0x01000193) & 0xFFFFFFFF
    return h


def bits(name, count):
    """The hash of (name, j) for j = 0 … count-1, as uint32."""
    with np.errstate(over="ignore"):
        h = np.arange(count, dtype=np.uint32) * GOLDEN_RATIO + np.uint32(fnv1a(name))
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return h ^ (h >> np.uint32(16))


def unit(name, count):
    """u(name, j): multiples of 1/131072 in the open interval (-1/2, 1/2), as float64."""
    low16 = (bits(name, count) >> np.uint32(8)) & np.uint32(0xFFFF)
    return (low16.astype(np.float64) - 32767.5) / 65536.0


def weight_scale(name, shape):
    """2^(1-k), k the largest whole number with 4^k <= fan-in."""
    fan_in = shape[-1] if name.endswith("align.weight") else int(np.prod(shape[1:]))
    scale = 2.0
    while fan_in >= 4:
        fan_in //= 4
        scale /= 2.0
    return scale


def offset_and_scale(name, shape):
    """A tensor's entries are offset + scale · u(name, j)."""
    if name == "x" or name.startswith("x."):
        return 0.0, 4.0
    if name.endswith("bias"):
        return 0.0, 0.5
    if name.endswith("weight"):
        return (1.0, 0.5) if len(shape) == 1 else (0.0, weight_scale(name, shape))
    return 0.0, 1.0  # cls_token, pos_embed, ls1.gamma, ls2.gamma


def tensor(name, shape):
    """The tensor `name` with `shape`, float64, every entry exact in float32."""
    offset, scale = offset_and_scale(name, shape)
    values = offset + scale * unit(name, int(np.prod(shape)))
    assert np.array_equal(values, values.astype(np.float32).astype(np.float64))
    return values.reshape(shape)


def labels(count, classes, first=0):
    """y[b] = (7 (first + b) + 3) mod classes."""
    return [(7 * (first + b) + 3) % classes for b in range(count)]


def probe(name, which, count):
    """r_j of projection `which` (1, 2) of the tensor `name`: 4 · u(name#which, j)."""
    return 4.0 * unit("%s#%d" % (name, which), count)


def sample_indices(name, count):
    """At most eight flat indices: all, or the first, the last and up to six drawn by the hash."""
    if count <= 8:
        return list(range(count))
    drawn = [int(h) % count for h in bits(name + "#at", 6)]
    return sorted({0, count - 1, *drawn})


def summary(name, values):
    """What a case file stores of one tensor."""
    array = np.asarray(values, dtype=np.float64)
    flat = array.reshape(-1)
    at = sample_indices(name, flat.size)
    return {
        "shape": list(array.shape),
        "norm": float(np.sqrt(np.sum(flat * flat))),
        "sum": float(np.sum(flat)),
        "proj": [float(np.dot(probe(name, which, flat.size), flat)) for which in (1, 2)],
        "at": at,
        "values": [float(flat[j]) for j in at],
    }
