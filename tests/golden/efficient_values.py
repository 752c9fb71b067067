"""Published values and identities that the efficient attentions and the token mixers must meet.

PRINTED holds sum, sum of squares, first and last entry as the specification prints them, for one
head of width 4 on a 4 x 4 grid, filled by sin(0.7 i + 0.3 c). `check` raises where this code gives
other digits, or where an identity of the methods does not hold.
"""

import math

import torch

import efficient_attention
import eva
import local_attention
import mixers_second
import random_features
import token_mixers
from attn_layer import Site
from mixing import softmax

PRINTED = {
    "softmax": "+1.1012307255 6.6667081115 +0.2535767203 +0.2570670559",
    "eva": "-1.1763434323 3.2111168013 +0.2731407009 +0.1266266463",
    "eva beta": "-1.6996012863 1.5753796170 +0.4361144475 -0.0125698839",
    "eva dq": "+1.4478942011 2.4668574929 +0.2734089637 +0.1980995539",
    "eva dk": "+4.9900340816 5.4056466761 -0.1944711140 -0.3385865327",
    "eva dv": "+0.4329949987 3.1387681194 +0.1224060238 +0.0454717661",
    "eva dW_q": "0 0.0294758592 -0.0200133075 +0.0102374067",
    "eva dW_k": "0 0.8319457158 -0.2827922979 +0.1301494497",
    "eva dgamma_k": "-0.6521808641 0.5415584812 -0.2465752443 -0.6644691390",
    "eva evaluation": "-0.7655449486 3.4994353471 +0.3067159799 +0.1063050650",
    "eva sum": "-2.9246961162 4.5058916107 +0.3299118855 +0.0635600979",
    "eva disjoint": "-0.7134868921 3.6804688303 +0.2574930818 +0.1391235672",
    "lara": "-4.0799663264 9.3336402950 +0.6150337329 +0.1976583795",
    "lara dq": "-0.0311717209 9.2662460804 +0.0398935711 +0.0630994401",
    "lara dk": "+1.2007995441 9.4024610084 -0.6530753227 -0.1924472724",
    "lara dq_bar": "-1.1296124365 1.3550082813 -0.5426308252 +0.2168404324",
    "lara dk_bar": "-1.8466897908 2.1414541650 -0.5016278448 +0.1357895454",
    "performer": "+0.7805602861 15.5389076013 +0.4457332001 -0.0987519093",
    "performer eps": "+0.7805791680 15.5384835133 +0.4457280674 -0.0987506495",
    "performer dq": "+0.2437953069 15.3737379314 +0.2249109130 +0.3661860301",
    "performer dk": "+0.3671984535 8.3185336934 -0.4608677353 -0.3746503878",
    "linformer": "+9.9791848845 6.2175414478 +0.5565519888 -0.1780390290",
    "linformer dE": "0 72.6745517220 +0.0060115914 +1.7040757048",
    "linformer dF": "-0.0384704945 128.7617188158 +2.6631493037 -0.5435037198",
    "dijiang": "+1.3718135003 7.2093355471 +0.3135529922 +0.2272378404",
    "dijiang paper": "+1.9138995573 7.1506987076 +0.2378813081 +0.1926409584",
    "na": "+1.4936043760 6.8622525394 +0.2869931572 +0.4040687292",
    "na clip": "+0.8969049068 4.7525936878 +0.3523908051 +0.2669674453",
    "wkv": "+27.3536420320 11.8703682879 +0.3649755007 +0.4870456903",
    "wkv dk": "0 0.0157165594 +0.0048998364 -0.0018767350",
    "wkv dv": "+0.4329949987 0.0752333681 +0.0262505082 -0.0086173633",
    "wkv dw": "-0.3994049486 0.2811742998 +0.1189564372 +0.1641271303",
    "wkv du": "-0.9568663866 0.2364436853 -0.3054084870 -0.1851454152",
    "scan": "+7.0228573215 48.7885871674 +0.8037770788 -0.4505786866",
    "scan dx": "-7.3606436275 43.1216793949 +0.9145417590 -0.0738214134",
    "scan ddt": "-6.7712737164 8.3782709277 +0.1418661859 +0.0802172893",
    "scan dA": "-1.5880592350 0.6716921010 -0.2076115572 -0.1728995296",
    "scan dB": "+0.2034843778 11.6596928224 -1.9784154914 +0.3110891213",
    "scan dC": "+1.0588684752 10.7749166520 -1.0821302744 +0.6964441607",
    "q_shift": "+1.5504706397 23.6164026511 0 0",
    "pool": "+0.0350095017 36.4496014954 -0.1834150420 -0.4445056982",
}


