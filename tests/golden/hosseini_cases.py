"""The attentions of attention.py as golden cases of one layer, in a ViT and in shifted windows."""

import types

import torch
from torch.nn import functional as F

import attention as reference
import attn_layer
import swin
from attn_layer import Site

GLOBAL = ()
MAP = {"grid": (4, 6), "window": (2, 3), "shift": (1, 1), "block": 1, "blocks": 2}


def seen(site):
    """The site as attention.py wants it."""
    return types.SimpleNamespace(dim=site.D, heads=site.H, tokens=site.N, attention=site.attention,
                                 qkv_bias=site.qkv_bias, proj_bias=site.proj_bias)


def shapes(site):
    result = {}
    if site.window[0]:
        h, w = site.window
        result["relative_position_bias_table"] = ((2 * h - 1) * (2 * w - 1), site.H)
    return {**result, **reference.shapes(seen(site))}


def buffers(site):
    return {}


def attention(site, p, x, regions=None):
    p = {"attn." + name: value for name, value in p.items()}
    bias = same = None
    if site.window[0]:
        bias = swin.position_bias(p["attn.relative_position_bias_table"], site.window)
    if regions is not None:
        same = regions[:, :, None] == regions[:, None, :]
    return reference.attention(seen(site), p, "attn", x, bias, same)


def second(site, p, x, regions=None):
    """Token by token: the softmax over the keys that it may see."""
    d, kept = site.D // site.H, reference.kept(seen(site))
    projected = F.linear(x, p[kept + ".weight"], p.get(kept + ".bias")).split(site.D, -1)
    q, k, v = list(projected) + [x] * (3 - len(kept))
    columns = site.grid[1]
    rows = []
    for b in range(x.shape[0]):
        for t in range(site.N):
            keys = [j for j in range(site.N) if regions is None or regions[b, j] == regions[b, t]]
            parts = []
            for head in range(site.H):
                c = slice(head * d, (head + 1) * d)
                scores = k[b, keys, c] @ q[b, t, c] / d ** 0.5
                if site.window[0]:
                    h, w = site.window
                    at = [(t // columns - j // columns + h - 1) * (2 * w - 1)
                          + t % columns - j % columns + w - 1 for j in keys]
                    scores = scores + p["relative_position_bias_table"][at, head]
                values = v[b, :, c]
                if "align.weight" in p:  # with wa_mask a value mixes its own region alone
                    values = torch.stack([p["align.weight"][j, keys] @ v[b, keys, c] for j in keys])
                else:
                    values = values[keys]
                parts.append(F.softmax(scores, 0) @ values)
            rows.append(torch.cat(parts))
    return F.linear(torch.stack(rows).reshape(x.shape), p["proj.weight"], p.get("proj.bias"))


def cases():
    family = types.SimpleNamespace(GLOBAL=GLOBAL, shapes=shapes, buffers=buffers,
                                   attention=attention, second=second)
    masked = {"name": "super", "wa_mask": True}
    for name, chosen, changes in (
            ("standard_cls", {"name": "standard"}, {"prefix": 1}),
            ("standard_window", {"name": "standard"}, MAP),
            ("efficient_mean", {"name": "efficient"}, {"D": 12, "qkv_bias": False}),
            ("super_cls", {"name": "super"}, {"prefix": 1, "proj_bias": False}),
            ("super_window", masked, MAP)):
        yield attn_layer.case(family, "attn_" + name, Site(chosen, **changes))
