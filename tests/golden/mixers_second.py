"""The token mixers once more, written differently, to check the first form.

Scans are two recurrences in logarithms (Bi-WKV) or a sum over all pairs of tokens (selective scan);
convolutions and poolings are PyTorch's; a region is cut out as a rectangle.
"""

import math

import torch
from torch.nn import functional as F


def rectangles(site, regions, b):
    """Slices of rows and of columns of each region of sample b."""
    if regions is None:
        return [(slice(0, site.grid[0]), slice(0, site.grid[1]))]
    ids = regions[b].reshape(site.grid)
    result = []
    for number in ids.unique():
        y, x = (ids == number).nonzero().T
        result.append(tuple(slice(int(t.min()), int(t.max()) + 1) for t in (y, x)))
    return result


def each_rectangle(site, regions, x, mix):
    """mix(cells (rows, columns, D), prefix (n, D)) returns both."""
    y, n = torch.zeros_like(x), site.prefix
    for b in range(x.shape[0]):
        cells = x[b, n:].reshape(site.grid + (-1,))
        image = torch.zeros_like(cells)
        for rows, columns in rectangles(site, regions, b):
            image[rows, columns], front = mix(cells[rows, columns], x[b, :n])
            y[b, :n] = front
        y[b, n:] = image.flatten(0, 1)
    return y


def scans(k, v, w, u):
    """Bi-WKV in linear time, from the left and from the right: (T, c)."""
    T = k.shape[0]

    def pass_over(order):
        a = b = torch.zeros_like(w)
        o, before = torch.full_like(w, -math.inf), [None] * T
        for t in order:
            before[t] = a, b, o
            n = torch.maximum(o - w, k[t])
            old, new = torch.exp(o - w - n), torch.exp(k[t] - n)
            a, b, o = a * old + v[t] * new, b * old + new, n
        return before

    left, right = pass_over(range(T)), pass_over(range(T - 1, -1, -1))
    rows = []
    for t in range(T):
        (a, b, o), (a2, b2, o2) = left[t], right[t]
        n = torch.maximum(torch.maximum(o, o2), u + k[t])
        x, y, z = torch.exp(o - n), torch.exp(o2 - n), torch.exp(u + k[t] - n)
        rows.append((a * x + a2 * y + v[t] * z) / (b * x + b2 * y + z))
    return torch.stack(rows)


def vrwkv(site, o, p, x, regions):
    D = x.shape[-1]

    def mix(cells, front):
        shape = cells.shape
        moved = torch.zeros_like(cells)
        s, q = o.shift, [D * i // 4 for i in range(5)]
        if s:
            moved[:, s:, :q[1]] = cells[:, :max(shape[1] - s, 0), :q[1]]
            moved[:, :max(shape[1] - s, 0), q[1]:q[2]] = cells[:, s:, q[1]:q[2]]
            moved[s:, :, q[2]:q[3]] = cells[:max(shape[0] - s, 0), :, q[2]:q[3]]
            moved[:max(shape[0] - s, 0), :, q[3]:] = cells[s:, :, q[3]:]
        else:
            moved = cells
        tokens = torch.cat([cells.flatten(0, 1), front])
        moved = torch.cat([moved.flatten(0, 1), front])
        T = tokens.shape[0]

        def projected(letter, name):
            mixed = torch.lerp(moved, tokens, p["mix_" + letter].expand_as(moved)) if s else tokens
            return F.linear(mixed, p[name + ".weight"])

        k, v, r = projected("k", "key"), projected("v", "value"), projected("r", "receptance")
        y = scans(k, v, p["decay"] / T, p["first"] / T)
        if o.key_norm:
            y = F.layer_norm(y, (D,), p["key_norm.weight"], p["key_norm.bias"], 1e-5)
        y = F.linear(r.sigmoid() * y, p["output.weight"])
        return y[:T - front.shape[0]].reshape(shape), y[T - front.shape[0]:]

    return each_rectangle(site, regions, x, mix)


def dense_scan(x, dt, A, B, C, D):
    """y_t = D x_t + sum over j <= t of C_t exp(A (dt_{j+1} + ... + dt_t)) B_j dt_j x_j: (T, E)"""
    T = x.shape[0]
    sums = dt.cumsum(0)
    spans = (sums[:, None] - sums[None, :]).clamp(min=0)  # from j to t, (T, T, E)
    decay = torch.exp(spans[..., None] * A)
    causal = torch.ones(T, T, dtype=x.dtype).tril()
    return torch.einsum("tj,tn,tjen,jn,je->te", causal, C, decay, B, dt * x) + D * x


def one_way(p, b, xz):
    """xz: (T, 2 E)"""
    x, z = xz.chunk(2, -1)
    weight, bias = p["conv1d%s.weight" % b], p["conv1d%s.bias" % b]
    x = F.conv1d(x.T[None], weight, bias, padding=weight.shape[-1] - 1, groups=x.shape[1])
    x = F.silu(x[0, :, :z.shape[0]].T)
    log = p["A_log"] if b == "" else p["A_b_log"]
    n, r = log.shape[1], p["dt_proj%s.weight" % b].shape[1]
    mixed = F.linear(x, p["x_proj%s.weight" % b])
    dt = torch.log1p(torch.exp(F.linear(mixed[:, :r], p["dt_proj%s.weight" % b],
                                        p["dt_proj%s.bias" % b])))
    return F.silu(z) * dense_scan(x, dt, -torch.exp(log), mixed[:, r:r + n], mixed[:, r + n:],
                                  p["D" + b])


def vim(site, o, p, x, regions):
    def mix(cells, front):
        first, second = cells.flatten(0, 1).tensor_split([cells.shape[0] * cells.shape[1] // 2])
        xz = F.linear(torch.cat([first, front, second]), p["in_proj.weight"])
        y = F.linear(0.5 * (one_way(p, "", xz) + one_way(p, "_b", xz.flip(0)).flip(0)),
                     p["out_proj.weight"])
        h = first.shape[0]
        y, middle = torch.cat([y[:h], y[h + front.shape[0]:]]), y[h:h + front.shape[0]]
        return y.reshape(cells.shape), middle

    return each_rectangle(site, regions, x, mix)


def pool(site, o, p, x, regions):
    def mix(cells, front):
        image = cells.permute(2, 0, 1)[None]
        y = F.avg_pool2d(image, o.size, 1, o.size // 2, count_include_pad=False) - image
        return y[0].permute(1, 2, 0), front

    return each_rectangle(site, regions, x, mix)


def sepconv(site, o, p, x, regions):
    def mix(cells, front):
        y = F.linear(cells, p["pwconv1.weight"])
        y = (p["act.scale"] * F.relu(y).square() + p["act.bias"]).permute(2, 0, 1)[None]
        y = F.conv2d(y, p["dwconv.weight"], padding=o.kernel // 2, groups=y.shape[1])
        return F.linear(y[0].permute(1, 2, 0), p["pwconv2.weight"]), front

    return each_rectangle(site, regions, x, mix)


def identity(site, o, p, x, regions):
    return x + 0


MIX = {"vrwkv": vrwkv, "vim": vim, "pool": pool, "sepconv": sepconv, "identity": identity}
