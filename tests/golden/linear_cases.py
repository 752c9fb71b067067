"""The golden cases of linear attentions, and the published values that both references must give."""

import math

import torch

import attn_layer
import formula
import linear_attention
import linear_second
from attn_layer import Site
from linear_kernels import MECHANISMS, Keys

MAP = {"grid": (4, 6), "window": (2, 3), "shift": (1, 1), "block": 1, "blocks": 2}
CLS = {"prefix": 1}
WIDE = {"D": 16}
BARE = {"qkv_bias": False, "proj_bias": False}
TRAINING = {"training": True}

# Start values of a trained layer rather than of the formula: sums of features stay away from 0.
SCALARS = {"alpha": [0.75], "beta": [0.5], "gamma": [1.25]}
GAMMA = {"gamma": [0.75]}
VARIANCE = {"shortcut.norm.running_var": [1.25, 0.75, 1.5, 0.875]}
PAIRS = {"pairs": [0, 0, 2, 1, 3, 1, 2, 2]}
RANGES = {"quant.q_min": [-2.25], "quant.q_range": [4.5], "quant.k_min": [-1.75],
          "quant.k_range": [4.0]}


def named(name, **options):
    return {"name": name, **options}


def plain(name, what="", values=None, cls=None, window=None, **options):
    """Class token, mean pooling, shifted windows; cls, window: further changes of their sites."""
    for place, changes in (("cls", {**CLS, **(cls or {})}),
                           ("mean", {**WIDE, "proj_bias": False}),
                           ("window", {**MAP, **(window or {})})):
        yield "%s%s_%s" % (name, what, place), named(name, **options), changes, values or {}


def rows():
    """Name, attention, changes of the site, given values of each case."""
    yield from plain("relu_linear")
    yield "relu_linear_eps", named("relu_linear", eps=0.5), {}, {}
    yield ("relu_linear_ape_shortcut", named("relu_linear", ape=True, shortcut=True),
           {**CLS, **TRAINING}, {})
    yield from plain("elu_linear")
    off = {"ape": False, "shortcut": False}
    yield from plain("qt", values=SCALARS, cls={**WIDE, **BARE}, **off)
    yield "qt_ape_cls", named("qt", ape=True, shortcut=False), {**CLS, "H": 1}, SCALARS
    yield "qt_shortcut", named("qt", ape=True, shortcut=True), TRAINING, SCALARS
    yield ("qt_shortcut_eval", named("qt", ape=True, shortcut=True), {**CLS, **BARE},
           {**SCALARS, **VARIANCE})
    yield "qt_shortcut_window", named("qt"), {**MAP, **TRAINING}, SCALARS
    yield "qt_pool", named("qt", reduce="pool", pool=2, **off), {}, SCALARS
    yield "qt_chunk", named("qt", reduce="chunk", chunk=2, **off), CLS, SCALARS
    yield "qt_random", named("qt", reduce="random", **off), CLS, {**SCALARS, **PAIRS}
    yield from plain("qt_released", values=GAMMA, **off)
    yield ("qt_released_ape_window", named("qt_released", ape=True, shortcut=False),
           {**MAP, **WIDE}, GAMMA)
    yield "qt_released_shortcut", named("qt_released"), {**CLS, **TRAINING}, GAMMA
    yield "qt_released_shortcut_eval", named("qt_released"), {}, {**GAMMA, **VARIANCE}
    for basis in ("sym", "full", "kron"):
        yield from plain("qt_exact", "_" + basis, basis=basis)
    yield "qt_exact_ape_shortcut", named("qt_exact", ape=True, shortcut=True), TRAINING, {}
    yield from plain("taylor1", residual=False)
    yield "taylor1_none_cls", named("taylor1", centre="none", residual=False), CLS, {}
    yield ("taylor1_none_window", named("taylor1", centre="none", residual=False),
           {**MAP, **WIDE}, {})
    yield "taylor1_feature", named("taylor1", centre="feature", residual=False), {}, {}
    whole = {"centre": "token", "residual": True, "bits": 0}
    yield "taylor1_residual", named("taylor1", **whole), {**CLS, **TRAINING}, {}
    yield "taylor1_residual_eval", named("taylor1"), CLS, RANGES
    yield ("taylor1_residual_masked", named("taylor1", threshold=0.0625, **whole), TRAINING, {})
    yield ("taylor1_residual_window", named("taylor1", threshold=0.125, **whole),
           {**MAP, **TRAINING}, {})
    yield "taylor1_quantised", named("taylor1", threshold=0.0625), {**CLS, **TRAINING}, {}
    yield "taylor1_quantised_window", named("taylor1", threshold=0.125), {**MAP, **TRAINING}, {}
    feature = named("taylor1", centre="feature", threshold=0.0625)
    yield "taylor1_feature_quantised", feature, TRAINING, {}
    yield "taylor1_feature_quantised_eval", feature, CLS, RANGES
    yield from plain("angular")
    yield from plain("angular", "_castling", form="castling", aux=False)
    yield "angular_aux", named("angular", form="castling", threshold=0.001), {**CLS, **TRAINING}, {}
    yield "angular_aux_masked", named("angular", form="castling"), TRAINING, {}
    yield ("angular_aux_window", named("angular", form="castling", threshold=0.125),
           {**MAP, **TRAINING}, {})
    yield "angular_aux_eval", named("angular", form="castling"), {}, {}
    yield from plain("focused", window={"H": 1})
    yield "focused_options", named("focused", p=2, kernel=3), CLS, {}
    for name in ("cosformer", "hydra", "shen", "polynl"):
        yield from plain(name)
    middle = {"D": 12, **BARE}
    yield from plain("vicinity", cls=WIDE, window=middle)
    yield "vicinity_product_cls", named("vicinity", product=True), {**CLS, "H": 1}, {}
    yield "vicinity_product_window", named("vicinity", product=True), {**MAP, **middle}, {}
    small = formula.unit("small", 32) / 2048
    yield ("vicinity_clamp", named("vicinity", clamp=True), BARE,
           {"proj.weight": small.tolist()})
    yield from plain("hedgehog")
    yield "hedgehog_zeros", named("hedgehog", init="zeros"), CLS, {}
    yield "hedgehog_tie", named("hedgehog", tie=True), {}, {}
    yield "hedgehog_exp_cls", named("hedgehog", form="exp"), {**CLS, **middle, "H": 1}, {}
    yield "hedgehog_exp_window", named("hedgehog", form="exp"), {**MAP, **middle}, {}
    yield "hedgehog_joint_cls", named("hedgehog", form="joint"), CLS, {}
    yield "hedgehog_joint_tie", named("hedgehog", form="joint", tie=True), {}, {}
    yield from plain("based", f=4)
    yield "based_f3", named("based", f=3), CLS, {}
    yield from plain("rebased", cls=WIDE, f=4)
    yield "rebased_f3", named("rebased", f=3, eps=0.125), CLS, {}
    yield from plain("aft_simple")
    yield from plain("aft_simple", "_matrix", form="matrix")


