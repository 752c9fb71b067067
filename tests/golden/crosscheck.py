"""The same models from PyTorch's own modules, to check vit.py, and central differences.

Every variant is expressed by the function behind torch.nn.MultiheadAttention: a dropped projection
is the identity, and values mixed by W^A are handed over as `value`. Standard attention also goes
through torch.nn.TransformerEncoderLayer.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import attention

EPS = 1e-6  # not taken from vit.py, which is what is checked
TOLERANCE = 1e-12


def relative(a, b):
    return float((a - b).norm() / b.norm())


class Block:
    """One encoder block from torch.nn.functional: layer_norm, multi-head attention, gelu."""

    def __init__(self, m, p, prefix):
        self.m, self.p, self.prefix = m, p, prefix

    def attention(self, x):
        """(B, l, d) to (B, l, d) by F.multi_head_attention_forward, tokens first."""
        m, p, d = self.m, self.p, self.m.dim
        name, kept = self.prefix + "attn.", attention.kept(m)
        eye = torch.eye(d, dtype=torch.float64)
        zero = torch.zeros(d, dtype=torch.float64)
        rows = list(p[name + kept + ".weight"].split(d))
        biases = list(p[name + kept + ".bias"].split(d)) if m.qkv_bias else [zero] * len(kept)
        value = x
        if m.attention["name"] == "super":
            if "v" in kept:
                value = F.linear(x, rows.pop(), biases.pop())
            align = p[name + "align.weight"]
            if align.dim() == 2:
                align = align.expand(m.heads, -1, -1)
            cut = value.reshape(x.shape[0], m.tokens, m.heads, d // m.heads)
            value = torch.einsum("hts,bshk->bthk", align, cut).reshape(x.shape)
            if m.attention.get("wa_bias", False):
                value = value + p[name + "align.bias"].reshape(1, -1, 1)
        while len(rows) < 3:
            rows.append(eye)
            biases.append(zero)
        first = [t.transpose(0, 1) for t in (x, x, value)]
        out, _ = F.multi_head_attention_forward(
            *first, d, m.heads, torch.cat(rows), torch.cat(biases), None, None, False, 0.0,
            p[name + "proj.weight"], p.get(name + "proj.bias"), need_weights=False)
        return out.transpose(0, 1)

    def norm(self, which, x):
        return F.layer_norm(x, (self.m.dim,), self.p[self.prefix + which + ".weight"],
                            self.p[self.prefix + which + ".bias"], EPS)

    def __call__(self, x):
        p, name = self.p, self.prefix
        one = torch.ones((), dtype=torch.float64)
        x = x + p.get(name + "ls1.gamma", one) * self.attention(self.norm("norm1", x))
        y = F.linear(self.norm("norm2", x), p[name + "mlp.fc1.weight"], p[name + "mlp.fc1.bias"])
        y = F.linear(F.gelu(y), p[name + "mlp.fc2.weight"], p[name + "mlp.fc2.bias"])
        return x + p.get(name + "ls2.gamma", one) * y


def encoder_layer(m, p, prefix):
    """A TransformerEncoderLayer that holds the same numbers, and its parameters by our names."""
    layer = nn.TransformerEncoderLayer(m.dim, m.heads, m.hidden, dropout=0.0, activation=F.gelu,
                                       layer_norm_eps=EPS, batch_first=True, norm_first=True,
                                       dtype=torch.float64)
    names = {"self_attn.in_proj_weight": "attn.qkv.weight",
             "self_attn.in_proj_bias": "attn.qkv.bias",
             "self_attn.out_proj.weight": "attn.proj.weight",
             "self_attn.out_proj.bias": "attn.proj.bias", "linear1.weight": "mlp.fc1.weight",
             "linear1.bias": "mlp.fc1.bias", "linear2.weight": "mlp.fc2.weight",
             "linear2.bias": "mlp.fc2.bias", "norm1.weight": "norm1.weight",
             "norm1.bias": "norm1.bias", "norm2.weight": "norm2.weight", "norm2.bias": "norm2.bias"}
    layer.load_state_dict({theirs: p[prefix + ours].detach() for theirs, ours in names.items()})
    own = dict(layer.named_parameters())
    return layer, {prefix + ours: own[theirs] for theirs, ours in names.items()}


def logits_from(m, p, x, blocks):
    t = F.conv2d(x, p["patch_embed.proj.weight"], p["patch_embed.proj.bias"], stride=m.patch)
    t = t.flatten(2).transpose(1, 2)
    if m.prefix:
        t = torch.cat([p["cls_token"].repeat(x.shape[0], 1, 1), t], 1)
    if m.pos_embed == "learned":
        t = t + p["pos_embed"]
    elif m.pos_embed == "sincos":
        t = t + sincos_moco(m)
    for block in blocks:
        t = block(t)
    if not m.fc_norm:
        t = F.layer_norm(t, (m.dim,), p["norm.weight"], p["norm.bias"], EPS)
    t = t[:, 0] if m.prefix else t.mean(dim=1)
    if m.fc_norm:
        t = F.layer_norm(t, (m.dim,), p["fc_norm.weight"], p["fc_norm.bias"], EPS)
    return F.linear(t, p["head.weight"], p["head.bias"])


def sincos_moco(m):
    """The table of MoCo v3 (build_2d_sincos_position_embedding) on a grid in raster order.

    There meshgrid(grid_w, grid_h) indexes [w, h] and is flattened as it stands while the tokens are
    in raster order: on its square grids "w" runs over the rows. Here w is the row, h the column.
    """
    rows, columns = m.grid
    size = m.dim // 4
    omega = 1.0 / 10000.0 ** (torch.arange(size, dtype=torch.float64) / size)
    grid_w, grid_h = torch.meshgrid(torch.arange(rows, dtype=torch.float64),
                                    torch.arange(columns, dtype=torch.float64), indexing="ij")
    out_w = torch.einsum("m,d->md", grid_w.flatten(), omega)
    out_h = torch.einsum("m,d->md", grid_h.flatten(), omega)
    table = torch.cat([out_w.sin(), out_w.cos(), out_h.sin(), out_h.cos()], 1)
    return torch.cat([torch.zeros(1, m.prefix, m.dim, dtype=torch.float64), table[None]], 1)


def gradients(m, build, params, x, labels, smoothing):
    p = {name: value.detach().clone().requires_grad_() for name, value in params.items()}
    x = x.detach().clone().requires_grad_()
    blocks, theirs = build(p)
    logits = logits_from(m, p, x, blocks)
    loss = F.cross_entropy(logits, torch.tensor(labels), label_smoothing=smoothing)
    loss.backward()
    p.update(theirs)
    return logits, loss, {"x": x.grad, **{name: value.grad for name, value in p.items()}}


def check_modules(m, params, x, labels, smoothing, logits, loss, grads):
    """Asserts that PyTorch's modules give these logits, this loss and these gradients."""
    def plain(p):
        return [Block(m, p, "blocks.%d." % i) for i in range(m.depth)], {}

    def encoder(p):
        blocks, theirs = [], {}
        for i in range(m.depth):
            layer, own = encoder_layer(m, p, "blocks.%d." % i)
            blocks.append(layer)
            theirs.update(own)
        return blocks, theirs

    builders = [plain]
    if (m.attention["name"] == "standard" and m.qkv_bias and m.proj_bias
            and m.layer_scale is None):
        builders.append(encoder)
    for build in builders:
        check_same((logits, loss, grads), gradients(m, build, params, x, labels, smoothing))


