"""EVA, FlashEVA and LARA: softmax attention from importance samples of random features.

EVA: Zheng et al., arXiv:2302.04542, in the two-dimensional form of its authors' code. A query
attends exactly to its local set, and to one key and one value for each group of patches. FlashEVA,
arXiv:2511.00576, is the same function computed in another order. LARA: arXiv:2204.04667.
"""

import itertools
import math

import torch

import draws
from local_attention import (auto_window, block, over_samples, overlap, see, shifted_cells,
                             table_bias, window_cells, window_side)
from mixing import by_region, layer_norm, linear, log_sum_exp, merge_heads, qkv_heads, softmax


def group_side(site, o):
    g = o.group or max(site.grid[0] // auto_window(site.grid), 1)
    assert not (site.grid[0] % g or site.grid[1] % g), "the group does not divide the grid"
    return g


def groups(site, o):
    """Patches of each group in raster order; and the cells of one, outside the map as well."""
    g = group_side(site, o)
    e = overlap(o, window_side(site, o)) if o.overlap else 0
    side = g + 2 * e
    return [block(site.grid, top - e, left - e, side, side)
            for top in range(0, site.grid[0], g) for left in range(0, site.grid[1], g)], side * side


def visible(o, group, keys):
    """The patches of a group that a window with these keys sees through it."""
    if o.visibility == "all":
        return group
    rest = [t for t in group if t not in keys]
    return rest if o.visibility == "remainder" or len(rest) == len(group) else []


def gaps(site, o):
    """How many pairs of a window and a patch there are that nothing shows to the window."""
    listed, _ = groups(site, o)
    count = 0
    for _, keys in cells_of(site, o):
        seen = set(keys).union(*[visible(o, group, keys) for group in listed])
        count += site.grid[0] * site.grid[1] - len(seen)
    return count


def cells_of(site, o):
    return shifted_cells(site) if site.window[0] else window_cells(site, o, None, 0)


def proposal(o, p, q, k, cells):
    """Pooled key and centre of the proposal of one group: (H, d), (H, d).

    q, k: (H, n, d), the group's. cells: what sums are divided by.
    """
    half = 0.5 if o.scale == "code" else q.shape[-1] ** -0.25
    if o.param == "evabyte":
        weights = softmax((k @ p["adaptive_mu_k"][:, :, None])[..., 0])
        return (weights[..., None] * k).sum(-2), p["adaptive_phi"]
    q_mean, k_mean = q.sum(-2) / cells, k.sum(-2) / cells
    if o.param == "mean":
        return k_mean, half * (q_mean + k_mean)
    k_mean = linear(p, "k_pool", k_mean)
    if o.param == "none":
        return layer_norm(p, "k_pool_norm", k_mean), torch.zeros_like(k_mean)
    q_mean = linear(p, "q_pool", q_mean)
    if o.param != "no_ln":
        q_mean = layer_norm(p, "q_pool_norm", q_mean)
        k_mean = layer_norm(p, "k_pool_norm", k_mean)
    factor = 1.0 if o.param == "sum" and o.scale == "code" else half
    return k_mean, factor * (q_mean + k_mean)


def group_value(o, omega, k, v):
    """The group's values weighed by their features at omega (H, d): (H, d)."""
    s, d = k.shape[-1] ** -0.5, k.shape[-1]
    factor = s if o.scale == "code" else d ** -0.25
    log_feature = factor * (k @ omega[:, :, None])[..., 0] - s / 2 * (k * k).sum(-1)
    return (softmax(log_feature)[..., None] * v).sum(-2)


def mix(site, o, p, q, k, v, noise=None, local_sets=None):
    """(H, N, d) of one sample. noise: (H, groups, d), added to the centres in training. local_sets:
    other ones than the windows."""
    local_sets = cells_of(site, o) if local_sets is None else local_sets
    listed, cells = groups(site, o)
    n, known = site.prefix, {}

    def summary(c, tokens):
        """Key and value that stand for `tokens`, which are left of group c."""
        if (c, tokens) not in known:
            at = [n + t for t in tokens]
            count = len(tokens)
            if o.group_mean == "code":
                count += cells - len(listed[c])
            key, omega = proposal(o, p, q[:, at], k[:, at], count)
            if noise is not None:
                omega = omega + noise[:, c]
            known[c, tokens] = key, group_value(o, omega, k[:, at], v[:, at])
        return known[c, tokens]

    def extra(queries, keys):
        left = [(c, tuple(visible(o, group, keys))) for c, group in enumerate(listed)]
        left = [(c, tokens) for c, tokens in left if tokens]
        if not left:
            return None
        pairs = [summary(c, tokens) for c, tokens in left]
        mass = [math.log(len(tokens)) if o.mass_bias else 0.0 for _, tokens in left]
        return (torch.stack([key for key, _ in pairs], 1),
                torch.stack([value for _, value in pairs], 1),
                torch.tensor(mass, dtype=q.dtype))

    return see(site, q, k, v, local_sets, table_bias(site, o, p, 1), extra)


def eva(site, o, p, x, regions):
    assert regions is None, "EVA sees the whole map"
    assert o.visibility != "disjoint" or o.allow_gaps or not gaps(site, o), "groups hide tokens"
    return over_samples(site, p, x, lambda b, q, k, v: mix(site, o, p, q, k, v))


def adaptive_means(x, grid, side):
    """Adaptive average pooling, (..., n, c) in raster order to (..., side * side, c)."""
    bins = [[(i * length // side, -(-(i + 1) * length // side)) for i in range(side)]
            for length in grid]
    means = []
    for top, bottom in bins[0]:
        for left, right in bins[1]:
            at = block(grid, top, left, bottom - top, right - left)
            means.append(x[..., at, :].mean(-2))
    return torch.stack(means, -2)


def landmarks(site, o, p, place, q, k):
    """Pooled queries and keys, (H, C, d), behind Linear and LayerNorm."""
    side = math.isqrt(o.landmarks)
    assert side * side == o.landmarks, "the number of landmarks is no square"
    result = []
    for letter, x in (("q", q), ("k", k)):
        means = adaptive_means(x[:, place.prefix:], place.grid, side)
        if o.pool_module == "dense":
            means = means.transpose(0, 1).reshape(1, o.landmarks, -1)
        if o.proposal.startswith("pool"):
            means = layer_norm(p, letter + "_pool_norm", linear(p, letter + "_pool", means))
        if o.pool_module == "dense":
            means = means.reshape(o.landmarks, site.H, -1).transpose(0, 1)
        result.append(means)
    return result


def lara_mix(o, q, k, v, q_bar, k_bar, noise=None):
    """(H, n, d) from the landmarks (H, C, d): arXiv:2204.04667, self-normalised importance sampling
    with one sample for each of C proposals, or two (noise: (H, 2 C, d)), each of a proposal of its own."""
    s = q.shape[-1] ** -0.5

    def log_feature(omega, x):
        """(H, C, n)"""
        return s * omega @ x.transpose(-1, -2) - s / 2 * (x * x).sum(-1)[:, None, :]

    if o.proposal.endswith("mixed"):
        k_bar = softmax(s * k_bar @ k_bar.transpose(-1, -2)) @ k_bar
    mu = q_bar + k_bar
    if noise is not None and noise.shape != mu.shape:
        q_bar, mu = q_bar.repeat(1, 2, 1), mu.repeat(1, 2, 1)
    omega = mu if noise is None else mu + noise
    of_keys = log_feature(omega, k)
    f, kappa = softmax(of_keys) @ v, log_sum_exp(of_keys)
    M = log_feature(omega, mu)
    eta, alpha = log_sum_exp(M), 0.0
    if o.mis == "opt":
        own = torch.diagonal(M, dim1=-2, dim2=-1)
        t = softmax(s * q_bar @ q.transpose(-1, -2))  # over the queries
        weight = torch.exp(own - eta)[..., None] + o.alpha * (t - t.mean(-2, keepdim=True))
        eta, alpha = own, torch.log(torch.clamp(weight, min=1e-8))
    elif o.mis == "biased":
        alpha = s * mu @ q.transpose(-1, -2)
    scores = alpha + log_feature(omega, q) + (kappa - eta)[..., None]
    return softmax(scores.transpose(-1, -2)) @ f


def lara_noise(site, o, sample):
    """What training adds to the landmarks of an image that is one map; None: nothing."""
    if not site.training or not o.noise:
        return None
    assert not site.window[0]
    drawn = draws.rows("lara_noise:attn", sample, site.H, o.landmarks * (1 + (o.samples == "two")),
                       site.D // site.H)
    return torch.cat([drawn, -drawn], 1) if o.samples == "antithetic" else drawn


def lara(site, o, p, x, regions):
    assert o.landmarks <= site.grid[0] * site.grid[1], "more landmarks than patches"
    q, k, v = qkv_heads(site, p, x)
    samples = itertools.count()  # of places, which come image by image

    def one(place, q, k, v):
        return lara_mix(o, q, k, v, *landmarks(site, o, p, place, q, k),
                        lara_noise(site, o, next(samples)))

    return linear(p, "proj", merge_heads(by_region(site, regions, one, q, k, v)))
