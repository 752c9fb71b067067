"""The golden cases (kind "attn") of the efficient attentions and of the token mixers."""

import attn_layer
import efficient_attention
import efficient_values
import formula
import token_mixers

CLS = {"prefix": 1}
SHIFTED = {"grid": (8, 8), "window": (4, 4), "shift": (2, 2)}

# case, attention, options, site, factors of tensors that the formula gives
EFFICIENT = [
    ("local", "local", {"window": 2}, {}, {}),
    ("local_auto", "local", {}, {"grid": (4, 6)}, {}),
    ("local_cls", "local", {"window": 2}, CLS, {}),
    ("local_overlap_cls", "local", {"window": 2, "overlap": True}, {"grid": (4, 6), **CLS}, {}),
    ("local_overlap_no_rpe", "local", {"window": 4, "overlap": True, "rpe": False},
     {"grid": (4, 8), "qkv_bias": False, "proj_bias": False}, {}),
    ("local_swin", "local", {"window": 2}, SHIFTED, {}),
    ("na", "na", {"kernel": 3}, {}, {}),
    ("na_cls", "na", {"kernel": 3}, CLS, {}),
    ("na_beyond", "na", {"kernel": 5}, {"grid": (4, 6), "prefix": 2}, {}),
    ("na_clip", "na", {"kernel": 3, "edge": "clip"}, CLS, {}),
    ("na_clip_beyond", "na", {"kernel": 7, "edge": "clip"}, {"grid": (3, 5)}, {}),
    ("na_no_rpe", "na", {"kernel": 3, "rpe": False}, {"qkv_bias": False}, {}),
    ("na_swin", "na", {"kernel": 3}, SHIFTED, {}),
    ("longformer_cls", "longformer", {"window": 2}, CLS, {}),
    ("longformer", "longformer", {"window": 3}, {"grid": (4, 5)}, {}),
    ("longformer_dilation", "longformer", {"window": 2, "dilation": 3}, {"prefix": 2}, {}),
    ("longformer_separate", "longformer", {"window": 2, "shared": False}, CLS, {}),
    ("longformer_na", "longformer", {"form": "na", "window": 1}, CLS, {}),
    ("longformer_clip", "longformer", {"form": "clip", "window": 1, "shared": False},
     {"prefix": 2, "qkv_bias": False}, {}),
    ("longformer_swin", "longformer", {"window": 5}, SHIFTED, {}),
    ("linformer", "linformer", {}, {}, {}),
    ("linformer_cls", "linformer", {"k": 5}, CLS, {}),
    ("linformer_none", "linformer", {"k": 3, "sharing": "none"}, CLS, {}),
    ("linformer_kv", "linformer", {"k": 3, "sharing": "kv"}, {"qkv_bias": False}, {}),
    ("linformer_layer", "linformer", {"sharing": "layer"}, {}, {}),
    ("linformer_pool_cls", "linformer", {"pool": 2}, CLS, {}),
    ("linformer_swin", "linformer", {"k": 3}, SHIFTED, {}),
    ("performer", "performer", {"m": 8}, {}, {"omega": 4}),
    ("performer_cls", "performer", {}, CLS, {}),
    ("performer_eps_0", "performer", {"m": 6, "eps": 0.0}, CLS, {"omega": 4}),
    ("performer_hyp", "performer", {"m": 6, "map": "hyp"}, CLS, {"omega": 4}),
    ("performer_relu", "performer", {"m": 6, "map": "relu"}, CLS, {"omega": 4}),
    ("performer_hku", "performer", {"m": 6, "eps": 1e-4, "eps_inside": False, "den_floor": 1e-2},
     {}, {"omega": 4}),
    ("performer_swin", "performer", {"m": 6}, SHIFTED, {"omega": 4}),
    ("rfa", "rfa", {"m": 8}, {}, {"omega": 2, "qkv.weight": 0.5}),
    ("rfa_cls", "rfa", {}, CLS, {"omega": 4, "qkv.weight": 0.5}),
    ("rfa_clamped", "rfa", {"m": 6}, {}, {"omega": 4}),
    ("rfa_swin", "rfa", {"m": 6}, SHIFTED, {"omega": 2, "qkv.weight": 0.5}),
    ("dijiang", "dijiang", {}, {}, {"t": 4}),
    ("dijiang_cls", "dijiang", {}, {"D": 12, **CLS}, {"t": 4}),
    ("dijiang_paper", "dijiang", {"projection": "paper"}, {"D": 12}, {"t": 4}),
    ("dijiang_exp", "dijiang", {"map": "exp"}, {"D": 12, **CLS}, {"t": 2}),
    ("dijiang_group_norm", "dijiang", {"norm": "group_norm"}, {"D": 12, "H": 4, **CLS},
     {"t": 4}),
    ("dijiang_swin", "dijiang", {}, SHIFTED, {"t": 4}),
    ("dijiang_exp_swin", "dijiang", {"map": "exp"}, SHIFTED, {"t": 2}),
    ("eva", "eva", {"window": 2, "group": 2}, {}, {}),
    ("eva_auto", "eva", {}, {"grid": (4, 8)}, {}),
    ("eva_cls", "eva", {"window": 2, "group": 2}, CLS, {}),
    ("eva_sum", "eva", {"window": 2, "group": 2, "param": "sum"}, {}, {}),
    ("eva_no_ln", "eva", {"window": 2, "group": 2, "param": "no_ln"}, {}, {}),
    ("eva_none", "eva", {"window": 2, "group": 2, "param": "none"}, {}, {}),
    ("eva_evabyte_cls", "eva", {"window": 2, "group": 2, "param": "evabyte"}, CLS, {}),
    ("eva_mean_mass", "eva", {"window": 2, "group": 2, "param": "mean", "mass_bias": True}, CLS,
     {}),
    ("eva_disjoint_cls", "eva", {"window": 4, "group": 2, "visibility": "disjoint"},
     {"grid": (4, 8), **CLS}, {}),
    ("eva_disjoint_gaps", "eva", {"window": 3, "group": 2, "visibility": "disjoint",
                                  "allow_gaps": True}, {"grid": (6, 6)}, {}),
    ("eva_remainder_cls", "eva", {"window": 3, "group": 2, "visibility": "remainder",
                                  "mass_bias": True}, {"grid": (6, 6), **CLS}, {}),
    ("eva_remainder_one", "eva", {"window": 4, "group": 4, "visibility": "remainder"},
     {"grid": (4, 12)}, {}),
    ("eva_prf", "eva", {"window": 2, "group": 2, "scale": "prf"}, {"D": 12}, {}),
    ("eva_prf_mean", "eva", {"window": 2, "group": 2, "scale": "prf", "param": "mean"}, {}, {}),
    ("eva_overlap_cls", "eva", {"window": 2, "group": 2, "overlap": True, "mass_bias": True},
     {"grid": (4, 6), **CLS}, {}),
    ("eva_overlap_code", "eva", {"window": 4, "group": 2, "overlap": True, "group_mean": "code"},
     {"grid": (8, 4)}, {}),
    ("eva_no_rpe", "eva", {"window": 2, "group": 1, "rpe": False},
     {"qkv_bias": False, "proj_bias": False}, {}),
    ("eva_swin", "eva", {"group": 2}, SHIFTED, {}),
    ("eva_swin_remainder", "eva", {"group": 2, "visibility": "remainder"},
     {"grid": (6, 6), "window": (3, 3), "shift": (1, 1)}, {}),
    ("flasheva", "flasheva", {"window": 2, "group": 2}, {}, {}),
    ("flasheva_cls", "flasheva", {"window": 2, "group": 2, "mass_bias": True}, CLS, {}),
    ("flasheva_remainder", "flasheva", {"window": 3, "group": 2, "visibility": "remainder"},
     {"grid": (6, 6)}, {}),
    ("flasheva_evabyte", "flasheva", {"window": 2, "group": 4, "param": "evabyte"}, CLS, {}),
    ("flasheva_swin", "flasheva", {"group": 4}, SHIFTED, {}),
    ("lara", "lara", {"landmarks": 4}, {}, {}),
    ("lara_cls", "lara", {"landmarks": 9}, CLS, {}),
    ("lara_pool", "lara", {"landmarks": 9, "proposal": "pool", "alpha": 0.5},
     {"D": 12, "grid": (4, 5)}, {}),
    ("lara_no_param", "lara", {"landmarks": 4, "proposal": "no_param_pool"}, CLS, {}),
    ("lara_dense", "lara", {"landmarks": 4, "pool_module": "dense"}, CLS, {}),
    ("lara_bh", "lara", {"landmarks": 4, "mis": "bh"}, CLS, {}),
    ("lara_biased", "lara", {"landmarks": 4, "mis": "biased"}, CLS, {}),
    ("lara_noise", "lara", {"landmarks": 4, "alpha": 0.5}, {"training": True, **CLS}, {}),
    ("lara_two", "lara", {"landmarks": 4, "alpha": 0.5, "samples": "two"}, {"training": True}, {}),
    ("lara_two_biased", "lara", {"landmarks": 4, "mis": "biased", "samples": "two"},
     {"training": True, **CLS}, {}),
    ("lara_antithetic", "lara", {"landmarks": 4, "alpha": 0.5, "samples": "antithetic"},
     {"training": True, "D": 12}, {}),
    ("lara_antithetic_bh", "lara", {"landmarks": 9, "mis": "bh", "samples": "antithetic"},
     {"training": True}, {}),
    ("lara_swin", "lara", {"landmarks": 4, "alpha": 0.5}, {"D": 12, **SHIFTED}, {}),
]
MIXERS = [
    ("vrwkv", "vrwkv", {}, {}, {"decay": 64, "first": 64}),
    ("vrwkv_cls", "vrwkv", {}, CLS, {"decay": 16, "first": 16}),
    ("vrwkv_unshifted", "vrwkv", {"shift": 0}, CLS, {"decay": 16}),
    ("vrwkv_key_norm", "vrwkv", {"shift": 2, "key_norm": True}, {"D": 10, "grid": (3, 5)},
     {"decay": 16}),
    ("vrwkv_swin", "vrwkv", {}, SHIFTED, {"decay": 64, "first": 16}),
    ("vim", "vim", {"state": 4}, {}, {}),
    ("vim_cls", "vim", {"state": 3, "rank": 2}, {"grid": (3, 3), **CLS}, {}),
    ("vim_default", "vim", {}, {"D": 20, "H": 4, "grid": (3, 4), "prefix": 2}, {}),
    ("vim_one_wide", "vim", {"state": 2, "expand": 1, "conv": 2}, {"H": 1}, {}),
    ("vim_swin", "vim", {"state": 2}, SHIFTED, {}),
    ("pool", "pool", {}, {}, {}),
    ("pool_wide", "pool", {"size": 5}, {"grid": (3, 5)}, {}),
    ("pool_swin", "pool", {}, SHIFTED, {}),
    ("sepconv", "sepconv", {}, {"grid": (5, 8)}, {}),
    ("sepconv_small", "sepconv", {"kernel": 3, "expand": 1}, {}, {}),
    ("sepconv_swin", "sepconv", {"kernel": 5}, SHIFTED, {}),
    ("identity", "identity", {}, {}, {}),
]


# Denominators near their floor, some of them negative: not for rounded activations.
FLOORED = ("rfa_clamped",)
# What is subtracted in an exponent is a constant in gradients, and does not cancel here.
STABILISED = ("performer", "performer_cls", "performer_hyp", "performer_hku", "performer_swin",
              "rfa_clamped")


def case(family, name, attention, options, site, factors):
    where = attn_layer.Site({"name": attention, **options}, **{"grid": (4, 4), **site})
    sized = attn_layer.parameter_site(family, where)
    shapes = {**family.shapes(sized), **family.buffers(sized)}
    values = {key: (factor * formula.tensor(attn_layer.SCOPE + key, shapes[key])).ravel().tolist()
              for key, factor in factors.items()}
    return attn_layer.case(family, "attn_" + name, where, values, name not in STABILISED,
                           name not in FLOORED)


def cases():
    efficient_values.check()
    for row in EFFICIENT:
        yield case(efficient_attention, *row)
    for row in MIXERS:
        yield case(token_mixers, *row)
