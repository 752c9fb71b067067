"""The reference Swin Transformer in float64: plain tensor functions and autograd.

Written from arXiv:2103.14030, with names, shapes and the order of patch merging of the authors'
code, and arXiv:2403.01643 (the attention inside the windows). Two things are finer than there: tokens
of different regions exclude each other exactly (-inf on the score, where the authors add -100), and
window and shift are settled for each axis of its own, as in timm and torchvision.
"""

import math

import torch

from attention import attention, linear, shapes as attention_shapes
from vit import gelu, layer_norm, pair

EPS = 1e-5


class Stage:
    """Sizes of one stage: also the site of its attention."""

    def __init__(self, m, index):
        self.grid = tuple(g >> index for g in m.grid)
        assert all(g << index == whole for g, whole in zip(self.grid, m.grid)), "odd map"
        self.dim, self.heads = m.dim << index, m.heads[index]
        self.depth, self.attention = m.depths[index], m.attentions[index]
        self.qkv_bias, self.proj_bias = m.qkv_bias, m.proj_bias
        self.window = tuple(min(w, g) for w, g in zip(m.window, self.grid))
        assert all(g % w == 0 for g, w in zip(self.grid, self.window)), "window does not fit"
        self.tokens = self.window[0] * self.window[1]

    def shift(self, block):
        """How far the windows of a block are moved: down and to the right, by half a window."""
        if block % 2 == 0:
            return (0, 0)
        return tuple(w // 2 if w < g else 0 for w, g in zip(self.window, self.grid))


class Model:
    """What a "model" object of a config says, with the defaults filled in."""

    def __init__(self, config):
        known = {"name": "swin", "image_size": None, "channels": 3, "classes": None,
                 "patch_size": None, "dim": None, "depths": None, "heads": None,
                 "window_size": None, "mlp_ratio": 4, "qkv_bias": True, "proj_bias": True,
                 "attention": "standard"}
        unknown = set(config) - set(known)
        assert not unknown, "unknown model keys %s" % unknown
        for key, default in known.items():
            setattr(self, key, config.get(key, default))
        stages = len(self.depths)
        self.attentions = self.attention if isinstance(self.attention, list) else \
            [self.attention] * stages
        self.attentions = [{"name": a} if isinstance(a, str) else a for a in self.attentions]
        self.image, self.patch = pair(self.image_size), pair(self.patch_size)
        self.window = pair(self.window_size)
        assert self.image[0] % self.patch[0] == 0 and self.image[1] % self.patch[1] == 0
        self.grid = (self.image[0] // self.patch[0], self.image[1] // self.patch[1])
        self.stages = [Stage(self, s) for s in range(stages)]

    def hidden(self, stage):
        return int(stage.dim * self.mlp_ratio)


def parameter_shapes(m):
    """Name to shape of every trained parameter, in the order of the model."""
    shapes = {"patch_embed.proj.weight": (m.dim, m.channels) + m.patch,
              "patch_embed.proj.bias": (m.dim,)}

    def norm(name, size):
        shapes[name + ".weight"] = (size,)
        shapes[name + ".bias"] = (size,)

    norm("patch_embed.norm", m.dim)
    for s, stage in enumerate(m.stages):
        d, hidden = stage.dim, m.hidden(stage)
        for i in range(stage.depth):
            block = "layers.%d.blocks.%d." % (s, i)
            norm(block + "norm1", d)
            table = (2 * stage.window[0] - 1) * (2 * stage.window[1] - 1)
            shapes[block + "attn.relative_position_bias_table"] = (table, stage.heads)
            for name, shape in attention_shapes(stage).items():
                shapes[block + "attn." + name] = shape
            norm(block + "norm2", d)
            shapes[block + "mlp.fc1.weight"] = (hidden, d)
            shapes[block + "mlp.fc1.bias"] = (hidden,)
            shapes[block + "mlp.fc2.weight"] = (d, hidden)
            shapes[block + "mlp.fc2.bias"] = (d,)
        if stage is not m.stages[-1]:
            shapes["layers.%d.downsample.reduction.weight" % s] = (2 * d, 4 * d)
            norm("layers.%d.downsample.norm" % s, 4 * d)
    norm("norm", m.stages[-1].dim)
    shapes["head.weight"] = (m.classes, m.stages[-1].dim)
    shapes["head.bias"] = (m.classes,)
    return shapes


def cut_windows(x, window):
    """(B, rows, columns, ...) to (B windows, tokens, ...), both in raster order."""
    (B, rows, columns), (h, w) = x.shape[:3], window
    x = x.reshape(B, rows // h, h, columns // w, w, -1).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(B * (rows // h) * (columns // w), h * w, -1)


def join_windows(x, window, grid):
    (rows, columns), (h, w) = grid, window
    x = x.reshape(-1, rows // h, columns // w, h, w, x.shape[-1]).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, rows, columns, x.shape[-1])


def position_bias(table, window):
    """(heads, l, l): entry (t, j) is the table's for where t lies as seen from j."""
    h, w = window
    row = torch.arange(h).repeat_interleave(w)
    column = torch.arange(w).repeat(h)
    down = row[:, None] - row[None, :] + h - 1
    right = column[:, None] - column[None, :] + w - 1
    return table[down * (2 * w - 1) + right].permute(2, 0, 1)


def same_region(stage, shift):
    """(windows, l, l) for the shifted map: the authors' numbering of up to nine rectangles."""
    numbers = torch.zeros((1,) + stage.grid + (1,))
    slices = []
    for w, s in zip(stage.window, shift):
        slices.append([slice(None)] if s == 0 else
                      [slice(0, -w), slice(-w, -s), slice(-s, None)])
    count = 0
    for rows in slices[0]:
        for columns in slices[1]:
            numbers[:, rows, columns] = count
            count += 1
    numbers = cut_windows(numbers, stage.window)[..., 0]
    return numbers[:, :, None] == numbers[:, None, :]


def window_attention(stage, block, p, name, x, excluded=-math.inf):
    """(S)W-MSA of section 3.2. x, result: (B, N, d) in raster order of the map."""
    shift, windows = stage.shift(block), stage.grid[0] * stage.grid[1] // stage.tokens
    image = x.reshape((x.shape[0],) + stage.grid + (stage.dim,))
    image = torch.roll(image, (-shift[0], -shift[1]), (1, 2))
    regions = None
    if any(shift):
        regions = same_region(stage, shift).repeat(x.shape[0], 1, 1)
        assert regions.shape[0] == x.shape[0] * windows
    bias = position_bias(p[name + ".relative_position_bias_table"], stage.window)
    y = attention(stage, p, name, cut_windows(image, stage.window), bias, regions, excluded)
    y = torch.roll(join_windows(y, stage.window, stage.grid), shift, (1, 2))
    return y.reshape(x.shape)


def merge_patches(stage, p, name, x):
    """(B, N, d) to (B, N/4, 2d): the four of a square side by side, (0,0), (1,0), (0,1), (1,1)."""
    image = x.reshape((x.shape[0],) + stage.grid + (stage.dim,))
    parts = [image[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
    x = torch.cat(parts, -1).reshape(x.shape[0], -1, 4 * stage.dim)
    return linear(p, name + ".reduction", layer_norm(p, name + ".norm", x, EPS))


def patch_embed(m, p, x):
    """(B, C, H, W) to (B, N, d), patches in raster order, normalised."""
    (rows, columns), (ph, pw) = m.grid, m.patch
    patches = x.reshape(x.shape[0], m.channels, rows, ph, columns, pw)
    patches = patches.permute(0, 2, 4, 1, 3, 5).reshape(x.shape[0], rows * columns, -1)
    weight = p["patch_embed.proj.weight"].reshape(m.dim, -1)
    return layer_norm(p, "patch_embed.norm", patches @ weight.T + p["patch_embed.proj.bias"], EPS)


def forward(m, p, x, excluded=-math.inf):
    """Every traced output by name; the last one is "logits"."""
    out = {}
    t = out["patch_embed"] = patch_embed(m, p, x)
    for s, stage in enumerate(m.stages):
        for i in range(stage.depth):
            block = "layers.%d.blocks.%d" % (s, i)
            a = out[block + ".attn"] = window_attention(
                stage, i, p, block + ".attn", layer_norm(p, block + ".norm1", t, EPS), excluded)
            t = t + a
            f = linear(p, block + ".mlp.fc1", layer_norm(p, block + ".norm2", t, EPS))
            t = out[block] = t + linear(p, block + ".mlp.fc2", gelu(f))
        if stage is not m.stages[-1]:
            t = merge_patches(stage, p, "layers.%d.downsample" % s, t)
    t = out["norm"] = layer_norm(p, "norm", t, EPS)
    out["logits"] = linear(p, "head", t.mean(1))
    return out
