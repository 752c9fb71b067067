"""The mechanisms of linear attentions, for linear_attention.py: what is between the projections.

q, k: (B, H, N, d), v: (B, H, N, e), result: (B, H, N, e). `o` holds all options, `p` the parameters
and buffers.
"""

import math

import torch
from torch.nn import functional as F

LEAST_NORM = 1e-6  # of a vector that is scaled to length 1


def split(x, heads):
    """(B, N, H d) to (B, H, N, d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(-2)


# --- sums over keys -------------------------------------------------------------------------------

class Keys:
    """What is summed over the keys that a query sees: all, or those of its own region."""

    def __init__(self, regions, x):
        B, N = x.shape[:2]
        numbers = torch.zeros(B, N, dtype=torch.int64) if regions is None else regions
        self.own = F.one_hot(numbers)[:, None].to(x.dtype)  # (B, 1, N, regions)
        self.count = self.sum(torch.ones(B, 1, N, 1, dtype=x.dtype))  # (B, 1, N, 1)

    def state(self, features, values):
        """(B, H, regions, D, e): sum of the outer products."""
        return torch.einsum("bxnr,bhnc,bhne->bhrce", self.own, features, values)

    def read(self, features, state):
        """(B, H, N, e): the query's features times the state of its region."""
        return torch.einsum("bxnr,bhnc,bhrce->bhne", self.own, features, state)

    def sum(self, t):
        return self.own @ (self.own.transpose(-1, -2) @ t)

    def mean(self, t):
        return self.sum(t) / self.count

    def softmax(self, t):
        """Over the tokens, for each feature."""
        e = torch.exp(t - t.amax(-2, keepdim=True))
        return e / self.sum(e)

    def attend(self, a, f, v):
        """Numerator and normaliser: a_i (sum_j f_j v_j), a_i (sum_j f_j)."""
        ones = torch.ones(v.shape[:-1] + (1,), dtype=v.dtype)
        both = self.read(a, self.state(f, torch.cat([v, ones], -1)))
        return both[..., :-1], both[..., -1:]

    def normalised(self, a, f, v, eps=0.0):
        numerator, n = self.attend(a, f, v)
        return numerator / (n + eps)

    def sparse(self, q, k, v, threshold):
        """(mask P) v: the weights of softmax(q k^T / sqrt(d)) above the threshold, as they are."""
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        apart = self.own @ self.own.transpose(-1, -2) == 0
        weights = torch.softmax(scores.masked_fill(apart, -math.inf), -1)
        return torch.where(weights > threshold, weights, torch.zeros_like(weights)) @ v


# --- feature maps ---------------------------------------------------------------------------------

def unit(x):
    return x / x.norm(dim=-1, keepdim=True).clamp(min=LEAST_NORM)


def with_constant(x, value):
    return torch.cat([x, value * torch.ones(x.shape[:-1] + (1,), dtype=x.dtype)], -1)


def products(x):
    """All x_i x_j, flat."""
    return (x[..., :, None] * x[..., None, :]).flatten(-2)


def upper(x, diagonal, rest):
    """The products of a symmetric basis: diagonal x_i^2, then rest x_i x_j with i < j."""
    i, j = torch.triu_indices(x.shape[-1], x.shape[-1], 1)
    return torch.cat([diagonal * x * x, rest * x[..., i] * x[..., j]], -1)


def taylor2(x, basis):
    """Features with the product 1 + s + s^2 / 2, s = q k / sqrt(d)."""
    d = x.shape[-1]
    if basis == "kron":  # Eqs. 6-8 of QT-ViT
        u = with_constant(x / d ** 0.25, 1.0)
        return with_constant(products(u) / math.sqrt(2), 1 / math.sqrt(2))
    square = products(x) / math.sqrt(2 * d) if basis == "full" else \
        upper(x, 1 / math.sqrt(2 * d), 1 / math.sqrt(d))
    return torch.cat([with_constant(x / d ** 0.25, 1.0), square], -1)


