"""Linear attention over random features: Performer, RFA and DiJiang.

For q, k of one head and x^ = d^(-1/4) x: y_i = sum_j phi(q_i).phi(k_j) v_j / sum_j
phi(q_i).phi(k_j). What a map subtracts in an exponent (its stabiliser) is a constant in gradients.
Regions are mixed each alone: their sums, and the stabilisers of their keys, are their own.
"""

import math

import torch

from mixing import by_region, layer_norm, linear, merge_heads, qkv_heads, softmax


def linear_attention(a, f, v, floor):
    """a, f: (H, n, m) features of queries and keys  v: (H, n, e). The denominator is at least
    `floor`; None: there is none."""
    y = a @ (f.transpose(-1, -2) @ v)
    if floor is None:
        return y
    den = a @ f.sum(-2)[..., None]
    return y / torch.clamp(den, min=floor)


def run(site, p, x, regions, mix):
    q, k, v = qkv_heads(site, p, x)
    return merge_heads(by_region(site, regions, mix, q, k, v))


def positive(x, omega, o, keys):
    """Choromanski et al., arXiv:2009.14794, lemma 1, rows omega (H, m, d): (H, n, m).

    hyp has the rows -omega as well. The stabiliser is the row's maximum of omega.x^ for queries,
    the head's over all tokens for keys.
    """
    scaled = x * x.shape[-1] ** -0.25
    rows = torch.cat([omega, -omega], -2) if o.map == "hyp" else omega
    angle = scaled @ rows.transpose(-1, -2)
    top = angle.amax((-1, -2) if keys else -1, keepdim=True).detach()
    e = torch.exp(angle - (scaled * scaled).sum(-1, keepdim=True) / 2 - top)
    ratio = rows.shape[-2] ** -0.5
    return ratio * (e + o.eps) if o.eps_inside else ratio * e + o.eps


def generalised(x, omega):
    """relu(omega.x^) / sqrt(m) + 0.001, as in the code of EVA's authors."""
    scaled = x * x.shape[-1] ** -0.25
    return torch.relu(scaled @ omega.transpose(-1, -2)) * omega.shape[-2] ** -0.5 + 1e-3


def performer(site, o, p, x, regions):
    omega = p["omega"]

    def mix(place, q, k, v):
        if o.map == "relu":
            a, f = generalised(q, omega), generalised(k, omega)
        else:
            a, f = positive(q, omega, o, False), positive(k, omega, o, True)
        return linear_attention(a, f, v, o.den_floor)

    return linear(p, "proj", run(site, p, x, regions, mix))


def trigonometric(x, omega):
    """exp(|x^|^2 / 2 - max) [sin omega.x^, cos omega.x^] / sqrt(m): (H, n, 2m). The maximum is the
    head's over all tokens, for queries as for keys."""
    scaled = x * x.shape[-1] ** -0.25
    angle = scaled @ omega.transpose(-1, -2)
    half = (scaled * scaled).sum(-1, keepdim=True) / 2
    factor = torch.exp(half - half.amax(-2, keepdim=True).detach())
    return factor * omega.shape[-2] ** -0.5 * torch.cat([torch.sin(angle), torch.cos(angle)], -1)


def rfa(site, o, p, x, regions):
    """Peng et al., arXiv:2103.02143, as in the code of EVA's authors: q and k as they are."""
    omega = p["omega"]
    return linear(p, "proj", run(site, p, x, regions, lambda place, q, k, v: linear_attention(
        trigonometric(q, omega), trigonometric(k, omega), v, o.den_floor)))


def cosine_transform(d):
    """The orthonormal DCT-II: row j, column n is alpha_j cos(pi (2n + 1) j / 2d)."""
    j = torch.arange(d, dtype=torch.float64)[:, None]
    n = torch.arange(d, dtype=torch.float64)[None, :]
    result = math.sqrt(2 / d) * torch.cos(math.pi * (2 * n + 1) * j / (2 * d))
    result[0] = math.sqrt(1 / d)
    return result


def dijiang(site, o, p, x, regions):
    """Chen et al., arXiv:2403.19928, with a sum over all tokens in place of the causal one.

    code: x C diag(t) (the transform's transpose), paper: diag(t) C x.
    """
    transform = cosine_transform(site.D // site.H)
    basis = (transform if o.projection == "code" else transform.T) * p["t"]
    assert o.map == "softmax" or o.norm == "sum", "the map exp needs the denominator"

    def feature(x, keys):
        z = x @ basis
        if o.map == "softmax":
            return softmax(z)
        top = z.amax((-1, -2) if keys else -1, keepdim=True).detach()
        return p["map.weight"] * torch.exp(z - top)

    def mix(place, q, k, v):
        return linear_attention(feature(q, False), feature(k, True), v,
                                0.0 if o.norm == "sum" else None)

    y = run(site, p, x, regions, mix)
    if o.norm == "group_norm":  # d groups of H channels, and the gate
        groups = y.reshape(y.shape[:-1] + (site.D // site.H, site.H))
        flat = {"group_norm.weight": torch.ones(site.H, dtype=y.dtype),
                "group_norm.bias": torch.zeros(site.H, dtype=y.dtype)}
        y = layer_norm(flat, "group_norm", groups).reshape(y.shape)
        y = y * p["group_norm.weight"] + p["group_norm.bias"]
        gate = linear(p, "gate", x)
        y = y * gate * torch.sigmoid(gate)
    return linear(p, "proj", y)
