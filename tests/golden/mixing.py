"""What the references of efficient attention and token mixers share: options, regions, heads.

A site is that of attn_layer.py. regions: (B, N), tokens of different numbers never meet; None where
all do. A site with regions has no prefix tokens, and its regions are rectangles.
"""

import torch


class Place:
    """Tokens that are mixed on their own: the whole sequence, or one region of a window."""

    def __init__(self, tokens, grid, prefix):
        self.tokens, self.grid, self.prefix = tokens, grid, prefix


def places(site, regions, b):
    """The places of sample b; a region is a map of its own in raster order."""
    if regions is None:
        return [Place(list(range(site.N)), tuple(site.grid), site.prefix)]
    assert not site.prefix
    ids, result = regions[b].tolist(), []
    for region in sorted(set(ids)):
        tokens = [t for t in range(site.N) if ids[t] == region]
        rows = len({t // site.grid[1] for t in tokens})
        columns = len({t % site.grid[1] for t in tokens})
        assert rows * columns == len(tokens), "a region is no rectangle"
        result.append(Place(tokens, (rows, columns), 0))
    return result


def by_region(site, regions, mix, *tensors):
    """Runs `mix` on each place alone and puts the tokens in their order again.

    tensors: (B, ..., N, c). mix(place, *parts) gets (..., n, c) of one sample, returns (..., n, e).
    """
    samples = []
    for b in range(tensors[0].shape[0]):
        outputs, order = [], []
        for place in places(site, regions, b):
            outputs.append(mix(place, *[t[b][..., place.tokens, :] for t in tensors]))
            order += place.tokens
        back = sorted(range(site.N), key=order.__getitem__)
        samples.append(torch.cat(outputs, -2)[..., back, :])
    return torch.stack(samples)


def linear(p, name, x):
    y = x @ p[name + ".weight"].T
    return y + p[name + ".bias"] if name + ".bias" in p else y


def layer_norm(p, name, x, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + eps)
    return p[name + ".weight"] * scaled + p[name + ".bias"]


def split_heads(x, H):
    """(B, N, H d) to (B, H, N, d)"""
    return x.reshape(x.shape[0], x.shape[1], H, -1).transpose(1, 2)


def merge_heads(y):
    """(B, H, N, d) to (B, N, H d)"""
    return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)


def qkv_heads(site, p, x, name="qkv"):
    """q, k, v: (B, H, N, d)"""
    return [split_heads(t, site.H) for t in linear(p, name, x).split(site.D, -1)]


def softmax(scores):
    """Over the last axis."""
    e = torch.exp(scores - scores.max(-1, keepdim=True).values.detach())
    return e / e.sum(-1, keepdim=True)


def log_sum_exp(x):
    """Over the last axis, which is dropped."""
    top = x.max(-1, keepdim=True).values.detach()
    return torch.log(torch.exp(x - top).sum(-1)) + top[..., 0]


def projections(site):
    """Shapes of qkv and of proj: first and last in every variant that has them."""
    first, last = {"qkv.weight": (3 * site.D, site.D)}, {"proj.weight": (site.D, site.D)}
    if site.qkv_bias:
        first["qkv.bias"] = (3 * site.D,)
    if site.proj_bias:
        last["proj.bias"] = (site.D,)
    return first, last


def choose(table, site):
    """The options of a site, defaults filled in, as an object; asserts names, types and ranges.

    table: variant -> option -> (default, allowed). allowed is bool, a tuple of names, or the lowest
    and the highest number in a list.
    """
    known = table[site.attention["name"]]
    given = {key: value for key, value in site.attention.items() if key != "name"}
    assert set(given) <= set(known), "unknown options %s" % (set(given) - set(known))
    values = {key: given.get(key, default) for key, (default, _) in known.items()}
    for key, value in values.items():
        allowed = known[key][1]
        if isinstance(allowed, list):
            assert allowed[0] <= value <= allowed[1], (key, value)
        else:
            assert isinstance(value, bool) if allowed is bool else value in allowed, (key, value)
    return type("Options", (), values)
