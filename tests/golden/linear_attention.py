"""The linear attentions of the specification, in float64: names of options and parameters.

OPTIONS names every option with its default. All variants have `order` as well (auto, linear,
quadratic): it changes how, never what is computed.

The class token is a token of every sum over keys; it has no row in key tables and no depthwise term.
Inside windows a site is one window; relative position bias is not taken. Where a shifted window has
regions, every sum, mean and softmax over keys runs over the query's own region, counts of keys are
those of the region, and a depthwise convolution reads 0 across the border of one. Positions (cosFormer,
vicinity) stay those in the window.
"""

OPTIONS = {
    "relu_linear": {"eps": 1e-15, "ape": False, "shortcut": False},
    "elu_linear": {},
    # alpha0, beta0, gamma0: start values. zero: none, alpha, beta, gamma: starts that one at 1e-3.
    # reduce: self (Eq. 11), or pool, chunk, random of Table 3: these quadratic blocks are divided by
    # their L2 norm. pool: consecutive channels averaged; chunk: number of chunks.
    "qt": {"alpha0": 0.5 ** 0.5, "beta0": 0.0, "gamma0": 1.0, "zero": "none", "reduce": "self",
           "pool": 2, "chunk": 2, "ape": True, "shortcut": True},
    "qt_released": {"ape": True, "shortcut": True},
    "qt_exact": {"basis": "sym", "ape": False, "shortcut": False},  # sym, full, kron
    # centre: token, none, feature. bits: of the quantiser, 0: none.
    "taylor1": {"centre": "token", "residual": True, "threshold": 0.002, "bits": 4},
    # form: kernel, castling. aux, ramp (threshold goes from `threshold` to 1 over the training),
    # threshold: of castling alone.
    "angular": {"form": "kernel", "aux": True, "threshold": 0.02, "ramp": False},
    "focused": {"p": 3, "kernel": 5},
    "cosformer": {},
    "hydra": {},
    "shen": {},
    "vicinity": {"product": False, "clamp": False},
    # form: softmax, exp, joint. init: identity, kaiming, zeros (then z = x + W x).
    "hedgehog": {"form": "softmax", "init": "identity", "tie": False},
    "based": {"f": 16},
    "rebased": {"f": 16, "eps": 1e-5},
    "aft_simple": {"form": "elementwise"},  # elementwise, matrix
    "polynl": {},
}


def option(site, key):
    """The site's option, or its default."""
    defaults = OPTIONS[site.attention["name"]]
    unknown = set(site.attention) - set(defaults) - {"name", "order"}
    assert not unknown, "unknown options %s" % unknown
    return site.attention.get(key, defaults[key])


def has(site, key):
    """Whether the variant has a switch of that name, and it is on."""
    return key in OPTIONS[site.attention["name"]] and option(site, key)


def linear_shapes(name, rows, columns, bias):
    result = {name + ".weight": (rows, columns)}
    if bias:
        result[name + ".bias"] = (rows,)
    return result


def shapes(site):
    """Name to shape of the trained parameters below the attention's own name.

    d = D / H. P = rows x columns of the grid, without class token.

    all but those below   qkv.weight (3 D, D), qkv.bias (3 D) with qkv_bias: rows are q, k, v, and
                          in each of them head h has rows h d .. (h + 1) d - 1
    all                   proj.weight (D, D), proj.bias (D) with proj_bias
    ape                   k_pos (H d, rows, columns): head h has channels h d .. (h + 1) d - 1
    shortcut              shortcut.norm.weight, .bias (d), shared by the heads
    qt                    alpha, beta, gamma (1); all three always exist and are always used
    qt_released           gamma (1)
    angular, castling     dwc.weight (H, 9): correlation along the patches in raster order
    focused               scale (D): rho; k_pos (P, D); dwc.weight (d, 1, kernel, kernel), dwc.bias (d)
    vicinity              qkv.weight (3 D / 2, D), proj.weight (D, D / 2), gate.fc1.weight,
                          gate.fc2.weight (D, D) without bias
    hedgehog              q_map.weight, k_map.weight (H, d, d): z = W x; with form joint q_map.bias,
                          k_map.bias (H, d); with tie q_map alone
    based, rebased        q.weight, k.weight (H f, D), v.weight (D, D), never with a bias
    rebased               q_norm.weight, q_norm.bias, k_norm.weight, k_norm.bias (H, f)
    """
    name, D, d = site.attention["name"], site.D, site.D // site.H
    width = D // 2 if name == "vicinity" else D
    result = {}
    if name in ("based", "rebased"):
        f = option(site, "f")
        for letter, rows in (("q", site.H * f), ("k", site.H * f), ("v", D)):
            result.update(linear_shapes(letter, rows, D, False))
    else:
        result.update(linear_shapes("qkv", 3 * width, D, site.qkv_bias))
    if has(site, "ape"):
        result["k_pos"] = (D,) + site.grid
    if name == "qt":
        result.update({"alpha": (1,), "beta": (1,)})
    if name in ("qt", "qt_released"):
        result["gamma"] = (1,)
    if has(site, "shortcut"):
        result.update({"shortcut.norm.weight": (d,), "shortcut.norm.bias": (d,)})
    if name == "angular" and option(site, "form") == "castling":
        result["dwc.weight"] = (site.H, 9)
    if name == "focused":
        size = option(site, "kernel")
        result.update({"scale": (D,), "k_pos": (site.grid[0] * site.grid[1], D),
                       "dwc.weight": (d, 1, size, size), "dwc.bias": (d,)})
    if name == "vicinity":
        result.update({"gate.fc1.weight": (D, D), "gate.fc2.weight": (D, D)})
    if name == "hedgehog":
        for letter in ("q",) if option(site, "tie") else ("q", "k"):
            result[letter + "_map.weight"] = (site.H, d, d)
            if option(site, "form") == "joint":
                result[letter + "_map.bias"] = (site.H, d)
    if name == "rebased":
        for key in ("q_norm.weight", "q_norm.bias", "k_norm.weight", "k_norm.bias"):
            result[key] = (site.H, option(site, "f"))
    result.update(linear_shapes("proj", D, width, site.proj_bias))
    return result


def buffers(site):
    """Name to shape of what is stored and not trained.

    shortcut          shortcut.norm.running_mean, shortcut.norm.running_var (d)
    qt, random        pairs (d, 2): row n holds the two channels whose product is feature n
    taylor1           quant.q_min, quant.q_range, quant.k_min, quant.k_range (1), with residual and
                      bits > 0: running minimum and range of q and of k
    """
    name, d = site.attention["name"], site.D // site.H
    result = {}
    if has(site, "shortcut"):
        result.update({"shortcut.norm.running_mean": (d,), "shortcut.norm.running_var": (d,)})
    if name == "qt" and option(site, "reduce") == "random":
        result["pairs"] = (d, 2)
    if name == "taylor1" and option(site, "residual") and option(site, "bits"):
        result.update({"quant." + key: (1,) for key in ("q_min", "q_range", "k_min", "k_range")})
    return result