def reduced(o, p, x):
    """The quadratic block of QT-ViT: Eq. 11, or a row of Table 3 with length 1."""
    kind, d = o["reduce"], x.shape[-1]
    if kind == "self":
        return x * x
    if kind == "pool":
        block = products(x.unflatten(-1, (-1, o["pool"])).mean(-1))
    elif kind == "chunk":
        chunks = o["chunk"]
        block = products(x.unflatten(-1, (chunks, d // chunks))).flatten(-2)
    else:
        i, j = p["pairs"].long().unbind(-1)
        block = x[..., i] * x[..., j]
    return block / (block.norm(dim=-1, keepdim=True) + 1e-15)


def hedgehog_features(o, p, which, x):
    name = ("q" if o["tie"] else which) + "_map"
    z = torch.einsum("bhnc,hec->bhne", x, p[name + ".weight"])  # W x, a matrix for each head
    if o["init"] == "zeros":
        z = z + x
    form = o["form"]
    if form == "joint":
        z = z + p[name + ".bias"][:, None]
        return torch.softmax(torch.cat([2 * z, -2 * z], -1), -1)
    if form == "exp":
        halves = [torch.exp(z - z.amax(-1, keepdim=True)), torch.exp(-z + z.amin(-1, keepdim=True))]
    else:
        halves = [torch.softmax(z, -1), torch.softmax(-z, -1)]
    return torch.cat(halves, -1).clamp(min=1e-12)


# --- mechanisms -----------------------------------------------------------------------------------

def relu_linear(site, o, p, q, k, v, keys):
    return keys.normalised(torch.relu(q), torch.relu(k), v, o["eps"])


def elu_linear(site, o, p, q, k, v, keys):
    return keys.normalised(F.elu(q) + 1, F.elu(k) + 1, v, 1e-6)


def qt(site, o, p, q, k, v, keys):
    """Eq. 11 with alpha, beta, gamma merged; Table 3."""
    def features(x):
        linear = (4 / x.shape[-1]) ** 0.25 * x
        return with_constant(torch.cat([p["alpha"] * reduced(o, p, x), p["beta"] * linear], -1),
                             p["gamma"])

    if o["reduce"] != "random":
        return keys.normalised(features(q), features(k), v)
    numerator, n = keys.attend(features(q), features(k), v)
    return numerator / n.clamp(min=1e-6)


def qt_released(site, o, p, q, k, v, keys):
    def features(x):
        y = x * x
        return with_constant(y / (y.norm(dim=-1, keepdim=True) + 1e-15), p["gamma"])

    return keys.normalised(features(q), features(k), v, 1e-15)


def qt_exact(site, o, p, q, k, v, keys):
    basis = o["basis"]
    return keys.normalised(taylor2(q, basis), taylor2(k, basis), v)


def quantised(site, o, p, which, x):
    """4 bits over the whole batch, or over the running range; the gradient passes unchanged."""
    bits = o["bits"]
    if not bits:
        return x
    with torch.no_grad():
        least, span = x.min(), x.max() - x.min()
        if not site.training:
            least, span = p["quant.%s_min" % which], p["quant.%s_range" % which]
        step = torch.clamp(span / (2 ** bits - 1), min=1e-8)
        rounded = torch.clamp(torch.round((x - least) / step), 0, 2 ** bits - 1) * step + least
        difference = rounded - x
    return x + difference


def taylor1(site, o, p, q, k, v, keys):
    """ViTALiTy. centre feature: the authors' code, in which the residual stays in evaluation."""
    centre, d = o["centre"], q.shape[-1]
    residual = 0.0
    if o["residual"] and (site.training or centre == "feature"):
        residual = keys.sparse(quantised(site, o, p, "q", q), quantised(site, o, p, "k", k), v,
                               o["threshold"])
    if centre == "none":
        features = [with_constant(x / d ** 0.25, 1.0) for x in (q, k)]
        return keys.normalised(features[0], features[1], v) + residual
    if centre == "feature":
        k = k - k.mean(-1, keepdim=True)
        return (residual + keys.read(q, keys.state(k, v))) / math.sqrt(d)
    k = k - keys.mean(k)
    read = keys.read(q, keys.state(k, v)) / (keys.count * math.sqrt(d))
    return keys.mean(v) + read + residual


def angular(site, o, p, q, k, v, keys):
    a, f = unit(q), unit(k)
    if o["form"] == "kernel":
        features = [with_constant(x / math.sqrt(math.pi), math.sqrt(0.5)) for x in (a, f)]
        return keys.normalised(features[0], features[1], v)
    y = v / 2 + keys.read(a, keys.state(f, v)) / math.pi
    if o["aux"] and site.training:
        y = y + keys.sparse(q, k, v, o["threshold"])
    return unit(y)


def focused(site, o, p, q, k, v, keys):
    """Norms run over all heads; k comes with its table row."""
    def features(x):
        t = (torch.relu(merge(x)) + 1e-6) / F.softplus(p["scale"])
        power = t ** o["p"]
        power = power / power.norm(dim=-1, keepdim=True) * t.norm(dim=-1, keepdim=True)
        return split(power, site.H)

    numerator, n = keys.attend(features(q), features(k), v)
    return numerator / keys.count / (n / keys.count + 1e-6)


def cosformer(site, o, p, q, k, v, keys):
    """Index 0 for prefix tokens, then 1, 2, ...; M is the number of tokens."""
    index = (torch.arange(site.N, dtype=q.dtype) - site.prefix + 1).clamp(min=0)
    theta = (math.pi / 2 * index / site.N)[:, None]
    a, f = (torch.cat([torch.relu(x) * torch.sin(theta), torch.relu(x) * torch.cos(theta)], -1)
            for x in (q, k))
    numerator, n = keys.attend(a, f, v)
    return numerator / n.clamp(min=1e-6)


def hydra(site, o, p, q, k, v, keys):
    """One head for each channel; norms run over all of them."""
    q, k, v = (merge(x)[:, None] for x in (q, k, v))
    return split((unit(q) * keys.sum(unit(k) * v))[:, 0], site.H)


def shen(site, o, p, q, k, v, keys):
    return keys.read(torch.softmax(q, -1), keys.state(keys.softmax(k), v))


def magnitude_clamped(o, t):
    """|t| in 1e-4 .. 1e4, sign kept, 0 stays."""
    return t.sign() * t.abs().clamp(1e-4, 1e4) if o["clamp"] else t


def vicinity(site, o, p, q, k, v, keys):
    rows, columns = site.grid
    down, right = (torch.cat([torch.zeros(site.prefix, dtype=q.dtype), t.reshape(-1)])[:, None]
                   for t in torch.meshgrid(
                       math.pi / 2 * torch.arange(rows, dtype=q.dtype) / rows,
                       math.pi / 2 * torch.arange(columns, dtype=q.dtype) / columns, indexing="ij"))

    def features(x):
        r = torch.relu(x)
        if o["product"]:
            parts = [s(down) * t(right) for s in (torch.cos, torch.sin)
                     for t in (torch.cos, torch.sin)]
        else:
            parts = [torch.cos(down), torch.sin(down), torch.cos(right), torch.sin(right)]
        return torch.cat([r * part for part in parts], -1)

    a, f = features(q), features(k)
    clamped = lambda t: magnitude_clamped(o, t)
    inverse = clamped(1 / ((a * keys.sum(f)).sum(-1, keepdim=True) + 1e-4))
    return clamped(clamped(keys.read(a, clamped(keys.state(f, v)))) * inverse)


def hedgehog(site, o, p, q, k, v, keys):
    return keys.normalised(hedgehog_features(o, p, "q", q), hedgehog_features(o, p, "k", k), v,
                           1e-12)


def based(site, o, p, q, k, v, keys):
    return keys.normalised(taylor2(q, "full"), taylor2(k, "full"), v, 1e-12)


def rebased(site, o, p, q, k, v, keys):
    def features(which, x):
        centred = x - x.mean(-1, keepdim=True)
        x = centred / torch.sqrt((centred ** 2).mean(-1, keepdim=True) + 1e-5)
        x = x * p[which + "_norm.weight"][:, None] + p[which + "_norm.bias"][:, None]
        return upper(x, x.shape[-1] ** -0.5, (2 / x.shape[-1]) ** 0.5)

    return keys.normalised(features("q", q), features("k", k), v, o["eps"])


def aft_simple(site, o, p, q, k, v, keys):
    weights = keys.softmax(k)
    if o["form"] == "matrix":
        return keys.read(torch.sigmoid(q), keys.state(weights, v))
    return torch.sigmoid(q) * keys.sum(weights * v)


def polynl(site, o, p, q, k, v, keys):
    return keys.read(q, keys.state(k, v)) / keys.count


MECHANISMS = {f.__name__: f for f in (
    relu_linear, elu_linear, qt, qt_released, qt_exact, taylor1, angular, focused, cosformer, hydra,
    shen, vicinity, hedgehog, based, rebased, aft_simple, polynl)}
