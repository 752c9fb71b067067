"""The efficient attentions once more, written differently, to check the first form.

Who sees whom is a matrix over all pairs of tokens here, from coordinates and not from lists;
scores are dense; importance weights are products and quotients and not logarithms; features carry
no stabiliser. Norms, softmax and poolings are PyTorch's.
"""

import math

import torch
from torch.nn import functional as F

import draws


def heads(site, p, x, name="qkv"):
    y = F.linear(x, p[name + ".weight"], p.get(name + ".bias"))
    return y.reshape(x.shape[0], site.N, 3, site.H, -1).permute(2, 0, 3, 1, 4).unbind(0)


def output(p, y):
    """y: (B, H, N, d)"""
    return F.linear(y.permute(0, 2, 1, 3).flatten(2), p["proj.weight"], p.get("proj.bias"))


def together(site, regions, B):
    """(B, N, N): whether two tokens may meet."""
    if regions is None:
        return torch.ones(B, site.N, site.N, dtype=torch.bool)
    return regions[:, :, None] == regions[:, None, :]


def coordinates(site):
    """Rows and columns of all tokens, as columns (N, 1) and rows (1, N); -1 for prefix tokens."""
    t = torch.arange(site.N) - site.prefix
    y = torch.div(t, site.grid[1], rounding_mode="floor")
    y, x = torch.where(t < 0, -1, y), torch.where(t < 0, -1, t % site.grid[1])
    return y[:, None], x[:, None], y[None], x[None]


def side_of(site, o):
    if o.window:
        return o.window
    rows, columns = site.grid
    for w, largest in ((7, 1 << 30), (4, 16), (8, 1 << 30), (6, 1 << 30)):
        if rows % w == 0 and columns % w == 0 and max(rows, columns) <= largest:
            return w
    g = math.gcd(rows, columns)
    return next(w for w in range(8, 0, -1) if g % w == 0)


