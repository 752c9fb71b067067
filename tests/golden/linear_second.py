"""The linear attentions once more, to check linear_attention.py: by the weights of all pairs.

Every region of every sample is taken out and treated as a sequence of its own, with its own N x N
weights from the closed form of the kernel, and PyTorch's functions where there are any.
"""

import math

import torch
from torch.nn import functional as F

from linear_attention import options


class Rounded(torch.autograd.Function):
    """Asymmetric uniform quantiser whose gradient passes straight through."""

    @staticmethod
    def forward(ctx, x, least, span, levels):
        step = max(span / levels, 1e-8)
        return ((x - least) / step).round().clamp(0, levels) * step + least

    @staticmethod
    def backward(ctx, g):
        return g, None, None, None


class Group:
    """Some tokens of one sample that form a sequence."""

    def __init__(self, site, o, p, tokens):
        self.site, self.o, self.p, self.tokens, self.n = site, o, p, tokens, len(tokens)


def average(weights, v, eps=0.0):
    """Weights divided by their row sums, times the values."""
    return (weights / (weights.sum(-1, keepdim=True) + eps)) @ v


def dots(q, k):
    return torch.einsum("hid,hjd->hij", q, k)


def scaled(q, k):
    return dots(q, k) / q.shape[-1] ** 0.5


def relu_linear(g, q, k, v):
    return average(dots(q.clamp(min=0), k.clamp(min=0)), v, g.o["eps"])


def elu_linear(g, q, k, v):
    phi = lambda x: torch.where(x > 0, x + 1, x.clamp(max=0).exp())
    return average(dots(phi(q), phi(k)), v, 1e-6)


def quadratic(g, q, k):
    """Kernel of the quadratic block of QT-ViT."""
    kind = g.o["reduce"]
    if kind == "self":
        return dots(q ** 2, k ** 2)
    if kind == "pool":
        q, k = (F.avg_pool1d(x, g.o["pool"]) for x in (q, k))
        return F.cosine_similarity(q[:, :, None], k[:, None], dim=-1) ** 2
    if kind == "chunk":
        parts = [x.chunk(g.o["chunk"], -1) for x in (q, k)]
        norms = [sum(part.norm(dim=-1) ** 4 for part in x) ** 0.5 for x in parts]
        top = sum(dots(a, b) ** 2 for a, b in zip(*parts))
        return top / (norms[0][:, :, None] * norms[1][:, None, :])
    parts = []
    for x in (q, k):
        block = torch.stack([x[..., int(i)] * x[..., int(j)] for i, j in g.p["pairs"]], -1)
        parts.append(F.normalize(block, dim=-1))
    return dots(*parts)


def qt(g, q, k, v):
    d, p = q.shape[-1], g.p
    weights = p["alpha"] ** 2 * quadratic(g, q, k) \
        + p["beta"] ** 2 * 2 / d ** 0.5 * dots(q, k) + p["gamma"] ** 2
    if g.o["reduce"] == "random":
        return weights @ v / weights.sum(-1, keepdim=True).clamp(min=1e-6)
    return average(weights, v)


def qt_released(g, q, k, v):
    q, k = (x / (x.norm(dim=-1, keepdim=True) + 1e-15) for x in (q, k))
    q, k = (x ** 2 / ((x ** 2).norm(dim=-1, keepdim=True) + 1e-15) for x in (q, k))
    return average(dots(q, k) + g.p["gamma"] ** 2, v, 1e-15)


def qt_exact(g, q, k, v):
    return average(((scaled(q, k) + 1) ** 2 + 1) / 2, v)


def sparse(q, k, threshold):
    weights = F.softmax(scaled(q, k), -1)
    return weights * (weights > threshold)


def taylor1(g, q, k, v):
    s = scaled(q, k)
    residual = 0.0
    if g.o["residual"] and (g.site.training or g.o["centre"] == "feature"):
        residual = sparse(g.rounded[0], g.rounded[1], g.o["threshold"])
    if g.o["centre"] == "none":
        return average(1 + s, v) + (residual @ v if torch.is_tensor(residual) else 0)
    if g.o["centre"] == "feature":
        centred = k - k.mean(-1, keepdim=True)
        return (residual / q.shape[-1] ** 0.5 + scaled(q, centred)) @ v
    return ((1 + s - s.mean(-1, keepdim=True)) / g.n + residual) @ v


def angular(g, q, k, v):
    cosine = F.cosine_similarity(q[:, :, None], k[:, None], dim=-1, eps=1e-6)
    if g.o["form"] == "kernel":
        return average(0.5 + cosine / math.pi, v)
    weights = torch.eye(g.n, dtype=v.dtype) / 2 + cosine / math.pi
    if g.o["aux"] and g.site.training:
        weights = weights + sparse(q, k, g.o["threshold"])
    return F.normalize(weights @ v, dim=-1, eps=1e-6)


