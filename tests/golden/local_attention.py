"""Geometry of local attention: windows, and tables of position bias."""


def auto_window(grid):
    """The window that 0 stands for: 7 where it divides both sides of the grid, else 4 up to sides of
    16, else 8, else 6, else the largest common divisor of the sides up to 8."""
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