THRESHOLDS = ("taylor1_residual_masked", "taylor1_residual_window", "taylor1_quantised",
              "taylor1_quantised_window", "taylor1_feature_quantised",
              "taylor1_feature_quantised_eval", "angular_aux_masked", "angular_aux_window",
              "vicinity_clamp")  # where rounding to bf16 moves some entry over


def cases():
    check_vectors()
    for name, attention, changes, values in rows():
        site = Site(attention, **changes)
        smooth = "quantised" not in name and name != "vicinity_clamp"
        yield attn_layer.case(FAMILY, "attn_" + name, site, values, differences=smooth,
                              bf16=name not in THRESHOLDS)


class FAMILY:
    """The linear attentions as a family for attn_layer."""
    GLOBAL = linear_attention.GLOBAL
    shapes, buffers = staticmethod(linear_attention.shapes), staticmethod(linear_attention.buffers)
    attention = staticmethod(linear_attention.attention)
    second = staticmethod(linear_second.second)


# --- published values -----------------------------------------------------------------------------

HALF = 0.5 ** 0.5

# One head, four tokens (2 x 2), d = 4: options, parameters, row 0 of the output and the sums of
# output and gradients of q, k, v weighted by t = 1 + 4 i + j. Section 7 of the specification.
VECTORS = (
    (named("relu_linear"), {}, (-0.2638694, -0.3111562, -0.3093183, -0.2586458),
     (-31.834986, -1.92106, 1.89566, -28.44953)),
    (named("elu_linear"), {}, (-0.0658247, -0.1010626, -0.1203450, -0.1206276),
     (-13.090256, -0.02559, 3.22091, -31.60402)),
    (named("taylor1", centre="none"), {}, (-0.0928681, -0.1023471, -0.0956678, -0.0738847),
     (-6.642171, 14.27385, -10.94889, -38.80385)),
    (named("taylor1"), {}, (-0.0880744, -0.0967028, -0.0900640, -0.0692061),
     (-3.318523, 15.37804, -6.72993, -38.10772)),
    (named("qt_exact", basis="sym"), {}, (-0.1032591, -0.1121364, -0.1033098, -0.0781729),
     (-3.485659, 13.20358, -11.41763, -32.74155)),
    (named("qt_exact", basis="full"), {}, (-0.1032591, -0.1121364, -0.1033098, -0.0781729),
     (-3.485659, 13.20358, -11.41763, -32.74155)),
    (named("qt_exact", basis="kron"), {}, (-0.1032591, -0.1121364, -0.1033098, -0.0781729),
     (-3.485659, 13.20358, -11.41763, -32.74155)),
    (named("based"), {}, (-0.1032591, -0.1121364, -0.1033098, -0.0781729),
     (-3.485659, 13.20358, -11.41763, -32.74155)),
    (named("qt"), {"alpha": HALF, "beta": 0.0, "gamma": 1.0},
     (-0.0455185, -0.0364779, -0.0216783, -0.0034561),
     (-0.157388, 4.64863, 5.66638, -32.65826)),
    (named("qt"), {"alpha": HALF, "beta": HALF, "gamma": 1.0},
     (-0.0880810, -0.0863638, -0.0710116, -0.0444483),
     (-4.009001, 10.45813, -2.03407, -34.46951)),
    (named("qt"), {"alpha": HALF, "beta": HALF, "gamma": 2 ** 0.5},
     (-0.0595690, -0.0560240, -0.0436339, -0.0243551),
     (-1.615645, 7.42039, -0.52826, -34.02163)),
    (named("qt_released"), {"gamma": 1.0}, (-0.0204544, -0.0169623, -0.0107922, -0.0029182),
     (0.717353, 1.16016, 1.08463, -32.46580)),
    (named("angular"), {}, (-0.0415748, -0.0367718, -0.0261634, -0.0114243),
     (-1.294853, 3.17205, -2.92206, -34.92897)),
    (named("angular", form="castling"), {}, (0.4099681, 0.5240090, 0.5553204, 0.4989589),
     (-36.539140, 4.91935, 5.36352, -16.31568)),
    (named("focused"), {"scale": [0.0] * 4}, (-0.3253775, -0.3801631, -0.3749293, -0.3105024),
     (-52.328081, -7.71015, -6.22672, -30.51654)),
    (named("cosformer"), {}, (-0.1336303, -0.1541066, -0.1502528, -0.1226774),
     (-50.706459, -1.37280, 0.00055, -33.67214)),
    (named("vicinity"), {}, (-0.2067317, -0.2416047, -0.2383336, -0.1974349),
     (-37.127358, -1.88850, 0.54293, -30.44386)),
    (named("shen"), {}, (-0.1216413, -0.1691235, -0.1899047, -0.1807042),
     (-19.641346, -0.19669, 6.12690, -31.74792)),
    (named("hydra"), {}, (-0.1180791, -0.2407966, -0.0563261, 0.2722982),
     (-2.179341, 5.52807, -1.70866, -4.98093)),
    (named("aft_simple"), {}, (-0.0835141, -0.1897381, -0.1088876, -0.0475830),
     (-13.239651, 2.37970, 1.15696, -14.27433)),
    (named("hedgehog"), {}, (-0.0201260, -0.0051048, 0.0107224, 0.0248568),
     (1.485442, 0.03016, -0.04552, -33.77354)),
    (named("hedgehog", form="joint"), {}, (-0.0944136, -0.1017390, -0.0930021, -0.0695822),
     (-7.073872, 19.35654, -8.33730, -35.60628)),
    (named("rebased"), {}, (-0.0410343, -0.0305705, -0.0152803, 0.0024223),
     (1.276273, -0.94600, -0.75827, -27.07451)),
    (named("polynl"), {}, (-0.1828873, -0.2160387, -0.2150824, -0.1801693),
     (-10.393385, 31.14637, -12.67162, -19.65685)),
)