def fill(shape, c):
    i = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * i + 0.3 * c).reshape(shape)


def leaf(shape, c):
    return fill(shape, c).requires_grad_()


def found(name, tensor):
    flat = tensor.detach().reshape(-1)
    values = [flat.sum(), (flat * flat).sum(), flat[0], flat[-1]]
    for value, printed in zip(values, PRINTED[name].split()):
        assert abs(float(value) - float(printed)) < 0.51e-10, (name, float(value), printed)


def site(name, **options):
    return Site({"name": name, **options}, B=1, D=4, H=1, grid=(4, 4))


def tokens():
    """q, k, v: (1, 16, 4)"""
    return [leaf((1, 16, 4), c) for c in (1, 2, 3)]


DY = fill((1, 16, 4), 9)


def check_eva():
    p = {"q_pool.weight": 0.3 * fill((4, 4), 4), "q_pool.bias": 0.1 * fill((4,), 5),
         "k_pool.weight": 0.3 * fill((4, 4), 6), "k_pool.bias": 0.1 * fill((4,), 7)}
    for letter in "qk":
        p[letter + "_pool_norm.weight"] = torch.ones(4, dtype=torch.float64)
        p[letter + "_pool_norm.bias"] = torch.zeros(4, dtype=torch.float64)
    p = {key: value.requires_grad_() for key, value in p.items()}
    noise = fill((1, 4, 4), 8)

    def run(noise, **options):
        s = site("eva", window=2, group=2, rpe=False, **options)
        q, k, v = tokens()
        return q, k, v, eva.mix(s, efficient_attention.options(s), p, q, k, v, noise)

    q, k, v, y = run(noise)
    (DY * y).sum().backward()
    found("eva", y)
    for name, tensor in (("q", q), ("k", k), ("v", v), ("W_q", p["q_pool.weight"]),
                         ("W_k", p["k_pool.weight"]), ("gamma_k", p["k_pool_norm.weight"])):
        found("eva d" + name, tensor.grad)
    found("eva evaluation", run(None)[3])
    found("eva sum", run(noise, param="sum")[3])
    found("eva disjoint", run(noise, visibility="disjoint")[3])
    s = site("eva", window=2, group=2)
    o = efficient_attention.options(s)
    beta = []
    for c, group in enumerate(eva.groups(s, o)[0]):
        omega = eva.proposal(o, p, q[:, group], k[:, group], 4)[1] + noise[:, c]
        beta.append(eva.group_value(o, omega, k[:, group], v[:, group]))
    found("eva beta", torch.cat(beta))


def check_lara():
    o = efficient_attention.options(site("lara", landmarks=4))
    q, k, v = tokens()
    q_bar, k_bar = leaf((1, 4, 4), 4), leaf((1, 4, 4), 5)
    y = eva.lara_mix(o, q, k, v, q_bar, k_bar, fill((1, 4, 4), 8))
    (DY * y).sum().backward()
    found("lara", y)
    for name, tensor in (("q", q), ("k", k), ("q_bar", q_bar), ("k_bar", k_bar)):
        found("lara d" + name, tensor.grad)


def performer(q, k, v, omega, **options):
    o = efficient_attention.options(site("performer", m=omega.shape[1], **options))
    return random_features.linear_attention(random_features.positive(q, omega, o, False),
                                            random_features.positive(k, omega, o, True), v, 0.0)


