"""The reference attention of arXiv:2403.01643, for any host: plain tensor functions.

A site is an object with dim, heads, tokens, attention (the object of a config), qkv_bias and
proj_bias: the whole model in a ViT, a stage in a Swin.
"""

import math

import torch


def kept(site):
    """The projections of X that the variant learns: a prefix of "qkv"."""
    name = site.attention["name"]
    base = site.attention.get("base", "efficient") if name == "super" else name
    return {"standard": "qkv", "optimized": "qk", "efficient": "q"}[base]


def shapes(site):
    """Name to shape of the parameters below the attention's own name."""
    d, l, projections = site.dim, site.tokens, kept(site)
    result = {projections + ".weight": (len(projections) * d, d)}
    if site.qkv_bias:
        result[projections + ".bias"] = (len(projections) * d,)
    if site.attention["name"] == "super":
        shared = site.attention.get("wa_share", True)
        result["align.weight"] = (l, l) if shared else (site.heads, l, l)
        if site.attention.get("wa_bias", False):
            result["align.bias"] = (l,)
    result["proj.weight"] = (d, d)
    if site.proj_bias:
        result["proj.bias"] = (d,)
    return result


def linear(p, name, x):
    y = x @ p[name + ".weight"].T
    return y + p[name + ".bias"] if name + ".bias" in p else y


def attention(site, p, name, x, bias=None, same_region=None, excluded=-math.inf):
    """Eqs. 19-23 of arXiv:2403.01643v2 and the two variants before them. x, result: (B, l, d).

    bias: (heads, l, l), added to the scores. same_region: (B, l, l), true where two tokens may see
    each other; the score of all others gets `excluded` added, and with wa_mask the kernel W^A is 0
    there.
    """
    d, h, projections = site.dim, site.heads, kept(site)
    k = d // h
    projected = linear(p, name + "." + projections, x)
    q = projected[..., :d]
    keys = projected[..., d:2 * d] if "k" in projections else x
    values = projected[..., 2 * d:] if "v" in projections else x
    align = p.get(name + ".align.weight")
    if align is not None and same_region is not None and site.attention.get("wa_mask", False):
        together = same_region if align.dim() == 2 else same_region[:, None]
        align = align * together.to(align.dtype)  # (B, l, l) or (B, heads, l, l)
    outputs = []
    for i in range(h):
        c = slice(i * k, (i + 1) * k)
        scores = q[..., c] @ keys[..., c].transpose(-1, -2) / math.sqrt(k)
        if bias is not None:
            scores = scores + bias[i]
        if same_region is not None:
            apart = torch.zeros(same_region.shape, dtype=scores.dtype)
            scores = scores + apart.masked_fill(~same_region, excluded)
        s = torch.exp(scores - scores.max(-1, keepdim=True).values)
        s = s / s.sum(-1, keepdim=True)
        v = values[..., c]
        if align is not None:
            shared = site.attention.get("wa_share", True)
            v = (align if shared else align[..., i, :, :]) @ v
            if name + ".align.bias" in p:
                v = v + p[name + ".align.bias"][:, None]
        outputs.append(s @ v)
    return linear(p, name + ".proj", torch.cat(outputs, -1))
