"""The efficient attentions of the specification, in float64: options, parameters, and one layer.

Written from the papers and, for what they leave open, from the authors' code: local attention and
EVA (arXiv:2302.04542), FlashEVA (arXiv:2511.00576), LARA (arXiv:2204.04667), neighbourhood
attention (arXiv:2204.07143), Longformer (arXiv:2004.05150), Linformer (arXiv:2006.04768),
Performer (arXiv:2009.14794), RFA (arXiv:2103.02143), DiJiang (arXiv:2403.19928). The mathematics
is in local_attention.py, eva.py and random_features.py, other ways to the same in
efficient_second.py.

Prefix tokens are global in local, na, longformer, eva and flasheva: exact keys of every patch
without position bias, in no window and no group; as queries they see all tokens. Elsewhere they
are tokens like all others (lara does not pool them). In Swin windows eva and flasheva see the
whole map, whose windows, shifted or not, then are their local sets; the others see one window.
There tokens of different regions do not meet: masked scores in local, na and longformer, else
every region is mixed as if it stood alone.
"""

import math

import efficient_second
import eva
import local_attention
import random_features
from mixing import choose, projections

# Option: default, and what is allowed: bool, names, or [lowest, highest].
# window 0: 7 where it divides both sides of the grid, else 4 up to sides of 16, else 8, else 6,
# else the sides' largest common divisor up to 8. overlap: the keys lie in max(1, w / 2) patches
# more on each side (the patches of an EVA group too).
WINDOW = {"window": (0, [0, 64]), "overlap": (False, bool), "rpe": (True, bool)}
EVA = {
    **WINDOW,
    "group": (0, [0, 64]),  # side of a group; 0: rows of the grid / automatic window
    "param": ("default", ("default", "sum", "no_ln", "none", "evabyte", "mean")),
    "visibility": ("all", ("all", "disjoint", "remainder")),
    "allow_gaps": (False, bool),  # lets disjoint hide tokens
    "mass_bias": (False, bool),
    "scale": ("code", ("code", "prf")),
    "group_mean": ("valid", ("valid", "code")),  # code: cells outside the map count as zeros
    "noise": (True, bool),  # in training alone
}
ORDER = {"order": ("auto", ("auto", "linear", "quadratic"))}  # how, never what is computed
FEATURES = {
    **ORDER,
    "m": (64, [1, 4096]),
    "orthogonal": (True, bool),
    "scaling": (False, bool),  # norms of the rows of omega: drawn, or all sqrt(d)
    "redraw": (1000, [0, 1 << 30]),  # updates; 0: never
}
OPTIONS = {
    "local": WINDOW,
    "na": {"kernel": (7, [3, 63]), "edge": ("clamp", ("clamp", "clip")), "rpe": (True, bool)},
    "longformer": {
        "form": ("raster", ("raster", "na", "clip")),
        "window": (0, [0, 4096]),  # patches on each side (na, clip: on each axis); 0: 24 (3)
        "dilation": (1, [1, 64]),  # of raster
        "shared": (True, bool),  # false: what prefix tokens ask has projections of its own
    },
    "linformer": {
        "k": (0, [0, 4096]),  # 0: patches / 4, rounded up
        "sharing": ("headwise", ("none", "headwise", "kv", "layer")),
        "pool": (0, [0, 64]),  # g > 0: E = F are the means of g x g patches, k is not used
    },
    "performer": {
        **FEATURES,
        "map": ("positive", ("positive", "hyp", "relu")),
        "eps": (1e-6, [0.0, 1.0]),
        "eps_inside": (True, bool),  # m^(-1/2) (exp + eps), else m^(-1/2) exp + eps
        "den_floor": (1e-20, [0.0, 1.0]),
    },
    "rfa": {**FEATURES, "den_floor": (1e-2, [0.0, 1.0])},
    "dijiang": {
        **ORDER,
        "projection": ("code", ("code", "paper")),
        "map": ("softmax", ("softmax", "exp")),
        "norm": ("sum", ("sum", "group_norm")),  # group_norm: GroupNorm and gate of the code
        "radial": ("normal", ("normal", "chi")),  # what t is drawn from
    },
    "eva": EVA,
    "flasheva": EVA,
    "lara": {
        "landmarks": (49, [1, 4096]),  # a square number
        "proposal": ("pool_mixed", ("pool", "pool_mixed", "no_param_pool", "no_param_pool_mixed")),
        "pool_module": ("light", ("light", "dense")),
        "mis": ("opt", ("opt", "bh", "biased")),
        "alpha": (2.0, [0.0, 100.0]),
        "noise": (True, bool),  # in training alone, as the last
        "samples": ("one", ("one", "two", "antithetic")),
    },
}
GLOBAL = ("eva", "flasheva")
MIX = {"local": local_attention.local, "na": local_attention.na,
       "longformer": local_attention.longformer, "linformer": local_attention.linformer,
       "performer": random_features.performer, "rfa": random_features.rfa,
       "dijiang": random_features.dijiang, "eva": eva.eva, "flasheva": eva.eva, "lara": eva.lara}


