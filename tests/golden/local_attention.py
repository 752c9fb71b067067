"""Attention over a table of keys: windows, neighbourhoods, Longformer, Linformer.

Prefix tokens are global: exact keys of every query, without position bias, and as queries they see
all tokens. Here every query gets the list of keys that it sees.
"""

import math

import torch

from mixing import by_region, linear, merge_heads, qkv_heads, softmax


def auto_window(grid):
    """The window that 0 stands for: 7 where it divides both sides of the grid, else 4 up to sides
    of 16, else 8, else 6, else the largest common divisor of the sides up to 8."""
    fits = [w for w in (7, 4, 8, 6) if not (grid[0] % w or grid[1] % w)
            and (w != 4 or max(grid) <= 16)]
    return fits[0] if fits else max(w for w in range(1, 9) if not (grid[0] % w or grid[1] % w))


def window_side(site, o):
    w = o.window or auto_window(site.grid)
    assert not (site.grid[0] % w or site.grid[1] % w), "the window does not divide the grid"
    return w


def overlap(o, w):
    return max(1, w // 2) if o.overlap else 0


def reach(site, o):
    """Per axis r: keys are less than r rows (columns) away; the table holds 2r - 1 offsets."""
    if hasattr(o, "kernel"):
        return tuple(min(o.kernel, side) for side in site.grid)
    if hasattr(o, "group") and site.window[0]:
        return site.window
    w = window_side(site, o)
    return (w + overlap(o, w),) * 2


def table_rows(site, o):
    r, c = reach(site, o)
    return (2 * r - 1) * (2 * c - 1)


def position_bias(table, grid, away, queries, keys, sign):
    """(H, queries, keys): the table's rows for sign * (place of the query - place of the key)."""
    width = grid[1]
    rows = []
    for i in queries:
        for j in keys:
            down = sign * (i // width - j // width) + away[0] - 1
            right = sign * (i % width - j % width) + away[1] - 1
            assert 0 <= down < 2 * away[0] - 1 and 0 <= right < 2 * away[1] - 1
            rows.append(down * (2 * away[1] - 1) + right)
    return table[rows].T.reshape(-1, len(queries), len(keys))


def region_of(site, regions, b):
    """Region of each patch of sample b."""
    assert regions is None or not site.prefix
    return [0] * (site.grid[0] * site.grid[1]) if regions is None else regions[b].tolist()


def block(grid, top, left, height, width):
    """Patches of a rectangle, as far as it lies in the grid, in raster order."""
    return [y * grid[1] + x for y in range(max(top, 0), min(top + height, grid[0]))
            for x in range(max(left, 0), min(left + width, grid[1]))]


def window_cells(site, o, regions, b):
    """Queries and keys (patch numbers) of each local set of sample b: windows, apart by region."""
    w = window_side(site, o)
    e, ids, cells = overlap(o, w), region_of(site, regions, b), []
    for top in range(0, site.grid[0], w):
        for left in range(0, site.grid[1], w):
            queries = block(site.grid, top, left, w, w)
            keys = block(site.grid, top - e, left - e, w + 2 * e, w + 2 * e)
            for region in sorted({ids[t] for t in queries}):
                cells.append(([t for t in queries if ids[t] == region],
                              [t for t in keys if ids[t] == region]))
    return cells


def shifted_cells(site):
    """The same for the windows of a Swin: queries and keys are a window's tokens, as far as the
    map's border does not lie between them."""
    (rows, columns), (h, w), (down, right) = site.grid, site.window, site.shift
    cells = {}
    for t in range(rows * columns):
        y, x = t // columns, t % columns
        window = ((y - down) % rows // h, (x - right) % columns // w)
        cells.setdefault((window, y < down, x < right), []).append(t)
    return [(tokens, tokens) for tokens in cells.values()]


def neighbour_cells(site, kernel, edge, regions, b):
    """One cell for each query: kernel x kernel keys around it. At the map's edge these move inwards
    (clamp), or those outside are missing (clip)."""
    assert kernel % 2, "the kernel is even"
    ids, cells = region_of(site, regions, b), []
    for t in range(site.grid[0] * site.grid[1]):
        starts, lengths = [], []
        for at, side in zip((t // site.grid[1], t % site.grid[1]), site.grid):
            length = min(kernel, side) if edge == "clamp" else kernel
            start = at - kernel // 2
            starts.append(max(0, min(start, side - length)) if edge == "clamp" else start)
            lengths.append(length)
        keys = block(site.grid, *starts, *lengths)
        cells.append(([t], [j for j in keys if ids[j] == ids[t]]))
    return cells


def raster_cells(site, a, dilation, regions, b):
    """One cell for each query: 2a + 1 keys in raster order, as far as there are patches."""
    ids, patches = region_of(site, regions, b), site.grid[0] * site.grid[1]
    cells = []
    for t in range(patches):
        keys = [t + dilation * j for j in range(-a, a + 1)]
        cells.append(([t], [j for j in keys if 0 <= j < patches and ids[j] == ids[t]]))
    return cells


def see(site, q, k, v, cells, bias=None, extra=None):
    """(H, N, d) of one sample: every query over the prefix tokens, the keys of its cell and
    `extra`.

    bias(queries, keys): (H, queries, keys). extra(queries, keys): None, or keys (H, C, d), values
    (H, C, d) and logarithms of their masses (C) of further keys of the cell.
    """
    n, s = site.prefix, q.shape[-1] ** -0.5
    rows = [None] * site.N
    for i in range(n):
        rows[i] = softmax(s * q[:, i:i + 1] @ k.transpose(-1, -2)) @ v
    for queries, keys in cells:
        at, table = [n + t for t in queries], [n + t for t in keys]
        qs = q[:, at]
        scores = s * qs @ k[:, table].transpose(-1, -2)
        if bias is not None:
            scores = scores + bias(queries, keys)
        scores = [s * qs @ k[:, :n].transpose(-1, -2), scores]
        values = [v[:, :n], v[:, table]]
        more = extra(queries, keys) if extra is not None else None
        if more is not None:
            scores.append(s * qs @ more[0].transpose(-1, -2) + more[2])
            values.append(more[1])
        y = softmax(torch.cat(scores, -1)) @ torch.cat(values, -2)
        for i, t in enumerate(at):
            rows[t] = y[:, i:i + 1]
    return torch.cat(rows, -2)


def table_bias(site, o, p, sign):
    """The bias function of `see`; None without a table."""
    table = p.get("relative_position_bias_table")
    if table is None:
        return None
    away = reach(site, o)
    return lambda queries, keys: position_bias(table, site.grid, away, queries, keys, sign)


def over_samples(site, p, x, one):
    """The layer around one(b, q, k, v), (H, N, d) to (H, N, d)."""
    q, k, v = qkv_heads(site, p, x)
    y = torch.stack([one(b, q[b], k[b], v[b]) for b in range(x.shape[0])])
    return linear(p, "proj", merge_heads(y))


def local(site, o, p, x, regions):
    """Softmax in windows of w x w patches; with overlap over (w + 2e) x (w + 2e) keys."""
    bias = table_bias(site, o, p, 1)  # query minus key, as in Swin
    return over_samples(site, p, x, lambda b, q, k, v: see(
        site, q, k, v, window_cells(site, o, regions, b), bias))


def na(site, o, p, x, regions):
    """Neighbourhood attention, Hassani et al., arXiv:2204.07143, eq. 2 to 4."""
    bias = table_bias(site, o, p, -1)  # key minus query, as in NAT
    return over_samples(site, p, x, lambda b, q, k, v: see(
        site, q, k, v, neighbour_cells(site, o.kernel, o.edge, regions, b), bias))


def longformer(site, o, p, x, regions):
    """Beltagy et al., arXiv:2004.05150, section 3: a sliding window, and global prefix tokens."""
    a = o.window or (24 if o.form == "raster" else 3)

    def one(b, q, k, v):
        if o.form == "raster":
            return see(site, q, k, v, raster_cells(site, a, o.dilation, regions, b))
        edge = "clamp" if o.form == "na" else "clip"
        return see(site, q, k, v, neighbour_cells(site, 2 * a + 1, edge, regions, b))

    if o.shared or not site.prefix:
        return over_samples(site, p, x, one)
    q, k, v = qkv_heads(site, p, x)
    y = torch.stack([one(b, q[b], k[b], v[b]) for b in range(x.shape[0])])
    q, k, v = qkv_heads(site, p, x, "qkv_global")
    scores = q[:, :, :site.prefix] @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    y = torch.cat([softmax(scores) @ v, y[:, :, site.prefix:]], 2)
    return linear(p, "proj", merge_heads(y))


def block_means(site, g):
    """(N, slots): E = F of linformer with pool. Each prefix token is a slot of its own."""
    rows, columns = site.grid
    assert not (rows % g or columns % g), "the blocks do not divide the grid"
    result = torch.zeros(site.N, site.prefix + rows * columns // (g * g), dtype=torch.float64)
    for i in range(site.prefix):
        result[i, i] = 1
    slot = site.prefix
    for top in range(0, rows, g):
        for left in range(0, columns, g):
            for t in block(site.grid, top, left, g, g):
                result[site.prefix + t, slot] = 1 / (g * g)
            slot += 1
    return result


def project(q, k, v, E, F):
    """E, F: (n, slots), or (H, n, slots)."""
    keys, values = E.transpose(-1, -2) @ k, F.transpose(-1, -2) @ v
    return softmax(q @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1])) @ values


def linformer(site, o, p, x, regions):
    """Wang et al., arXiv:2006.04768, eq. 7: keys and values projected along the tokens.

    The projections stand behind the Linear with its bias, as in the paper. A region projects its
    own tokens alone, with their rows of E and F: a slot that gets none of them has key and value 0.
    """
    E = block_means(site, o.pool) if o.pool else p["proj_k"]
    F = p.get("proj_v", E)

    def mix(place, q, k, v):
        return project(q, k, v, E[..., place.tokens, :], F[..., place.tokens, :])

    q, k, v = qkv_heads(site, p, x)
    return linear(p, "proj", merge_heads(by_region(site, regions, mix, q, k, v)))