def check_features():
    q, k, v = tokens()
    y = performer(q, k, v, 2 * fill((1, 6, 4), 4), eps=0.0)
    (DY * y).sum().backward()
    found("performer", y)
    found("performer dq", q.grad)
    found("performer dk", k.grad)
    found("performer eps", performer(*tokens(), 2 * fill((1, 6, 4), 4)))
    transform = random_features.cosine_transform(4)
    for name, basis in (("dijiang", transform), ("dijiang paper", transform.T)):
        basis = basis * 2 * fill((4,), 4)
        a, f = softmax(q @ basis), softmax(k @ basis)
        found(name, random_features.linear_attention(a, f, v, 0.0))


def check_local():
    q, k, v = tokens()
    found("softmax", softmax(q @ k.transpose(1, 2) / 2) @ v)
    s = site("na")
    for name, edge in (("na", "clamp"), ("na clip", "clip")):
        cells = local_attention.neighbour_cells(s, 3, edge, None, 0)
        found(name, local_attention.see(s, q, k, v, cells))
    E, F = (0.5 * fill((16, 3), 4)).requires_grad_(), (0.5 * fill((16, 3), 5)).requires_grad_()
    y = local_attention.project(q, k, v, E, F)
    (DY * y).sum().backward()
    found("linformer", y)
    found("linformer dE", E.grad)
    found("linformer dF", F.grad)


def check_scans():
    for scan in (token_mixers.bi_wkv, mixers_second.scans):
        k, v = leaf((16, 4), 1), leaf((16, 4), 2)
        w, u = (fill((4,), 3) * 3 / 16).requires_grad_(), (fill((4,), 4) / 16).requires_grad_()
        y = scan(k, v, w, u)
        (DY[0] * y).sum().backward()
        found("wkv", y)
        for name, tensor in (("k", k), ("v", v), ("w", w), ("u", u)):
            found("wkv d" + name, tensor.grad)
    for scan in (token_mixers.selective_scan, mixers_second.dense_scan):
        x, B, C = leaf((8, 3), 1), leaf((8, 2), 4), leaf((8, 2), 5)
        dt = torch.nn.functional.softplus(fill((8, 3), 2)).requires_grad_()
        A = torch.tensor([[-1.0, -2.0]] * 3, dtype=torch.float64, requires_grad=True)
        y = scan(x, dt, A, B, C, torch.ones(3, dtype=torch.float64))
        (fill((8, 3), 9) * y).sum().backward()
        found("scan", y)
        for name, tensor in (("x", x), ("dt", dt), ("A", A), ("B", B), ("C", C)):
            found("scan d" + name, tensor.grad)
    image = fill((4, 4, 4), 1)
    found("q_shift", token_mixers.q_shift(image, 1))
    s = site("pool")
    found("pool", token_mixers.attention(s, {}, image.reshape(1, 16, 4)))


def near(a, b, tolerance=1e-10):
    error = float((a - b).abs().max())
    assert error <= tolerance * float(b.abs().max()), error


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def full(q, k, v):
    return softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])) @ v


def eva_mix(grid, q, k, v, noise=None, local_sets=None, **options):
    s = Site({"name": "eva", "param": "mean", "rpe": False, **options}, B=1, D=q.shape[-1], H=1,
             grid=grid)
    return eva.mix(s, efficient_attention.options(s), {}, q, k, v, noise, local_sets)


def exact_eva(q, k, v, sets, listed, omega):
    """The estimator before its masses are approximated. sets: (N, N), the singletons of each query;
    listed: groups; omega: one sample for each. One head, (N, d)."""
    d = q.shape[-1]
    q, k = q * d ** -0.25, k * d ** -0.25
    kernel = torch.exp(q @ k.T)
    y = (kernel * sets) @ v
    for n in range(q.shape[0]):
        for c, group in enumerate(listed):
            rest = [t for t in group if not sets[n, t]]
            if rest:
                logs = k[rest] @ omega[c] - (k[rest] ** 2).sum(-1) / 2
                beta = softmax(logs) @ v[rest]
                y[n] = y[n] + kernel[n, rest].sum() * beta
    return y / kernel.sum(-1, keepdim=True)


