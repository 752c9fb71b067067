"""What the references of efficient attention and of token mixers share: options and projections."""


def projections(site):
    """Shapes of qkv and of proj: first and last in every variant that has them."""
    first, last = {"qkv.weight": (3 * site.D, site.D)}, {"proj.weight": (site.D, site.D)}
    if site.qkv_bias:
        first["qkv.bias"] = (3 * site.D,)
    if site.proj_bias:
        last["proj.bias"] = (site.D,)
    return first, last


def choose(table, site):
    """The options of a site, defaults filled in, as an object; asserts names, types and ranges.

    table: variant -> option -> (default, allowed). allowed is bool, a tuple of names, or the lowest
    and the highest number in a list.
    """
    known = table[site.attention["name"]]
    given = {key: value for key, value in site.attention.items() if key != "name"}
    assert set(given) <= set(known), "unknown options %s" % (set(given) - set(known))
    values = {key: given.get(key, default) for key, (default, _) in known.items()}
    for key, value in values.items():
        allowed = known[key][1]
        if isinstance(allowed, list):
            assert allowed[0] <= value <= allowed[1], (key, value)
        else:
            assert isinstance(value, bool) if allowed is bool else value in allowed, (key, value)
    return type("Options", (), values)