def check_same(ours, theirs):
    """Asserts that two triples of logits, loss and gradients by name agree."""
    (logits, loss, grads), (other_logits, other_loss, others) = ours, theirs
    largest = max(float(g.norm()) for g in grads.values())
    assert relative(logits, other_logits) < TOLERANCE, "logits"
    assert abs(float(loss) - float(other_loss)) < TOLERANCE, "loss"
    assert set(others) == set(grads)
    for name, grad in grads.items():
        error = float((grad - others[name]).norm())
        assert error <= TOLERANCE * max(float(grad.norm()), 1e-3 * largest), (name, error)


def check_differences(evaluate, params, x, grads):
    """Asserts that analytic and central differences agree along one direction per tensor."""
    random = np.random.RandomState(1)
    step = 1e-5
    for name in grads:
        tensor = x if name == "x" else params[name]
        direction = torch.from_numpy(random.standard_normal(tuple(tensor.shape)))
        direction /= direction.norm()

        def at(t):
            moved = tensor + t * direction
            return evaluate(params, moved) if name == "x" else evaluate({**params, name: moved}, x)

        numeric = float(at(step) - at(-step)) / (2 * step)
        analytic = float((grads[name] * direction).sum())
        assert abs(numeric - analytic) <= 1e-8 * max(1.0, abs(analytic)), (name, numeric, analytic)
