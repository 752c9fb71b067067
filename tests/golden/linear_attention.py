"""The linear attentions, in float64: options, parameters, forward. Plain tensor functions.

Written from the papers and the equations of the authors' code; every mechanism sums over keys
first (linear_second.py takes the weights of all pairs). OPTIONS names every option with its default.
All variants have `order` as well (auto, linear, quadratic): it changes how, never what is computed.

The class token is a token of every sum over keys; it has no row in key tables, no depthwise term.
Inside windows a site is one window; relative position bias is not taken. Where a shifted window has
regions, every sum, mean and softmax over keys runs over the query's own region, counts of keys are
those of the region, and to a depthwise convolution tokens of other regions are 0. Positions
(tables, cosFormer, vicinity) stay those in the window.
"""

import math

import torch
from torch.nn import functional as F

from linear_kernels import MECHANISMS, Keys, magnitude_clamped, merge, split

GLOBAL = ()  # none needs the whole map
BATCH_NORM_EPS = 1e-5

OPTIONS = {
    "relu_linear": {"eps": 1e-15, "ape": False, "shortcut": False},
    "elu_linear": {},
    # alpha0, beta0, gamma0: start values. zero: none, alpha, beta, gamma: starts that one at 1e-3.
    # reduce: self (Eq. 11), or pool, chunk, random of Table 3: these quadratic blocks are divided
    # by their L2 norm. pool: consecutive channels averaged; chunk: number of chunks.
    "qt": {"alpha0": 0.5 ** 0.5, "beta0": 0.0, "gamma0": 1.0, "zero": "none", "reduce": "self",
           "pool": 2, "chunk": 2, "ape": True, "shortcut": True},
    "qt_released": {"ape": True, "shortcut": True},
    "qt_exact": {"basis": "sym", "ape": False, "shortcut": False},  # sym, full, kron
    # centre: token, none, feature. bits: of the quantiser, 0: none.
    "taylor1": {"centre": "token", "residual": True, "threshold": 0.002, "bits": 4},
    # form: kernel, castling. aux, ramp (threshold goes from `threshold` to 1 over the training),
    # threshold: of castling alone.
    "angular": {"form": "kernel", "aux": True, "threshold": 0.02, "ramp": False},
    "focused": {"p": 3, "kernel": 5},
    "cosformer": {},
    "hydra": {},
    "shen": {},
    "vicinity": {"product": False, "clamp": False},
    # form: softmax, exp, joint. init: identity, kaiming, zeros (then z = x + W x).
    "hedgehog": {"form": "softmax", "init": "identity", "tie": False},
    "based": {"f": 16},
    "rebased": {"f": 16, "eps": 1e-5},
    "aft_simple": {"form": "elementwise"},  # elementwise, matrix
    "polynl": {},
}


def options(site):
    """The site's options with the defaults filled in, and the name."""
    defaults = OPTIONS[site.attention["name"]]
    unknown = set(site.attention) - set(defaults) - {"name", "order"}
    assert not unknown, "unknown options %s" % unknown
    return {**defaults, **site.attention}


def linear_shapes(name, rows, columns, bias):
    result = {name + ".weight": (rows, columns)}
    if bias:
        result[name + ".bias"] = (rows,)
    return result


def shapes(site):
    """Name to shape of the trained parameters below the attention's own name.

    d = D / H. P = rows x columns of the grid, without class token.

    all but those below   qkv.weight (3 D, D), qkv.bias (3 D) with qkv_bias: rows are q, k, v, and
                          in each of them head h has rows h d .. (h + 1) d - 1
    all                   proj.weight (D, D), proj.bias (D) with proj_bias
    ape                   k_pos (H d, rows, columns): head h has channels h d .. (h + 1) d - 1
    shortcut              shortcut.norm.weight, .bias (d), shared by the heads
    qt                    alpha, beta, gamma (1); all three always exist and are always used
    qt_released           gamma (1)
    angular, castling     dwc.weight (H, 9): correlation along the patches in raster order
    focused               scale (D): rho; k_pos (P, D); dwc.weight (d, 1, kernel, kernel), .bias (d)
    vicinity              qkv.weight (3 D / 2, D), proj.weight (D, D / 2), gate.fc1.weight,
                          gate.fc2.weight (D, D) without bias
    hedgehog              q_map.weight, k_map.weight (H, d, d): z = W x; with form joint q_map.bias,
                          k_map.bias (H, d); with tie q_map alone
    based, rebased        q.weight, k.weight (H f, D), v.weight (D, D), never with a bias
    rebased               q_norm.weight, q_norm.bias, k_norm.weight, k_norm.bias (H, f)
    """
    o, name, D, d = options(site), site.attention["name"], site.D, site.D // site.H
    width = D // 2 if name == "vicinity" else D
    result = {}
    if name in ("based", "rebased"):
        f = o["f"]
        for letter, rows in (("q", site.H * f), ("k", site.H * f), ("v", D)):
            result.update(linear_shapes(letter, rows, D, False))
    else:
        result.update(linear_shapes("qkv", 3 * width, D, site.qkv_bias))
    if o.get("ape"):
        result["k_pos"] = (D,) + site.grid
    if name == "qt":
        result.update({"alpha": (1,), "beta": (1,)})
    if name in ("qt", "qt_released"):
        result["gamma"] = (1,)
    if o.get("shortcut"):
        result.update({"shortcut.norm.weight": (d,), "shortcut.norm.bias": (d,)})
    if name == "angular" and o["form"] == "castling":
        result["dwc.weight"] = (site.H, 9)
    if name == "focused":
        size = o["kernel"]
        result.update({"scale": (D,), "k_pos": (site.grid[0] * site.grid[1], D),
                       "dwc.weight": (d, 1, size, size), "dwc.bias": (d,)})
    if name == "vicinity":
        result.update({"gate.fc1.weight": (D, D), "gate.fc2.weight": (D, D)})
    if name == "hedgehog":
        for letter in ("q",) if o["tie"] else ("q", "k"):
            result[letter + "_map.weight"] = (site.H, d, d)
            if o["form"] == "joint":
                result[letter + "_map.bias"] = (site.H, d)
    if name == "rebased":
        for key in ("q_norm.weight", "q_norm.bias", "k_norm.weight", "k_norm.bias"):
            result[key] = (site.H, o["f"])
    result.update(linear_shapes("proj", D, width, site.proj_bias))
    return result


