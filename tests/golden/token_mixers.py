"""The token mixers of the specification, in float64: names of options and parameters.

Vision-RWKV (arXiv:2403.02308, and the authors' code), Vision Mamba (arXiv:2401.09417, and the authors'
code), and three of the MetaFormer family (arXiv:2210.13452). They have no qkv and no proj, and take no
notice of qkv_bias and proj_bias. pool, sepconv and identity take no prefix tokens; vrwkv puts them
behind the patches, unshifted, vim behind the first half of the patches (rounded down). Every region of
a shifted window is mixed as if it stood alone: scans run over it in raster order, with its number of
tokens, and shifts, means and convolutions read nothing across its border.
"""

import math

from mixing import choose

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

    vrwkv       mix_k, mix_v, mix_r (D) with shift > 0: mu of the code; decay, first (D): w T and u T
                of the formula; key.weight, value.weight, receptance.weight (D, D); key_norm.weight,
                .bias (D) with key_norm: on the scan's output; output.weight (D, D)
    vim         E = expand D, n = state, r = rank: in_proj.weight (2 E, D): rows x, z; conv1d.weight
                (E, 1, conv), .bias (E); x_proj.weight (r + 2 n, E): rows delta, B, C; dt_proj.weight
                (E, r), .bias (E); A_log (E, n); D (E); then those of the backward direction,
                conv1d_b, x_proj_b, dt_proj_b, A_b_log, D_b; out_proj.weight (D, E)
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
