"""The reference Vision Transformer in float64: plain tensor functions and autograd.

Written from arXiv:2010.11929 (pre-norm encoder) and arXiv:2403.01643 (the attention variants), with
parameter names and shapes as in the checkpoints of attnbench. Linear weights are out x in.
"""

import math

import torch

from attention import attention, linear, shapes as attention_shapes

EPS = 1e-6


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


class Model:
    """What a "model" object of a config says, with the defaults filled in."""

    def __init__(self, config):
        known = {"name": "vit", "image_size": None, "channels": 3, "classes": None,
                 "patch_size": None, "dim": None, "depth": None, "heads": None, "mlp_ratio": 4,
                 "pool": "cls", "pos_embed": "learned", "qkv_bias": True, "proj_bias": True,
                 "layer_scale": None, "fc_norm": False, "attention": "standard"}
        unknown = set(config) - set(known)
        assert not unknown, "unknown model keys %s" % unknown
        for key, default in known.items():
            setattr(self, key, config.get(key, default))
        if isinstance(self.attention, str):
            self.attention = {"name": self.attention}
        self.image, self.patch = pair(self.image_size), pair(self.patch_size)
        assert self.image[0] % self.patch[0] == 0 and self.image[1] % self.patch[1] == 0
        self.grid = (self.image[0] // self.patch[0], self.image[1] // self.patch[1])
        self.prefix = 1 if self.pool == "cls" else 0
        self.tokens = self.grid[0] * self.grid[1] + self.prefix
        self.hidden = int(self.dim * self.mlp_ratio)


def parameter_shapes(m):
    """Name to shape of every trained parameter, in the order of the model."""
    d, shapes = m.dim, {}
    if m.prefix:
        shapes["cls_token"] = (1, 1, d)
    if m.pos_embed == "learned":
        shapes["pos_embed"] = (1, m.tokens, d)
    shapes["patch_embed.proj.weight"] = (d, m.channels) + m.patch
    shapes["patch_embed.proj.bias"] = (d,)

    def norm(name):
        shapes[name + ".weight"] = (d,)
        shapes[name + ".bias"] = (d,)

    for i in range(m.depth):
        block = "blocks.%d." % i
        norm(block + "norm1")
        for name, shape in attention_shapes(m).items():
            shapes[block + "attn." + name] = shape
        if m.layer_scale is not None:
            shapes[block + "ls1.gamma"] = (d,)
        norm(block + "norm2")
        shapes[block + "mlp.fc1.weight"] = (m.hidden, d)
        shapes[block + "mlp.fc1.bias"] = (m.hidden,)
        shapes[block + "mlp.fc2.weight"] = (d, m.hidden)
        shapes[block + "mlp.fc2.bias"] = (d,)
        if m.layer_scale is not None:
            shapes[block + "ls2.gamma"] = (d,)
    norm("fc_norm" if m.fc_norm else "norm")
    shapes["head.weight"] = (m.classes, d)
    shapes["head.bias"] = (m.classes,)
    return shapes


def layer_norm(p, name, x, eps=EPS):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + eps) * p[name + ".weight"] + p[name + ".bias"]


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2.0)))


def sincos(m):
    """Fixed 2-D position embedding (1, tokens, d): patch (row r, column c) in raster order gets
    [sin(r w), cos(r w), sin(c w), cos(c w)] with w_i = 10000^(-i / (d/4)); zero for cls_token."""
    assert m.dim % 4 == 0
    rows, columns = m.grid
    omega = 10000.0 ** (-torch.arange(m.dim // 4, dtype=torch.float64) / (m.dim // 4))
    table = torch.zeros(1, m.tokens, m.dim, dtype=torch.float64)
    for r in range(rows):
        for c in range(columns):
            table[0, m.prefix + r * columns + c] = torch.cat(
                [torch.sin(r * omega), torch.cos(r * omega),
                 torch.sin(c * omega), torch.cos(c * omega)])
    return table


def patch_embed(m, p, x):
    """(B, C, H, W) to (B, grid rows * grid columns, d), patches in raster order."""
    (rows, columns), (ph, pw) = m.grid, m.patch
    patches = x.reshape(x.shape[0], m.channels, rows, ph, columns, pw)
    patches = patches.permute(0, 2, 4, 1, 3, 5).reshape(x.shape[0], rows * columns, -1)
    weight = p["patch_embed.proj.weight"].reshape(m.dim, -1)
    return patches @ weight.T + p["patch_embed.proj.bias"]


def forward(m, p, x):
    """Every traced output by name; the last one is "logits"."""
    out = {}
    t = out["patch_embed"] = patch_embed(m, p, x)
    if m.prefix:
        t = torch.cat([p["cls_token"].expand(x.shape[0], 1, m.dim), t], 1)
    if m.pos_embed == "learned":
        t = t + p["pos_embed"]
    elif m.pos_embed == "sincos":
        t = t + sincos(m)
    for i in range(m.depth):
        block = "blocks.%d" % i
        a = out[block + ".attn"] = attention(m, p, block + ".attn",
                                             layer_norm(p, block + ".norm1", t))
        t = t + a * p.get(block + ".ls1.gamma", 1.0)
        f = linear(p, block + ".mlp.fc1", layer_norm(p, block + ".norm2", t))
        f = linear(p, block + ".mlp.fc2", gelu(f))
        t = t + f * p.get(block + ".ls2.gamma", 1.0)
        out[block] = t
    if not m.fc_norm:
        t = out["norm"] = layer_norm(p, "norm", t)
    t = t[:, 0] if m.prefix else t.mean(1)
    if m.fc_norm:
        t = layer_norm(p, "fc_norm", t)
    out["logits"] = linear(p, "head", t)
    return out


def loss(logits, labels, smoothing=0.0):
    """Mean over the batch of (1-s) (-log p_y) + (s/K) sum_c (-log p_c)."""
    shifted = logits - logits.max(-1, keepdim=True).values
    log_p = shifted - torch.log(torch.exp(shifted).sum(-1, keepdim=True))
    xent = -log_p[torch.arange(len(labels)), torch.tensor(labels)]
    return ((1 - smoothing) * xent - smoothing / logits.shape[1] * log_p.sum(-1)).mean()