def check_eva_identities():
    """T-EVA-1 to 5, 7, 8, 10."""
    torch.manual_seed(1)
    q, k, v = (random(1, 16, 4) for _ in range(3))
    exact = full(q, k, v)
    one = {"window": 4, "group": 2}
    for visibility in ("disjoint", "remainder"):
        near(eva_mix((4, 4), q, k, v, visibility=visibility, **one), exact)
    assert float((eva_mix((4, 4), q, k, v, **one) - exact).abs().max()) > 1e-3
    # EVA-exact: singletons, or values that are constant in each group
    sets = torch.zeros(16, 16, dtype=torch.float64)
    sets[:, :3] = 1
    omega = random(16, 4)
    near(exact_eva(q[0], k[0], v[0], sets, [[t] for t in range(16)], omega), exact[0])
    quarters = [list(range(4 * i, 4 * i + 4)) for i in range(4)]
    same = v[0, ::4].repeat_interleave(4, 0)
    near(exact_eva(q[0], k[0], same, sets, quarters, omega), full(q, k, same[None])[0])
    # singleton groups without a local set, any noise
    nothing = [(list(range(16)), [])]
    near(eva_mix((4, 4), q, k, v, random(1, 16, 4), nothing, window=4, group=1), exact)
    # keys equal in each group, mass_bias, any noise
    s = Site({"name": "eva", "window": 2, "group": 2}, B=1, D=4, H=1, grid=(4, 4))
    groups = eva.groups(s, efficient_attention.options(s))[0]
    equal = k.clone()
    for group in groups:
        equal[:, group] = k[:, group[:1]]
    exact, noise = full(q, equal, v), random(1, 4, 4)
    mass = {"group": 2, "mass_bias": True}
    near(eva_mix((4, 4), q, equal, v, noise, nothing, window=4, **mass), exact)
    for visibility in ("disjoint", "remainder"):
        near(eva_mix((4, 4), q, equal, v, noise, window=2, visibility=visibility, **mass), exact)
    # linformer-pool: uniform weights in the groups follow from equal keys
    E = local_attention.block_means(s, 2)
    near(eva_mix((4, 4), q, equal, v, noise, nothing, window=2, group=2),
         local_attention.project(q, equal, v, E, E))
    # one group, several samples of N(0, I), consistent scale: Performer
    omega = random(1, 6, 4)
    logs = k * 4 ** -0.25 @ omega.transpose(1, 2) - (k * k).sum(-1, keepdim=True) / 4
    f = softmax(logs.transpose(1, 2)) @ v
    of_q = q * 4 ** -0.25 @ omega.transpose(1, 2) - (q * q).sum(-1, keepdim=True) / 4
    near(softmax(of_q + torch.logsumexp(logs, 1, keepdim=True)) @ f,
         performer(q, k, v, omega, eps=0.0))


def check_partition():
    """T-EVA-10, and how many tokens disjoint groups hide from a window."""
    for side, w, g, hidden in ((14, 7, 2, 15), (28, 7, 4, 95), (56, 7, 8, 207), (12, 4, 3, 20),
                               (8, 4, 2, 0), (16, 4, 4, 0)):
        def at(visibility):
            s = Site({"name": "eva", "window": w, "group": g, "visibility": visibility}, B=1, D=4,
                     H=1, grid=(side, side))
            return s, efficient_attention.options(s)

        s, o = at("disjoint")
        listed, most = eva.groups(s, o)[0], 0
        for queries, keys in local_attention.window_cells(s, o, None, 0):
            seen = sum([eva.visible(o, group, keys) for group in listed], list(keys))
            most = max(most, side * side - len(seen))
            rest = [eva.visible(at("remainder")[1], group, keys) for group in listed]
            assert sorted(sum(rest, list(keys))) == list(range(side * side))
            if w % g == 0:
                assert rest == [eva.visible(o, group, keys) for group in listed]
        assert most == hidden, (side, w, g, most)
        assert (eva.gaps(s, o) == 0) == (hidden == 0)


