"""What checks swin.py: torchvision's Swin, PyTorch's own modules, and what must hold of any Swin.

For every variant the windows are here lists of tokens of the unmoved map, found by modular
arithmetic, and attention is the function behind torch.nn.MultiheadAttention with a float mask.
"""

import functools

import torch
from torch.nn import functional as F
from torchvision.models import swin_transformer as tv

import attention
import crosscheck
import formula
import swin

EPS = 1e-5  # not taken from swin.py, which is what is checked


# --- PyTorch's modules --------------------------------------------------------------------------


def windows_of(grid, window, shift):
    """For each window, its tokens as (index in raster order, row and column inside, region)."""
    (rows, columns), (h, w) = grid, window
    for top in range(0, rows, h):
        for left in range(0, columns, w):
            yield [(((top + i + shift[0]) % rows) * columns + (left + j + shift[1]) % columns,
                    i, j, (top + i + shift[0] >= rows, left + j + shift[1] >= columns))
                   for i in range(h) for j in range(w)]


def mixed_values(stage, p, name, value, together):
    """W^A on the values of one window, (B, l, d)."""
    B, l, d = value.shape
    align = p[name + "align.weight"].expand(stage.heads, l, l)
    if stage.attention.get("wa_mask", False):
        align = align * together
    cut = value.reshape(B, l, stage.heads, d // stage.heads)
    value = torch.einsum("hts,bshk->bthk", align, cut).reshape(value.shape)
    if stage.attention.get("wa_bias", False):
        value = value + p[name + "align.bias"].reshape(1, -1, 1)
    return value


def window_attention(stage, shift, p, name, x):
    B, N, d = x.shape
    h, w = stage.window
    kept, table = attention.kept(stage), p[name + "relative_position_bias_table"]
    eye, zero = torch.eye(d, dtype=torch.float64), torch.zeros(d, dtype=torch.float64)
    rows = list(p[name + kept + ".weight"].split(d))
    biases = list(p[name + kept + ".bias"].split(d)) if stage.qkv_bias else [zero] * len(kept)
    out = torch.zeros_like(x)
    for tokens in windows_of(stage.grid, stage.window, shift):
        index = torch.tensor([t[0] for t in tokens])
        y = x[:, index]
        together = torch.tensor([[float(a[3] == b[3]) for b in tokens] for a in tokens],
                                dtype=torch.float64)
        entry = torch.tensor([[(a[1] - b[1] + h - 1) * (2 * w - 1) + a[2] - b[2] + w - 1
                               for b in tokens] for a in tokens])
        scores = table[entry].permute(2, 0, 1) + torch.log(together)
        value, weights, offsets = y, list(rows), list(biases)
        if stage.attention["name"] == "super":
            if "v" in kept:
                value = F.linear(y, weights.pop(), offsets.pop())
            value = mixed_values(stage, p, name, value, together)
        while len(weights) < 3:
            weights.append(eye)
            offsets.append(zero)
        first = [t.transpose(0, 1) for t in (y, y, value)]
        part, _ = F.multi_head_attention_forward(
            *first, d, stage.heads, torch.cat(weights), torch.cat(offsets), None, None, False, 0.0,
            p[name + "proj.weight"], p.get(name + "proj.bias"), need_weights=False,
            attn_mask=scores.repeat(B, 1, 1))
        out = out.index_copy(1, index, part.transpose(0, 1))
    return out


def logits_from_modules(m, p, x):
    def norm(name, t):
        return F.layer_norm(t, t.shape[-1:], p[name + ".weight"], p[name + ".bias"], EPS)

    t = F.conv2d(x, p["patch_embed.proj.weight"], p["patch_embed.proj.bias"], stride=m.patch)
    t = norm("patch_embed.norm", t.flatten(2).transpose(1, 2))
    for s, stage in enumerate(m.stages):
        for i in range(stage.depth):
            name = "layers.%d.blocks.%d." % (s, i)
            shift = [w // 2 if i % 2 == 1 and g > w else 0
                     for g, w in zip(stage.grid, stage.window)]
            t = t + window_attention(stage, shift, p, name + "attn.", norm(name + "norm1", t))
            f = F.linear(norm(name + "norm2", t), p[name + "mlp.fc1.weight"],
                         p[name + "mlp.fc1.bias"])
            t = t + F.linear(F.gelu(f), p[name + "mlp.fc2.weight"], p[name + "mlp.fc2.bias"])
        if s + 1 < len(m.stages):
            image = t.reshape(t.shape[0], *stage.grid, stage.dim).permute(0, 3, 1, 2)
            four = F.unfold(image, 2, stride=2)  # channel slowest, then row, then column
            four = four.reshape(t.shape[0], stage.dim, 2, 2, -1).permute(0, 4, 3, 2, 1).flatten(2)
            name = "layers.%d.downsample." % s
            t = F.linear(norm(name + "norm", four), p[name + "reduction.weight"])
    return F.linear(norm("norm", t).mean(1), p["head.weight"], p["head.bias"])


# --- torchvision --------------------------------------------------------------------------------


def torchvision_name(name):
    """Our name of a parameter in torchvision's state dict."""
    parts = name.split(".")
    if parts[0] == "patch_embed":
        parts[:2] = ["features", "0", {"proj": "0", "norm": "2"}[parts[1]]]
    elif parts[0] == "layers" and parts[2] == "downsample":
        parts[:3] = ["features", str(2 * int(parts[1]) + 2)]
    elif parts[0] == "layers":
        parts[:3] = ["features", str(2 * int(parts[1]) + 1)]
        if parts[3] == "mlp":
            parts[4] = {"fc1": "0", "fc2": "3"}[parts[4]]
    return ".".join(parts)


def torchvision_model(m):
    """An untrained SwinTransformer of torchvision with the sizes of m, in float64.

    torchvision pads a map that is smaller than the window; here each stage gets the window that
    fits, as the authors' code settles it.
    """
    windows = {stage.dim: list(stage.window) for stage in m.stages}

    def block(dim, heads, window_size, shift_size, **others):
        window = windows[dim]
        moved = [w // 2 if any(shift_size) else 0 for w in window]
        return tv.SwinTransformerBlock(dim, heads, window, moved, **others)

    model = tv.SwinTransformer(list(m.patch), m.dim, list(m.depths), list(m.heads), list(m.window),
                               mlp_ratio=m.mlp_ratio, stochastic_depth_prob=0.0,
                               num_classes=m.classes, block=block)
    if m.channels != 3:
        model.features[0][0] = torch.nn.Conv2d(m.channels, m.dim, m.patch, m.patch)
    return model.double()


def load(model, params):
    """Fills torchvision's model from our parameters: every one of them, and no others."""
    theirs = {torchvision_name(n): v.detach() for n, v in params.items()}
    missing, unexpected = model.load_state_dict(theirs, strict=False)
    assert not unexpected, unexpected
    assert all(n.endswith("relative_position_index") for n in missing), missing


def check_torchvision(model, params, x, labels, smoothing, ours):
    load(model, params)
    x = x.detach().clone().requires_grad_()
    logits = model(x)
    loss = F.cross_entropy(logits, torch.tensor(labels), label_smoothing=smoothing)
    loss.backward()
    own = dict(model.named_parameters())
    grads = {"x": x.grad, **{n: own[torchvision_name(n)].grad for n in params}}
    assert len(own) == len(params)
    crosscheck.check_same(ours, (logits, loss, grads))


# --- what must hold -----------------------------------------------------------------------------


def check_regions(m, params, x):
    """Tokens that meet only through the shift do not touch each other, to the last bit, where
    scores alone or W^A too is masked; with wa_mask off they must."""
    for s, stage in enumerate(m.stages):
        for i in range(stage.depth):
            shift = stage.shift(i)
            if not any(shift):
                continue
            name = "layers.%d.blocks.%d.attn" % (s, i)
            generator = torch.Generator().manual_seed(1)
            rows, columns = stage.grid
            t = torch.randn(1, rows * columns, stage.dim, dtype=torch.float64, generator=generator)
            wrapped = torch.tensor([[r < shift[0] or c < shift[1] for c in range(columns)]
                                    for r in range(rows)]).flatten()
            moved = t + wrapped[:, None] * torch.randn(t.shape, dtype=torch.float64,
                                                       generator=generator)
            a, b = (swin.window_attention(stage, i, params, name, v)[0, ~wrapped]
                    for v in (t, moved))
            leaks = (stage.attention["name"] == "super"
                     and not stage.attention.get("wa_mask", False))
            assert torch.equal(a, b) != leaks, name


PUBLISHED = {"tiny": (96, (2, 2, 6, 2), (28288354, 26127394, 23966434, 23995246)),
             "small": (96, (2, 2, 18, 2), (49606258, 45671218, 41736178, 41793802)),
             "base": (128, (2, 2, 18, 2), (87768224, 80776608, 73784992, 73842616))}


def published_model(size, variant):
    dim, depths, _ = PUBLISHED[size]
    return swin.Model({"image_size": 224, "classes": 1000, "patch_size": 4, "dim": dim,
                       "depths": list(depths), "heads": [dim // 32 << s for s in range(4)],
                       "window_size": 7, "attention": variant})


def check_published():
    """Numbers of parameters, and the whole of Swin-T at 224 pixels beside torchvision's swin_t."""
    for size, (_, _, counts) in PUBLISHED.items():
        for variant, count in zip(("standard", "optimized", "efficient", "super"), counts):
            shapes = swin.parameter_shapes(published_model(size, variant))
            assert sum(functools.reduce(int.__mul__, s) for s in shapes.values()) == count
    m = published_model("tiny", "standard")
    params = {n: torch.from_numpy(formula.tensor(n, s))
              for n, s in swin.parameter_shapes(m).items()}
    x = torch.from_numpy(formula.tensor("x", (1, 3, 224, 224)))
    labels = [3]
    ours = gradients(swin.forward, m, params, x, labels)
    check_torchvision(tv.swin_t().double().eval(), params, x, labels, 0.0, ours)


def gradients(forward, m, params, x, labels, smoothing=0.0):
    """Logits, loss and gradients by name of a function of (m, params, x)."""
    p = {name: value.detach().clone().requires_grad_() for name, value in params.items()}
    x = x.detach().clone().requires_grad_()
    logits = forward(m, p, x)
    if isinstance(logits, dict):
        logits = logits["logits"]
    loss = F.cross_entropy(logits, torch.tensor(labels), label_smoothing=smoothing)
    loss.backward()
    return logits, loss, {"x": x.grad, **{name: value.grad for name, value in p.items()}}


def check(m, params, x, labels, smoothing, logits, loss, grads):
    """Everything above for one case."""
    ours = (logits, loss, grads)
    crosscheck.check_same(ours, gradients(logits_from_modules, m, params, x, labels, smoothing))
    hundred = functools.partial(swin.forward, excluded=-100.0)
    crosscheck.check_same(ours, gradients(hundred, m, params, x, labels, smoothing))
    if all(a["name"] == "standard" for a in m.attentions) and m.qkv_bias and m.proj_bias:
        check_torchvision(torchvision_model(m), params, x, labels, smoothing, ours)
    check_regions(m, params, x)