def focused(g, q, k, v):
    """f_p written as |t| times the direction of t^p, on the row of all heads."""
    parts = []
    for x in (q, k):
        row = x.permute(1, 0, 2).reshape(g.n, -1)
        t = (row.clamp(min=0) + 1e-6) / torch.log1p(g.p["scale"].exp())
        row = t.norm(dim=1, keepdim=True) * F.normalize(t ** g.o["p"], dim=1)
        parts.append(row.reshape(g.n, len(x), -1).permute(1, 0, 2))
    return average(dots(*parts), v, g.n * 1e-6)


def cosformer(g, q, k, v):
    place = torch.tensor([max(0, t + 1 - g.site.prefix) for t in g.tokens], dtype=v.dtype)
    angle = math.pi / 2 * (place[:, None] - place[None, :]) / g.site.N
    weights = dots(q.clamp(min=0), k.clamp(min=0)) * angle.cos()
    return weights @ v / weights.sum(-1, keepdim=True).clamp(min=1e-6)


def hydra(g, q, k, v):
    norms = [x.pow(2).sum((0, 2)).sqrt()[:, None] for x in (q, k)]
    return torch.einsum("htc,hjc,hjc->htc", q / norms[0], k / norms[1], v)


def shen(g, q, k, v):
    return dots(q.softmax(-1), k.softmax(1)) @ v