def extension(site, o):
    return max(1, side_of(site, o) // 2) if o.overlap else 0


def inside(at, start, length):
    return (at >= start) & (at < start + length)


def local_sets(site, o):
    """(N, N): what a patch sees exactly in its window; false for prefix tokens."""
    y, x, ky, kx = coordinates(site)
    if hasattr(o, "group") and site.window[0]:
        (rows, columns), (h, w), (down, right) = site.grid, site.window, site.shift
        same = ((y - down) % rows // h == (ky - down) % rows // h) & \
            ((x - right) % columns // w == (kx - right) % columns // w) & \
            ((y < down) == (ky < down)) & ((x < right) == (kx < right))
        return same & (y >= 0) & (ky >= 0)
    w, e = side_of(site, o), extension(site, o)
    return inside(ky, y // w * w - e, w + 2 * e) & inside(kx, x // w * w - e, w + 2 * e) & \
        (y >= 0) & (ky >= 0)


def kernel_sets(site, size, edge):
    y, x, ky, kx = coordinates(site)
    result = (y >= 0) & (ky >= 0)
    for at, key, length in ((y, ky, site.grid[0]), (x, kx, site.grid[1])):
        if edge == "clip":
            result = result & ((at - key).abs() <= size // 2)
        elif size <= length:
            result = result & inside(key, (at - size // 2).clamp(0, length - size), size)
    return result


def with_prefix(site, sets):
    """Prefix tokens see all, and all see them."""
    is_prefix = torch.arange(site.N) < site.prefix
    return sets | is_prefix[:, None] | is_prefix[None, :]


def bias_matrix(site, p, visible, away, sign):
    """(H, N, N); 0 for prefix tokens and where nothing is visible."""
    table = p.get("relative_position_bias_table")
    if table is None:
        return torch.zeros(1, dtype=torch.float64)
    y, x, ky, kx = coordinates(site)
    entries = table.reshape(2 * away[0] - 1, 2 * away[1] - 1, -1)
    counts = visible & (y >= 0) & (ky >= 0)
    down = torch.where(counts, sign * (y - ky) + away[0] - 1, 0)
    right = torch.where(counts, sign * (x - kx) + away[1] - 1, 0)
    return torch.where(counts[..., None], entries[down, right], 0.0).permute(2, 0, 1)


def masked(q, k, v, bias, visible):
    """visible: (B, N, N)"""
    scores = torch.einsum("bhie,bhje->bhij", q, k) / math.sqrt(q.shape[-1]) + bias
    scores = scores.masked_fill(~visible[:, None], -math.inf)
    return torch.einsum("bhij,bhje->bhie", torch.softmax(scores, -1), v)


def local(site, o, p, x, regions):
    away = (side_of(site, o) + extension(site, o),) * 2
    sets = local_sets(site, o)
    bias = bias_matrix(site, p, sets, away, 1)
    visible = with_prefix(site, sets) & together(site, regions, x.shape[0])
    return output(p, masked(*heads(site, p, x), bias, visible))


def na(site, o, p, x, regions):
    away = [min(o.kernel, side) for side in site.grid]
    sets = kernel_sets(site, o.kernel, o.edge)
    bias = bias_matrix(site, p, sets, away, -1)
    visible = with_prefix(site, sets) & together(site, regions, x.shape[0])
    return output(p, masked(*heads(site, p, x), bias, visible))


def longformer(site, o, p, x, regions):
    if o.form == "raster":
        a = o.window if o.window else 24
        far = torch.arange(site.N)[:, None] - torch.arange(site.N)[None, :]
        sets = (far % o.dilation == 0) & (far.abs() <= a * o.dilation)
    else:
        a = o.window if o.window else 3
        sets = kernel_sets(site, 2 * a + 1, "clip" if o.form == "clip" else "clamp")
    visible = with_prefix(site, sets) & together(site, regions, x.shape[0])
    zero = torch.zeros(1, dtype=torch.float64)
    y = masked(*heads(site, p, x), zero, visible)
    if not o.shared and site.prefix:
        everything = torch.ones_like(visible)
        from_all = masked(*heads(site, p, x, "qkv_global"), zero, everything)
        is_prefix = (torch.arange(site.N) < site.prefix)[:, None]
        y = torch.where(is_prefix, from_all, y)
    return output(p, y)


def linformer(site, o, p, x, regions):
    q, k, v = heads(site, p, x)
    if o.pool:
        y, c, _, _ = coordinates(site)
        number = y // o.pool * (site.grid[1] // o.pool) + c // o.pool + site.prefix
        number = torch.where(y < 0, torch.arange(site.N)[:, None], number)[:, 0]
        E = F.one_hot(number).to(x.dtype)
        E = E / E.sum(0)
    else:
        E = p["proj_k"]
    V = p.get("proj_v", E)
    E, V = (t.expand((site.H,) + t.shape[-2:]) for t in (E, V))
    same = together(site, regions, x.shape[0]).to(x.dtype)
    # keys and values of every query on its own: (B, H, N, slots, d)
    keys = torch.einsum("bij,hjs,bhje->bhise", same, E, k)
    values = torch.einsum("bij,hjs,bhje->bhise", same, V, v)
    scores = torch.einsum("bhie,bhise->bhis", q, keys) / math.sqrt(q.shape[-1])
    return output(p, torch.einsum("bhis,bhise->bhie", torch.softmax(scores, -1), values))


def from_kernel(kernel, visible, v, floor=None):
    """Rows of the kernel (B, H, N, N) over the visible keys, divided by their sum. floor: (B, H,
    N, 1) or None."""
    kernel = kernel * visible[:, None]
    den = kernel.sum(-1, keepdim=True)
    if floor is not None:
        den = torch.where(den > floor, den, floor)
    return kernel @ v / den


def top_of_region(z, visible):
    """(B, H, N, 1): the largest entry of the tokens that a token may meet. z: (B, H, N, m)"""
    rows = z.amax(-1)[:, :, None, :].expand(-1, -1, z.shape[2], -1)
    return rows.masked_fill(~visible[:, None], -math.inf).amax(-1, keepdim=True).detach()


def performer(site, o, p, x, regions):
    q, k, v = heads(site, p, x)
    d, m, visible = q.shape[-1], o.m, together(site, regions, x.shape[0])
    if o.map == "relu":
        omega = p["omega"] / (d ** 0.25 * m ** 0.5)
        a, f = (F.relu(torch.einsum("bhie,hre->bhir", t, omega)) + 1e-3 for t in (q, k))
        floor = torch.full_like(a[..., :1], o.den_floor)
        return output(p, from_kernel(a @ f.transpose(2, 3), visible, v, floor))
    omega = p["omega"]
    if o.map == "hyp":
        omega, m = torch.cat([omega, -omega], 1), 2 * m
    zq, zk = (torch.einsum("bhie,hre->bhir", t, omega) / d ** 0.25 for t in (q, k))
    cq, ck = zq.amax(-1, keepdim=True).detach(), top_of_region(zk, visible)
    eps = o.eps if o.eps_inside else o.eps * math.sqrt(m)
    # features times exp(c) sqrt(m)
    a = torch.exp(zq - (q * q).sum(-1, keepdim=True) / (2 * math.sqrt(d))) + eps * torch.exp(cq)
    f = torch.exp(zk - (k * k).sum(-1, keepdim=True) / (2 * math.sqrt(d))) + eps * torch.exp(ck)
    floor = o.den_floor * m * torch.exp(cq + ck)
    return output(p, from_kernel(a @ f.transpose(2, 3), visible, v, floor))


def rfa(site, o, p, x, regions):
    q, k, v = heads(site, p, x)
    root, visible = math.sqrt(q.shape[-1]), together(site, regions, x.shape[0])
    difference = (q[:, :, :, None] - k[:, :, None]) / math.sqrt(root)
    waves = torch.cos(torch.einsum("bhije,hre->bhijr", difference, p["omega"])).mean(-1)
    half_q, half_k = ((t * t).sum(-1, keepdim=True) / (2 * root) for t in (q, k))
    kernel = torch.exp(half_q) * waves * torch.exp(half_k).transpose(2, 3)
    floor = o.den_floor * torch.exp(top_of_region(half_q, visible) + top_of_region(half_k, visible))
    return output(p, from_kernel(kernel, visible, v, floor))


def fast_cosine_transform(x):
    """The orthonormal DCT-II of the last axis, by an FFT of as many points (Makhoul 1980)."""
    d = x.shape[-1]
    z = torch.fft.fft(torch.cat([x[..., ::2], x[..., 1::2].flip(-1)], -1))
    turn = torch.exp(-1j * math.pi * torch.arange(d, dtype=torch.float64) / (2 * d))
    result = (z * turn).real * math.sqrt(2 / d)
    return torch.cat([result[..., :1] / math.sqrt(2), result[..., 1:]], -1)


def dijiang(site, o, p, x, regions):
    q, k, v = heads(site, p, x)
    d, visible = q.shape[-1], together(site, regions, x.shape[0])
    if o.projection == "paper":
        zq, zk = (fast_cosine_transform(t) * p["t"] for t in (q, k))
    else:  # the transform's inverse, as it is orthonormal
        matrix = fast_cosine_transform(torch.eye(d, dtype=torch.float64)).T
        zq, zk = (torch.linalg.solve(matrix, t.transpose(2, 3)).transpose(2, 3) * p["t"]
                  for t in (q, k))
    if o.map == "softmax":
        kernel = torch.softmax(zq, -1) @ torch.softmax(zk, -1).transpose(2, 3)
    else:
        kernel = (p["map.weight"] ** 2 * torch.exp(zq)) @ torch.exp(zk).transpose(2, 3)
    if o.norm == "sum":
        return output(p, from_kernel(kernel, visible, v))
    y = ((kernel * visible[:, None]) @ v).permute(0, 2, 1, 3).flatten(2)
    y = F.group_norm(y.flatten(0, 1), d, p["group_norm.weight"], p["group_norm.bias"], 1e-5)
    y = y.reshape(x.shape) * F.silu(x @ p["gate.weight"].T)
    return F.linear(y, p["proj.weight"], p.get("proj.bias"))


def norm(p, name, x):
    return F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"], 1e-5)


def members(site, o, sets):
    """(N, C, N): patch j is in the part of group c that query n sees; and the cells of a group."""
    y, x, ky, kx = coordinates(site)
    g = o.group if o.group else max(1, site.grid[0] // side_of(site, type("", (), {"window": 0})))
    e = extension(site, o)
    tops = torch.arange(0, site.grid[0], g).repeat_interleave(site.grid[1] // g)[:, None]
    lefts = torch.arange(0, site.grid[1], g).repeat(site.grid[0] // g)[:, None]
    whole = inside(ky, tops - e, g + 2 * e) & inside(kx, lefts - e, g + 2 * e) & (ky >= 0)
    rest = whole[None] & ~sets[:, None, :]
    if o.visibility == "all":
        rest = whole[None].expand(site.N, -1, -1)
    elif o.visibility == "disjoint":
        rest = rest & (rest.sum(-1) == whole.sum(-1))[..., None]
    missing = (g + 2 * e) ** 2 - whole.sum(-1)
    return rest, missing


def eva_table(site, o, p, q, k, v, sets):
    """Keys, values (B, H, N, C, d) and masses (N, C) of the groups that each query sees, and which
    there are, (N, C)."""
    d = q.shape[-1]
    parts, missing = members(site, o, sets)
    there = parts.any(-1)
    count = parts.sum(-1).to(q.dtype)
    cells = count + missing if o.group_mean == "code" else count
    share = parts / cells.clamp(min=1)[..., None]
    q_bar, k_bar = (torch.einsum("ncj,bhje->bhnce", share, t) for t in (q, k))
    quarter, root = d ** -0.25, math.sqrt(d)
    if o.param in ("default", "sum", "no_ln", "none"):
        k_bar = F.linear(k_bar, p["k_pool.weight"], p["k_pool.bias"])
    if o.param in ("default", "sum", "no_ln"):
        q_bar = F.linear(q_bar, p["q_pool.weight"], p["q_pool.bias"])
    if o.param in ("default", "sum"):
        q_bar = norm(p, "q_pool_norm", q_bar)
    if o.param in ("default", "sum", "none"):
        k_bar = norm(p, "k_pool_norm", k_bar)

    def over_members(logs):
        """Softmax of logs (..., j), broadcast to (B, H, n, c, j), over the members."""
        e = torch.exp(logs) * parts
        return e / torch.where(there, 1.0, 0.0)[..., None].mul(e.sum(-1, keepdim=True)).add(
            torch.where(there, 0.0, 1.0)[..., None])

    mu = q_bar + k_bar
    if o.scale == "prf":
        mu = quarter * mu
    elif o.param != "sum":
        mu = mu / 2
    if o.param == "evabyte":
        logs = torch.einsum("bhje,he->bhj", k, p["adaptive_mu_k"])[:, :, None, None]
        k_bar = torch.einsum("bhncj,bhje->bhnce", over_members(logs), k)
        mu = p["adaptive_phi"][None, :, None, None].expand_as(mu)
    elif o.param == "none":
        mu = torch.zeros_like(mu)
    factor = quarter if o.scale == "prf" else 1 / root
    logs = factor * torch.einsum("bhnce,bhje->bhncj", mu, k) - \
        ((k * k).sum(-1) / (2 * root))[:, :, None, None]
    value = torch.einsum("bhncj,bhje->bhnce", over_members(logs), v)
    mass = torch.log(count.clamp(min=1)) if o.mass_bias else torch.zeros_like(count)
    return k_bar, value, mass, there


def eva_pieces(site, o, p, x):
    """Scores and values of the exact keys and of the groups; scores are -inf where nothing is."""
    q, k, v = heads(site, p, x)
    sets = local_sets(site, o)
    away = site.window if site.window[0] else (side_of(site, o) + extension(site, o),) * 2
    key, value, mass, there = eva_table(site, o, p, q, k, v, sets)
    is_patch = (torch.arange(site.N) >= site.prefix)[:, None]
    root = math.sqrt(q.shape[-1])
    exact = q @ k.transpose(2, 3) / root + bias_matrix(site, p, sets, away, 1)
    exact = exact.masked_fill(~with_prefix(site, sets), -math.inf)
    pooled = torch.einsum("bhne,bhnce->bhnc", q, key) / root + mass
    pooled = pooled.masked_fill(~(there & is_patch), -math.inf)
    return exact, v, pooled, value


def eva(site, o, p, x, regions):
    """One softmax over exact keys and groups."""
    exact, v, pooled, value = eva_pieces(site, o, p, x)
    weights = torch.softmax(torch.cat([exact, pooled], -1), -1)
    y = weights[..., :site.N] @ v
    return output(p, y + torch.einsum("bhnc,bhnce->bhne", weights[..., site.N:], value))


def flasheva(site, o, p, x, regions, tile=3):
    """Tile after tile of the keys, with a running maximum and sum."""
    exact, v, pooled, value = eva_pieces(site, o, p, x)
    scores = torch.cat([exact, pooled], -1)
    values = torch.cat([v[:, :, None].expand(-1, -1, site.N, -1, -1), value], 3)
    top = torch.full_like(scores[..., :1], -math.inf)
    total, y = torch.zeros_like(top), torch.zeros_like(v)
    for start in range(0, scores.shape[-1], tile):
        s = scores[..., start:start + tile]
        higher = torch.maximum(top, s.amax(-1, keepdim=True).detach())
        some = torch.where(higher > -math.inf, higher, 0.0)
        keep = torch.where(top > -math.inf, torch.exp(top - some), 0.0)
        e = torch.exp(s - some)
        total = keep * total + e.sum(-1, keepdim=True)
        y = keep * y + torch.einsum("bhnt,bhnte->bhne", e, values[:, :, :, start:start + tile])
        top = higher
    return output(p, y / total)


def lara_samples(site, o, mu, sample):
    """The samples of the proposals mu (H, C, d) of an image that is one map, and the numbers of their
    proposals."""
    H, C, d = mu.shape
    of = list(range(C))
    if not site.training or not o.noise:
        return mu, of
    if o.samples == "one":
        return mu + draws.rows("lara_noise:attn", sample, H, C, d), of
    if o.samples == "two":
        return mu[:, of + of] + draws.rows("lara_noise:attn", sample, H, 2 * C, d), of + of
    drawn = draws.rows("lara_noise:attn", sample, H, C, d)
    return torch.stack([mu + drawn, mu - drawn], 1).flatten(1, 2), of + of


def lara_region(site, o, p, q, k, v, grid, prefix, sample=None):
    """q, k, v: (H, n, d) of one rectangle, prefix tokens first. sample: of an image that is one."""
    side, H, d = math.isqrt(o.landmarks), site.H, q.shape[-1]
    s = 1 / math.sqrt(d)
    bars = []
    for letter, t in (("q", q), ("k", k)):
        cells = t[:, prefix:].transpose(1, 2).reshape((H, d) + tuple(grid))
        bar = F.adaptive_avg_pool2d(cells, side).flatten(2).transpose(1, 2)  # (H, C, d)
        if o.proposal.startswith("pool"):
            dense = o.pool_module == "dense"
            if dense:
                bar = bar.transpose(0, 1).flatten(1)
            bar = F.linear(bar, p[letter + "_pool.weight"], p[letter + "_pool.bias"])
            bar = norm(p, letter + "_pool_norm", bar)
            if dense:
                bar = bar.reshape(-1, H, d).transpose(0, 1)
        bars.append(bar)
    q_bar, k_bar = bars
    if o.proposal.endswith("_mixed"):
        k_bar = torch.softmax(s * k_bar @ k_bar.mT, -1) @ k_bar
    mu = q_bar + k_bar

    def xi(x, omega):
        """(H, tokens, C)"""
        return torch.exp(s * x @ omega.mT - s / 2 * (x * x).sum(-1, keepdim=True))

    omega, of = lara_samples(site, o, mu, sample)
    of_keys, of_queries, of_centres = xi(k, omega), xi(q, omega), xi(mu, omega)  # last: rows centres
    f = of_keys.mT @ v / of_keys.sum(1)[..., None]
    kappa = of_keys.sum(1)  # (H, samples)
    density = of_centres.sum(1)
    if o.mis == "opt":
        own = of_centres[:, of, list(range(len(of)))]
        t = torch.exp(s * q @ q_bar.mT)
        t = (t / t.sum(1, keepdim=True))[:, :, of]
        share = own / (density * (len(of) // mu.shape[1]))  # each proposal counts as often as it samples
        weight = share[:, None] + o.alpha * (t - t.mean(2, keepdim=True))
        weight = torch.where(weight > 1e-8, weight, torch.full_like(weight, 1e-8))
        density = own
    elif o.mis == "biased":
        weight = torch.exp(s * q @ mu.mT)[:, :, of]
    else:
        weight = torch.ones_like(of_queries)
    w = weight * of_queries * (kappa / density)[:, None]
    return w @ f / w.sum(2, keepdim=True)


def lara(site, o, p, x, regions):
    q, k, v = heads(site, p, x)
    if regions is None:
        y = torch.stack([lara_region(site, o, p, q[b], k[b], v[b], site.grid, site.prefix, b)
                         for b in range(x.shape[0])])
        return output(p, y)
    y = torch.zeros_like(v)
    for b in range(x.shape[0]):
        for number in regions[b].unique():
            at = (regions[b] == number).nonzero()[:, 0]
            rows = (at // site.grid[1]).unique().numel()
            y[b, :, at] = lara_region(site, o, p, q[b, :, at], k[b, :, at], v[b, :, at],
                                      (rows, at.numel() // rows), 0)
    return output(p, y)


MIX = {"local": local, "na": na, "longformer": longformer, "linformer": linformer,
       "performer": performer, "rfa": rfa, "dijiang": dijiang, "eva": eva, "flasheva": flasheva,
       "lara": lara}
