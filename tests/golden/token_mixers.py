"""The token mixers of the specification, in float64: options, parameters, and one layer.

Vision-RWKV (arXiv:2403.02308, and the authors' code), Vision Mamba (arXiv:2401.09417, and the
authors' code), and three of the MetaFormer family (arXiv:2210.13452). They have no qkv and no
proj, and take no notice of qkv_bias and proj_bias. pool, sepconv and identity take no prefix
tokens; vrwkv puts them behind the patches, unshifted, vim behind the first half of the patches
(rounded down). Every region of a shifted window is mixed as if it stood alone: scans run over it
in raster order, with its number of tokens, and shifts, means and convolutions read nothing across
its border.
"""

import math

import torch
from torch.nn import functional as F

from mixing import by_region, choose, layer_norm, linear
import mixers_second

# Option: default, and what is allowed: bool, names, or [lowest, highest].
OPTIONS = {
    "vrwkv": {"shift": (1, [0, 16]),  # patches; 0: none, and no mix_k, mix_v, mix_r
              "key_norm": (False, bool),
              "init": ("fancy", ("fancy", "local", "global"))},
    "vim": {"expand": (2, [1, 8]), "state": (16, [1, 256]), "conv": (4, [1, 16]),
            "rank": (0, [0, 4096])},  # 0: D / 16, rounded up
    "pool": {"size": (3, [1, 15])},  # odd
    "sepconv": {"expand": (2, [1, 8]), "kernel": (7, [1, 15])},  # odd
    "identity": {},
}
GLOBAL = ()


def options(site):
    return choose(OPTIONS, site)


def shapes(site):
    """Name to shape of the trained parameters below the attention's own name, in order.

    vrwkv       mix_k, mix_v, mix_r (D) with shift > 0: mu of the code; decay, first (D): w T, u T
                of the formula; key.weight, value.weight, receptance.weight (D, D); key_norm.weight,
                .bias (D) with key_norm: on the scan's output; output.weight (D, D)
    vim         E = expand D, n = state, r = rank: in_proj.weight (2 E, D): rows x, z; conv1d.weight
                (E, 1, conv), .bias (E); x_proj.weight (r + 2 n, E): rows delta, B, C;
                dt_proj.weight (E, r), .bias (E); A_log (E, n); D (E); then those of the backward
                direction, conv1d_b, x_proj_b, dt_proj_b, A_b_log, D_b; out_proj.weight (D, E)
    sepconv     pwconv1.weight (expand D, D); act.scale, act.bias (1); dwconv.weight (expand D, 1,
                kernel, kernel); pwconv2.weight (D, expand D)
    pool, identity  none
    """
    o, name, D = options(site), site.attention["name"], site.D
    result = {}
    if name == "vrwkv":
        if o.shift:
            result.update({"mix_k": (D,), "mix_v": (D,), "mix_r": (D,)})
        result.update({"decay": (D,), "first": (D,), "key.weight": (D, D), "value.weight": (D, D),
                       "receptance.weight": (D, D)})
        if o.key_norm:
            result.update({"key_norm.weight": (D,), "key_norm.bias": (D,)})
        result["output.weight"] = (D, D)
    elif name == "vim":
        E, n, r = o.expand * D, o.state, o.rank or math.ceil(D / 16)
        result["in_proj.weight"] = (2 * E, D)
        for b, log in (("", "A_log"), ("_b", "A_b_log")):
            result.update({"conv1d" + b + ".weight": (E, 1, o.conv), "conv1d" + b + ".bias": (E,),
                           "x_proj" + b + ".weight": (r + 2 * n, E),
                           "dt_proj" + b + ".weight": (E, r), "dt_proj" + b + ".bias": (E,),
                           log: (E, n), "D" + b: (E,)})
        result["out_proj.weight"] = (D, E)
    elif name == "sepconv":
        E = o.expand * D
        result = {"pwconv1.weight": (E, D), "act.scale": (1,), "act.bias": (1,),
                  "dwconv.weight": (E, 1, o.kernel, o.kernel), "pwconv2.weight": (D, E)}
    return result


def buffers(site):
    """Name to shape of what is stored and not trained: nothing."""
    return {}


def as_map(place, x):
    """(n, c) to (rows, columns, c), without prefix tokens."""
    return x[place.prefix:].reshape(place.grid + (x.shape[-1],))


def shifted(x, down, right):
    """(rows, columns, c): what stands `down` above and `right` to the left, 0 outside."""
    (rows, columns), (y, z) = x.shape[:2], (abs(down), abs(right))
    padded = F.pad(x, (0, 0, z, z, y, y))
    return padded[y - down:y - down + rows, z - right:z - right + columns]