def identities(name, d):
    """Parameters inside a mechanism that change nothing."""
    eye, one, zero = torch.eye(d)[None].double(), torch.ones(1, d), torch.zeros(1, d)
    return {"hedgehog": {"q_map.weight": eye, "k_map.weight": eye, "q_map.bias": zero.double(),
                         "k_map.bias": zero.double()},
            "rebased": {"q_norm.weight": one.double(), "k_norm.weight": one.double(),
                        "q_norm.bias": zero.double(), "k_norm.bias": zero.double()}}.get(name, {})


def check_vectors():
    """Asserts that both references give the published values to all printed digits."""
    t = torch.arange(1, 17, dtype=torch.float64).reshape(1, 1, 4, 4)
    first = (1.2 * torch.sin(t), 1.2 * torch.cos(0.7 * t), torch.sin(0.4 * t + 0.5))
    g = torch.cos(0.3 * t)
    for attention, given, row, sums in VECTORS:
        site = Site(attention, B=1, D=4, H=1, grid=(2, 2))
        p = {key: torch.tensor(value, dtype=torch.float64) for key, value in given.items()}
        p.update(identities(attention["name"], 4))
        for which in (0, 1):
            leaves = [leaf.clone().requires_grad_() for leaf in first]
            out = mechanism(which, site, p, leaves)
            (g * out).sum().backward()
            assert all(abs(float(a) - b) <= 0.5001e-7 for a, b in zip(out[0, 0, 0], row)), attention
            found = [float((m * t).sum()) for m in [out] + [leaf.grad for leaf in leaves]]
            digits = [0.5001e-6] + [0.5001e-5] * 3
            assert all(abs(a - b) <= allowed for a, b, allowed in zip(found, sums, digits)), \
                (attention, which, found)


def mechanism(which, site, p, leaves):
    """The mechanism alone by linear_kernels (0) or linear_second (1). (1, 1, N, d)."""
    o, x = linear_attention.options(site), leaves[0][:, 0]
    if which == 0:
        return MECHANISMS[site.attention["name"]](site, o, p, *leaves, Keys(None, x))
    group = linear_second.Group(site, o, p, list(range(site.N)))
    return linear_second.PAIRS[site.attention["name"]](group, *(leaf[0] for leaf in leaves))[None]