def options(site):
    return choose(OPTIONS, site)


def pooled(letter, width, norm):
    """A Linear that keeps the width, with a LayerNorm behind it."""
    name = letter + "_pool"
    result = {name + ".weight": (width, width), name + ".bias": (width,)}
    if norm:
        result.update({name + "_norm.weight": (width,), name + "_norm.bias": (width,)})
    return result


def eva_shapes(o, H, d):
    norm = o.param != "no_ln"
    result = pooled("q", d, norm) if o.param in ("default", "sum", "no_ln") else {}
    if o.param in ("default", "sum", "no_ln", "none"):
        result.update(pooled("k", d, norm))
    if o.param == "evabyte":
        result.update({"adaptive_mu_k": (H, d), "adaptive_phi": (H, d)})
    return result


def shapes(site):
    """Name to shape of the trained parameters below the attention's own name, in order.

    d = D / H. N counts the prefix tokens.

    all              qkv.weight (3 D, D), qkv.bias (3 D) with qkv_bias: rows are q, k, v, in each
                     of them head h has rows h d .. (h + 1) d - 1; proj.weight (D, D), proj.bias (D)
                     with proj_bias
    local, na, eva,  with rpe: relative_position_bias_table (entries, H). Windows w with overlap e:
    flasheva         (2 (w + e) - 1)^2 entries. Kernels: (2 r - 1)(2 c - 1), r and c the kernel or
                     the grid's side if that is less. In a Swin, eva: (2 h - 1)(2 w - 1)
    longformer       without shared, with prefix tokens: qkv_global.weight, .bias as of qkv
    linformer        proj_k, proj_v (N, k): E, F; (H, N, k) with sharing none; proj_k alone with kv,
                     and with layer (one for all blocks of as many tokens); none with pool
    dijiang          map exp: map.weight (d). norm group_norm: group_norm.weight, .bias (D),
                     gate.weight (D, D)
    eva, flasheva    q_pool.weight (d, d), q_pool.bias, q_pool_norm.weight, .bias (d), and the same
                     with k, for param default and sum; no_ln: without norms; none: those with k
                     alone; evabyte: adaptive_mu_k, adaptive_phi (H, d): a, phi; mean: none of them
    lara             as eva default; pool_module dense: D in place of d; no_param_pool: none
    """
    o, name, d = options(site), site.attention["name"], site.D // site.H
    first, last = projections(site)
    own = {}
    if name in ("local", "na") + GLOBAL and o.rpe:
        own["relative_position_bias_table"] = (local_attention.table_rows(site, o), site.H)
    if name in GLOBAL:
        own.update(eva_shapes(o, site.H, d))
    elif name == "longformer" and not o.shared and site.prefix:
        own = {key.replace("qkv", "qkv_global"): shape for key, shape in first.items()}
    elif name == "linformer" and not o.pool:
        k = o.k or math.ceil((site.N - site.prefix) / 4)
        shape = (site.N, k)
        for key in ("proj_k",) if o.sharing in ("kv", "layer") else ("proj_k", "proj_v"):
            own[key] = (site.H,) + shape if o.sharing == "none" else shape
    elif name == "dijiang":
        if o.map == "exp":
            own["map.weight"] = (d,)
        if o.norm == "group_norm":
            own.update({"group_norm.weight": (site.D,), "group_norm.bias": (site.D,),
                        "gate.weight": (site.D, site.D)})
    elif name == "lara" and o.proposal.startswith("pool"):
        width = site.D if o.pool_module == "dense" else d
        own = {**pooled("q", width, True), **pooled("k", width, True)}
    return {**first, **own, **last}


def buffers(site):
    """Name to shape of what is stored and not trained.

    performer, rfa   omega (H, m, d): rows of the random matrix of each head
    dijiang          t (d)
    """
    name, d = site.attention["name"], site.D // site.H
    if name in ("performer", "rfa"):
        return {"omega": (site.H, options(site).m, d)}
    return {"t": (d,)} if name == "dijiang" else {}


def attention(site, p, x, regions=None):
    """The mechanism with its projections, in evaluation. x: (B, N, D). Returns (B, N, D)."""
    return MIX[site.attention["name"]](site, options(site), p, x, regions)


def second(site, p, x, regions=None):
    """The same, written differently."""
    return efficient_second.MIX[site.attention["name"]](site, options(site), p, x, regions)