def q_shift(x, pixels):
    """A quarter of the channels from the left, the right, above and below: (rows, columns, c)."""
    c = x.shape[-1]
    ends = [c * i // 4 for i in range(5)]
    moves = ((0, pixels), (0, -pixels), (pixels, 0), (-pixels, 0))
    return torch.cat([shifted(x[..., ends[i]:ends[i + 1]], *moves[i]) for i in range(4)], -1)


def bi_wkv(k, v, w, u):
    """The formula, over all pairs of T tokens. k, v: (T, c)  w, u: (c). Returns (T, c)."""
    t = torch.arange(k.shape[0])
    distance = (t[:, None] - t[None, :]).abs().to(k.dtype)[..., None]
    itself = (distance == 0).to(k.dtype)
    logs = k[None] - (1 - itself) * w * (distance - 1) + itself * u
    weights = torch.exp(logs - logs.max(1, keepdim=True).values.detach())
    return (weights * v[None]).sum(1) / weights.sum(1)


def vrwkv_projected(o, p, place, x):
    """k, v and r of one place: (n, D) each, patches first."""
    tokens = torch.cat([x[place.prefix:], x[:place.prefix]])
    moved = tokens
    if o.shift:
        patches = q_shift(as_map(place, x), o.shift).reshape(-1, x.shape[-1])
        moved = torch.cat([patches, x[:place.prefix]])
    result = []
    for letter, name in (("k", "key"), ("v", "value"), ("r", "receptance")):
        mixed = tokens
        if o.shift:
            mu = p["mix_" + letter]
            mixed = mu * tokens + (1 - mu) * moved
        result.append(linear(p, name, mixed))
    return result


def vrwkv_output(o, p, place, y, r):
    """Norm, gate and last Linear; prefix tokens first again."""
    if o.key_norm:
        y = layer_norm(p, "key_norm", y)
    y = linear(p, "output", torch.sigmoid(r) * y)
    patches = y.shape[0] - place.prefix
    return torch.cat([y[patches:], y[:patches]])


def vrwkv(site, o, p, x, regions, scan=bi_wkv):
    def mix(place, x):
        k, v, r = vrwkv_projected(o, p, place, x)
        y = scan(k, v, p["decay"] / k.shape[0], p["first"] / k.shape[0])
        return vrwkv_output(o, p, place, y, r)

    return by_region(site, regions, mix, x)


def silu(x):
    return x * torch.sigmoid(x)


def selective_scan(x, dt, A, B, C, D):
    """h_t = exp(dt_t A) h_{t-1} + dt_t x_t B_t, y_t = h_t C_t + D x_t, one token after the other.

    x, dt: (T, E)  A: (E, n)  B, C: (T, n)  D: (E). Returns (T, E). arXiv:2312.00752, eq. 2.
    """
    h, rows = torch.zeros_like(A), []
    for t in range(x.shape[0]):
        h = torch.exp(dt[t][:, None] * A) * h + (dt[t] * x[t])[:, None] * B[t][None]
        rows.append((h * C[t][None]).sum(-1) + D * x[t])
    return torch.stack(rows)


def direction(p, x, z, suffix, scan):
    """One direction of a bidirectional Mamba: (T, E)."""
    weight, T = p["conv1d" + suffix + ".weight"][:, 0], x.shape[0]
    width = weight.shape[-1]
    padded = F.pad(x, (0, 0, width - 1, 0))
    x = sum(padded[i:i + T] * weight[:, i] for i in range(width)) + p["conv1d" + suffix + ".bias"]
    x = silu(x)
    A = -torch.exp(p["A_b_log" if suffix else "A_log"])
    r = p["dt_proj" + suffix + ".weight"].shape[1]
    delta, B, C = linear(p, "x_proj" + suffix, x).split([r, A.shape[1], A.shape[1]], -1)
    dt = torch.nn.functional.softplus(linear(p, "dt_proj" + suffix, delta))
    return scan(x, dt, A, B, C, p["D" + suffix]) * silu(z)


def vim(site, o, p, x, regions, scan=selective_scan):
    """arXiv:2401.09417, algorithm 1, with the mean of both directions as in the authors' models."""
    def mix(place, x):
        n = place.prefix
        half = (x.shape[0] - n) // 2
        order = list(range(n, n + half)) + list(range(n)) + list(range(n + half, x.shape[0]))
        u, z = linear(p, "in_proj", x[order]).chunk(2, -1)
        y = direction(p, u, z, "", scan)
        y = y + direction(p, u.flip(0), z.flip(0), "_b", scan).flip(0)
        back = sorted(range(len(order)), key=order.__getitem__)
        return linear(p, "out_proj", y / 2)[back]

    return by_region(site, regions, mix, x)


def pool(site, o, p, x, regions):
    """The mean of the cells around that there are, minus x."""
    assert o.size % 2 and not site.prefix
    far = range(-(o.size // 2), o.size // 2 + 1)

    def mix(place, x):
        cells = as_map(place, x)
        one = torch.ones_like(cells[..., :1])
        total = sum(shifted(cells, i, j) for i in far for j in far)
        count = sum(shifted(one, i, j) for i in far for j in far)
        return (total / count - cells).reshape(x.shape)

    return by_region(site, regions, mix, x)


def sepconv(site, o, p, x, regions):
    """arXiv:2210.13452, eq. 7 to 9: Linear, StarReLU, depthwise correlation, Linear."""
    assert o.kernel % 2 and not site.prefix
    half = o.kernel // 2

    def mix(place, x):
        cells = as_map(place, linear(p, "pwconv1", x))
        cells = p["act.scale"] * torch.relu(cells) ** 2 + p["act.bias"]
        cells = sum(shifted(cells, half - i, half - j) * p["dwconv.weight"][:, 0, i, j]
                    for i in range(o.kernel) for j in range(o.kernel))
        return linear(p, "pwconv2", cells.reshape(x.shape[0], -1))

    return by_region(site, regions, mix, x)


def identity(site, o, p, x, regions):
    assert not site.prefix
    return 1 * x


MIX = {"vrwkv": vrwkv, "vim": vim, "pool": pool, "sepconv": sepconv, "identity": identity}


def attention(site, p, x, regions=None):
    """The mixer. x: (B, N, D). Returns (B, N, D)."""
    return MIX[site.attention["name"]](site, options(site), p, x, regions)


def second(site, p, x, regions=None):
    """The same, written differently."""
    return mixers_second.MIX[site.attention["name"]](site, options(site), p, x, regions)