def places(g):
    columns, prefix = g.site.grid[1], g.site.prefix
    patches = [max(0, t - prefix) for t in g.tokens]
    return [torch.tensor(t, dtype=torch.float64) for t in
            ([t // columns for t in patches], [t % columns for t in patches])]


def clamp_magnitude(t):
    small, large = t.abs() < 1e-4, t.abs() > 1e4
    return torch.where(t == 0, t, torch.where(small, 1e-4 * t.sign(),
                                              torch.where(large, 1e4 * t.sign(), t)))


def vicinity(g, q, k, v):
    q, k = q.clamp(min=0), k.clamp(min=0)
    turns = [math.pi / 2 * t / size for t, size in zip(places(g), g.site.grid)]
    if not g.o["clamp"]:
        down, right = [(t[:, None] - t[None, :]).cos() for t in turns]
        near = down * right if g.o["product"] else down + right
        return average(dots(q, k) * near, v, 1e-4)
    outputs = []  # the state itself is clamped
    down, right = turns
    if g.o["product"]:
        waves = [a * b for a in (down.cos(), down.sin()) for b in (right.cos(), right.sin())]
    else:
        waves = [down.cos(), down.sin(), right.cos(), right.sin()]
    for head in range(len(q)):
        a, f = (torch.cat([x[head] * w[:, None] for w in waves], 1) for x in (q, k))
        inverse = clamp_magnitude(1 / (a @ f.sum(0) + 1e-4))
        top = clamp_magnitude(a @ clamp_magnitude(f.T @ v[head]))
        outputs.append(clamp_magnitude(top * inverse[:, None]))
    return torch.stack(outputs)


def hedgehog(g, q, k, v):
    kernels = []
    for which, x in zip("qk", (q, k)):
        name = ("q" if g.o["tie"] else which) + "_map."
        z = torch.stack([F.linear(x[h], g.p[name + "weight"][h]) for h in range(len(x))])
        z = z + x if g.o["init"] == "zeros" else z
        if g.o["form"] == "joint":
            z = 2 * (z + g.p[name + "bias"][:, None])
            kernels.append(F.softmax(torch.cat([z, -z], -1), -1).chunk(2, -1))
        elif g.o["form"] == "exp":
            top, bottom = z.max(-1, keepdim=True).values, z.min(-1, keepdim=True).values
            kernels.append(((z - top).exp(), (bottom - z).exp()))
        else:
            kernels.append((F.softmax(z, -1), F.softmax(-z, -1)))
    return average(sum(dots(a, b) for a, b in zip(*kernels)), v, 1e-12)


def based(g, q, k, v):
    s = scaled(q, k)
    return average(1 + s + s ** 2 / 2, v, 1e-12)


def rebased(g, q, k, v):
    f = q.shape[-1]
    q, k = (F.layer_norm(x, (f,)) * g.p[n + "_norm.weight"][:, None]
            + g.p[n + "_norm.bias"][:, None] for n, x in (("q", q), ("k", k)))
    return average(dots(q, k) ** 2 / f, v, g.o["eps"])


def aft_simple(g, q, k, v):
    if g.o["form"] == "matrix":
        return dots(q.sigmoid(), k.softmax(1)) @ v
    return torch.einsum("htc,hjc,hjc->htc", q.sigmoid(), k.softmax(1), v)


def polynl(g, q, k, v):
    return dots(q, k) @ v / g.n


PAIRS = {f.__name__: f for f in (
    relu_linear, elu_linear, qt, qt_released, qt_exact, taylor1, angular, focused, cosformer, hydra,
    shen, vicinity, hedgehog, based, rebased, aft_simple, polynl)}


# --- around the mechanism -------------------------------------------------------------------------

def heads(site, p, x):
    """q, k, v: (B, H, N, .) each."""
    B, N = x.shape[:2]
    if "qkv.weight" in p:
        whole = F.linear(x, p["qkv.weight"], p.get("qkv.bias"))
        parts = whole.reshape(B, N, 3, site.H, -1).permute(2, 0, 3, 1, 4).unbind(0)
    else:
        parts = [F.linear(x, p[n + ".weight"]).reshape(B, N, site.H, -1).transpose(1, 2)
                 for n in "qkv"]
    q, k, v = parts
    if "k_pos" in p:
        table = p["k_pos"]
        if table.dim() == 2:  # (P, D)
            table = table.T
        table = table.reshape(site.H, -1, N - site.prefix).transpose(1, 2)
        k = k + F.pad(table, (0, 0, site.prefix, 0))
    return q, k, v


def convolved(site, p, v, tokens):
    """The depthwise term for one group of one sample: all other tokens are 0. v: (H, N, d)."""
    seen = torch.zeros(v.shape[1], 1, dtype=v.dtype)
    seen[tokens] = 1
    patches = (v * seen)[:, site.prefix:]
    weight = p["dwc.weight"]
    if weight.dim() == 2:
        y = F.conv2d(patches[None], weight[:, None, :, None], padding=(4, 0), groups=site.H)[0]
    else:
        image = patches.transpose(1, 2).unflatten(-1, site.grid)  # (H, d, rows, columns)
        y = F.conv2d(image, weight, p["dwc.bias"], padding=weight.shape[-1] // 2,
                     groups=len(weight)).flatten(2).transpose(1, 2)
    return F.pad(y, (0, 0, site.prefix, 0))[:, tokens]


def second(site, p, x, regions=None):
    """x, result: (B, N, D)."""
    o, name = options(site), site.attention["name"]
    q, k, v = heads(site, p, x)
    rounded = [q, k]
    if name == "taylor1" and o["residual"] and o["bits"]:
        for i, (which, t) in enumerate(zip("qk", (q, k))):
            least, span = p["quant.%s_min" % which], p["quant.%s_range" % which]
            if site.training:
                least, span = t.detach().min(), t.detach().max() - t.detach().min()
            rounded[i] = Rounded.apply(t, float(least), float(span), 2 ** o["bits"] - 1)
    rows = []
    for b in range(x.shape[0]):
        numbers = [0] * site.N if regions is None else regions[b].tolist()
        row = [None] * site.N
        for number in sorted(set(numbers)):
            tokens = [t for t in range(site.N) if numbers[t] == number]
            g = Group(site, o, p, tokens)
            g.rounded = [t[b][:, tokens] for t in rounded]
            y = PAIRS[name](g, *(t[b][:, tokens] for t in (q, k, v)))
            if "dwc.weight" in p:
                y = y + convolved(site, p, v[b], tokens)
            for i, t in enumerate(tokens):
                row[t] = y[:, i]
        rows.append(torch.stack(row, 1))
    y = torch.stack(rows)  # (B, H, N, e)
    if o.get("shortcut"):
        channels = v.permute(0, 1, 3, 2).flatten(0, 1)  # (B H, d, N)
        n = "shortcut.norm."
        y = y + F.gelu(F.batch_norm(
            channels, p[n + "running_mean"].clone(), p[n + "running_var"].clone(), p[n + "weight"],
            p[n + "bias"], site.training)).transpose(1, 2).reshape(v.shape)
    y = F.linear(y.permute(0, 2, 1, 3).flatten(2), p["proj.weight"], p.get("proj.bias"))
    return gated(site, o, p, x, y, regions) if name == "vicinity" else y


def gated(site, o, p, x, y, regions):
    """Feature-preserving connection of vicinity attention."""
    bound = clamp_magnitude if o["clamp"] else lambda t: t
    y = bound(y)
    rows = []
    for b in range(x.shape[0]):
        for t in range(site.N):
            own = list(range(site.N)) if regions is None else \
                [u for u in range(site.N) if regions[b, u] == regions[b, t]]
            squeezed = F.relu(F.linear(x[b][own].mean(0), p["gate.fc1.weight"]))
            rows.append(y[b, t] * (1 + F.linear(squeezed, p["gate.fc2.weight"]).sigmoid()))
    return bound(torch.stack(rows).reshape(y.shape))