def check_families():
    """Constant values stay constant, and the identities of one variant each."""
    torch.manual_seed(2)
    for name, options in (("local", {"window": 2}), ("na", {"kernel": 3}),
                          ("longformer", {"window": 2}), ("performer", {"m": 6, "eps": 1e-2}),
                          ("dijiang", {}), ("eva", {"window": 2, "group": 2}),
                          ("flasheva", {"window": 2, "group": 2}), ("lara", {"landmarks": 4})):
        s = Site({"name": name, **options}, B=1, D=8, H=2, grid=(4, 4), prefix=1)
        p = {key: random(*shape) for key, shape in
             {**efficient_attention.shapes(s), **efficient_attention.buffers(s)}.items()}
        p["qkv.weight"][16:] = 0
        p["proj.weight"], p["proj.bias"] = torch.eye(8, dtype=torch.float64), 0 * p["proj.bias"]
        y = efficient_attention.attention(s, p, random(1, 17, 8))
        near(y, p["qkv.bias"][16:].expand_as(y))
    q, k, v = (random(1, 16, 4) for _ in range(3))
    exact = full(q, k, v)
    s = site("na")
    near(local_attention.see(s, q, k, v, local_attention.neighbour_cells(s, 7, "clamp", None, 0)),
         exact)
    near(local_attention.see(s, q, k, v, local_attention.raster_cells(s, 15, 1, None, 0)), exact)
    assert all(len(keys) == 9
               for _, keys in local_attention.neighbour_cells(s, 3, "clamp", None, 0))
    order = torch.eye(16, dtype=torch.float64)[torch.randperm(16)]
    near(local_attention.project(q, k, v, order, order), exact)
    o = efficient_attention.options(site("lara", landmarks=4))
    bars = random(1, 4, 4), random(1, 4, 4)
    near(eva.lara_mix(o, q, k[:, :1].expand_as(k), v, *bars), v.mean(1, keepdim=True).expand_as(v))
    y = eva.lara_mix(o, q, k, v, bars[0][:, :1], bars[1][:, :1])
    near(y, y[:, :1].expand_as(y))
    for d in (2, 5, 64):
        C = random_features.cosine_transform(d)
        near(C @ C.T, torch.eye(d, dtype=torch.float64), 1e-14 * d)


def check_scan_identities():
    torch.manual_seed(3)
    for T in (1, 2, 40):
        k, v, w, u = random(T, 3), random(T, 3), random(3) / 4, random(3)
        near(token_mixers.bi_wkv(k, v, w, u), mixers_second.scans(k, v, w, u))
    near(token_mixers.bi_wkv(k, v, 0 * w, 0 * u),
         (torch.softmax(k, 0) * v).sum(0).expand_as(v))
    t = torch.arange(40)
    far = (t[:, None] - t[None, :]).abs()[..., None].to(w.dtype)
    logs = k[None] - w * far + (far == 0) * (u - w)  # the other convention
    near((torch.softmax(logs, 1) * v[None]).sum(1), token_mixers.bi_wkv(k, v, w, u))
    x, dt, B, C, D = random(9, 3), random(9, 3).exp(), random(9, 2), random(9, 2), random(3)
    A = torch.full((3, 2), -1e4, dtype=torch.float64)  # no memory
    near(token_mixers.selective_scan(x, dt, A, B, C, D),
         (B * C).sum(-1, keepdim=True) * dt * x + D * x)
    s = Site({"name": "vim", "state": 3}, B=1, D=4, H=1, grid=(3, 3))
    p = {key: random(*shape) / 2 for key, shape in token_mixers.shapes(s).items()}
    swapped = {key: p[other(key)] for key in p}
    x = random(1, 9, 4)
    near(token_mixers.attention(s, swapped, x.flip(1)), token_mixers.attention(s, p, x).flip(1))


def other(key):
    """The name of the same parameter of the other direction."""
    if key in ("in_proj.weight", "out_proj.weight"):
        return key
    if "A_" in key:
        return {"A_log": "A_b_log", "A_b_log": "A_log"}[key]
    name, dot, rest = key.partition(".")
    return (name[:-2] if name.endswith("_b") else name + "_b") + dot + rest


def check():
    check_local()
    check_features()
    check_eva()
    check_lara()
    check_scans()
    check_eva_identities()
    check_partition()
    check_families()
    check_scan_identities()