def buffers(site):
    """Name to shape of what is stored and not trained.

    shortcut          shortcut.norm.running_mean, shortcut.norm.running_var (d)
    qt, random        pairs (d, 2): row n holds the two channels whose product is feature n
    taylor1           quant.q_min, quant.q_range, quant.k_min, quant.k_range (1), with residual and
                      bits > 0: running minimum and range of q and of k
    """
    o, name, d = options(site), site.attention["name"], site.D // site.H
    result = {}
    if o.get("shortcut"):
        result.update({"shortcut.norm.running_mean": (d,), "shortcut.norm.running_var": (d,)})
    if name == "qt" and o["reduce"] == "random":
        result["pairs"] = (d, 2)
    if name == "taylor1" and o["residual"] and o["bits"]:
        result.update({"quant." + key: (1,) for key in ("q_min", "q_range", "k_min", "k_range")})
    return result


# --- around the mechanism -------------------------------------------------------------------------

def linear(p, name, x):
    y = x @ p[name + ".weight"].T
    return y + p[name + ".bias"] if name + ".bias" in p else y


def projected(site, p, x):
    """q, k, v: (B, H, N, .); keys with their rows of a table."""
    if "qkv.weight" in p:
        q, k, v = linear(p, "qkv", x).chunk(3, -1)
    else:
        q, k, v = (linear(p, name, x) for name in "qkv")
    if "k_pos" in p:
        rows = p["k_pos"]
        rows = rows.flatten(1).T if rows.dim() == 3 else rows
        k = torch.cat([k[:, :site.prefix], k[:, site.prefix:] + rows], 1)
    return tuple(split(t, site.H) for t in (q, k, v))


def shortcut(site, p, v):
    """GELU(BN(v)): a channel's statistics run over batch, heads and tokens."""
    name = "shortcut.norm."
    if site.training:
        mean = v.mean((0, 1, 2))
        variance = ((v - mean) ** 2).mean((0, 1, 2))
    else:
        mean, variance = p[name + "running_mean"], p[name + "running_var"]
    y = (v - mean) / torch.sqrt(variance + BATCH_NORM_EPS) * p[name + "weight"] + p[name + "bias"]
    return y * 0.5 * (1 + torch.erf(y / math.sqrt(2)))


def same_region(keys, site):
    """(B, 1, P, P): whether two patches may meet."""
    own = keys.own[:, :, site.prefix:]
    return own @ own.transpose(-1, -2)


def depthwise_line(site, p, v, keys):
    """9 taps along the patches in raster order, one filter for each head. Prefix tokens get 0."""
    weight, P = p["dwc.weight"], site.N - site.prefix
    tap = torch.arange(P)[None, :] - torch.arange(P)[:, None] + 4  # of key j for token t
    inside = (tap >= 0) & (tap < 9)
    matrix = weight[:, tap.clamp(0, 8)] * inside * same_region(keys, site)
    return F.pad(matrix @ v[:, :, site.prefix:], (0, 0, site.prefix, 0))


def depthwise_map(site, p, v, keys):
    """A square filter over the map of patches for each channel of a head, shared by the heads."""
    weight = p["dwc.weight"][:, 0]  # (d, size, size)
    size, (rows, columns) = weight.shape[-1], site.grid
    row = torch.arange(rows).repeat_interleave(columns)
    column = torch.arange(columns).repeat(rows)
    down, right = (t[None, :] - t[:, None] + size // 2 for t in (row, column))
    inside = (down >= 0) & (down < size) & (right >= 0) & (right < size)
    taps = weight[:, down.clamp(0, size - 1), right.clamp(0, size - 1)] * inside  # (d, P, P)
    y = torch.einsum("ctj,bxtj,bhjc->bhtc", taps, same_region(keys, site), v[:, :, site.prefix:])
    return F.pad(y + p["dwc.bias"], (0, 0, site.prefix, 0))


def attention(site, p, x, regions=None):
    """x, result: (B, N, D)."""
    keys, o, name = Keys(regions, x), options(site), site.attention["name"]
    q, k, v = projected(site, p, x)
    y = MECHANISMS[name](site, o, p, q, k, v, keys)
    if o.get("shortcut"):
        y = y + shortcut(site, p, v)
    if "dwc.weight" in p:
        y = y + (depthwise_line if name == "angular" else depthwise_map)(site, p, v, keys)
    y = linear(p, "proj", merge(y))
    if name == "vicinity":
        mean = keys.mean(x[:, None])[:, 0]
        gate = torch.sigmoid(linear(p, "gate.fc2", torch.relu(linear(p, "gate.fc1", mean))))
        y = magnitude_clamped(o, y)
        y = magnitude_clamped(o, y + y * gate)
    return y
