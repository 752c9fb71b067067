"""Golden cases of one attention layer alone (kind "attn"): a host for families of attentions.

A family is a module with
    shapes(site), buffers(site)     name to shape below the attention's own name
    attention(site, p, x, regions)  the mechanism with its projections. x, result: (B, N, D)
    second(site, p, x, regions)     the same, written differently
    GLOBAL                          names of those that see the whole map where a site has windows
Plain tensor functions; gradients by autograd. regions: (B, N), tokens of different numbers never
meet; None where all do.
"""

import copy

import torch

import crosscheck
import formula
import swin

SCOPE = "attn."  # the layer's own name


class Site:
    """Where the layer stands: B images of N tokens of width D, H heads.

    grid: rows and columns of patches, N = prefix + rows columns; window, shift: as in a Swin,
    (0, 0) without. training: statistics of the batch, branches of training alone.
    """

    def __init__(self, attention, B=2, D=8, H=2, grid=(3, 4), prefix=0, qkv_bias=True,
                 proj_bias=True, window=(0, 0), shift=(0, 0), block=0, blocks=1, training=False):
        self.attention, self.B, self.D, self.H, self.grid = attention, B, D, H, tuple(grid)
        self.prefix, self.qkv_bias, self.proj_bias = prefix, qkv_bias, proj_bias
        self.window, self.shift, self.training = tuple(window), tuple(shift), training
        self.block, self.blocks = block, blocks
        assert D % H == 0
        assert not self.window[0] or prefix == 0
        assert all(s == 0 or s < w < g for s, w, g in zip(self.shift, self.window, self.grid))

    @property
    def N(self):
        return self.prefix + self.grid[0] * self.grid[1]

    def inside(self):
        """The site of one window, of which there are B times as many."""
        one = copy.copy(self)
        one.B = self.B * (self.N // (self.window[0] * self.window[1]))
        one.grid, one.shift = self.window, (0, 0)
        return one

    def json(self):
        return {"B": self.B, "N": self.N, "D": self.D, "H": self.H, "grid": list(self.grid),
                "prefix": self.prefix, "block": self.block, "blocks": self.blocks,
                "qkv_bias": self.qkv_bias, "proj_bias": self.proj_bias,
                "window": list(self.window), "shift": list(self.shift)}


def region_numbers(site):
    """(windows, tokens of one) for shifted windows: the numbers of up to nine rectangles."""
    if not any(site.shift):
        return None
    parts = [[0] if s == 0 else [0, g - w, g - s]
             for g, w, s in zip(site.grid, site.window, site.shift)]
    part = [torch.bucketize(torch.arange(g), torch.tensor(p), right=True) - 1
            for g, p in zip(site.grid, parts)]
    numbers = part[0][:, None] * len(parts[1]) + part[1][None, :]
    return swin.cut_windows(numbers[None, :, :, None], site.window)[..., 0]


def layer(family, apply, site, p, x):
    """family.attention or family.second (`apply`) at the site: in its windows, if there are any."""
    if not site.window[0] or site.attention["name"] in family.GLOBAL:
        return apply(site, p, x, None)
    image = x.reshape((x.shape[0],) + site.grid + (site.D,))
    image = torch.roll(image, (-site.shift[0], -site.shift[1]), (1, 2))
    regions = region_numbers(site)
    if regions is not None:
        regions = regions.repeat(x.shape[0], 1)
    y = apply(site.inside(), p, swin.cut_windows(image, site.window), regions)
    y = torch.roll(swin.join_windows(y, site.window, site.grid), site.shift, (1, 2))
    return y.reshape(x.shape)


def parameter_site(family, site):
    """The site by which parameters are sized."""
    whole = not site.window[0] or site.attention["name"] in family.GLOBAL
    return site if whole else site.inside()


def tensors_of(shapes, values):
    """The formula's tensors by name below SCOPE, or the given ones."""
    result = {}
    for name, shape in shapes.items():
        if name in values:
            result[name] = torch.tensor(values[name], dtype=torch.float64).reshape(shape)
            assert torch.equal(result[name], result[name].float().double()), name
        else:
            result[name] = torch.from_numpy(formula.tensor(SCOPE + name, shape))
    return result


def run(family, apply, site, params, fixed, x, dy):
    """Output, loss and gradients by name."""
    leaves = {name: value.clone().requires_grad_() for name, value in params.items()}
    leaf = x.clone().requires_grad_()
    out = layer(family, apply, site, {**leaves, **fixed}, leaf)
    assert out.shape == x.shape
    loss = (dy * out).sum()
    loss.backward()
    grads = {"x": leaf.grad, **{name: value.grad for name, value in leaves.items()}}
    missing = [name for name, grad in grads.items() if grad is None]
    assert not missing, "no gradient reaches %s" % missing
    return out.detach(), loss.detach(), grads


def case(family, name, site, values=None, differences=True, bf16=True):
    """A case of kind "attn". values: name to list, of tensors that the formula does not fill.

    differences: whether central differences give the gradients (not where they pass straight
    through a step). bf16: whether the case bears inputs and activations that are rounded to bf16 (not where
    a threshold decides).
    """
    values = values or {}
    sized = parameter_site(family, site)
    shapes, buffers = family.shapes(sized), family.buffers(sized)
    assert set(values) <= set(shapes) | set(buffers), name
    params, fixed = tensors_of(shapes, values), tensors_of(buffers, values)
    shape = (site.B, site.N, site.D)
    x, dy = (torch.from_numpy(formula.tensor(n, shape)) for n in ("x", "dy"))

    found = run(family, family.attention, site, params, fixed, x, dy)
    crosscheck.check_same(found, run(family, family.second, site, params, fixed, x, dy))
    out, loss, grads = found
    if differences:
        crosscheck.check_differences(
            lambda p, moved: (dy * layer(family, family.attention, site, {**p, **fixed},
                                         moved)).sum(), params, x, grads)

    tensors = {"out": formula.summary("out", out.numpy())}
    for key, grad in grads.items():
        key = "grad." + (key if key == "x" else SCOPE + key)
        tensors[key] = formula.summary(key, grad.numpy())
    document = {"format": 1, "kind": "attn", "name": name, "config": site.attention,
                "site": site.json(), "training": site.training, "bf16": bf16}
    regions = region_numbers(site)
    if regions is not None and site.attention["name"] not in family.GLOBAL:
        document["regions"] = regions.tolist()
    if values:
        document["values"] = {SCOPE + key: list(value) for key, value in values.items()}
    document["buffers"] = {SCOPE + key: list(shape) for key, shape in buffers.items()}
    document.update({"params": sum(value.numel() for value in params.values()),
                     "loss": float(loss), "tensors": tensors})
    return document
