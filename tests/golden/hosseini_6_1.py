"""The reference values of one attention layer (l = 3, d = 4, h = 2), recomputed with NumPy alone.

Forward and backward are written out as matrices, without autograd, in the convention of the paper
(tokens are rows, Q = X W^Q, weights in x out). The printed digits are data; `case` checks that this
code gives them to the last digit and stores them beside the values at full precision.
"""

import numpy as np

L, D, H = 3, 4, 2
NUMBERS = {"X": 1, "W^Q": 2, "W^K": 3, "W^V": 4, "W^O": 5, "W^A": 6, "b_Q": 7, "b_K": 8, "b_V": 9,
           "b_O": 10, "b_A": 11, "G": 12}

# variant: L, row 0 of O, row 2 of O, squared norms of the gradients.
PRINTED = {
    "standard": ("-0.281628819121",
                 "0.6090417758 0.2185752185 -0.2045175173 -0.1096652534",
                 "0.6131756316 0.2149670733 -0.2014315363 -0.1111845735",
                 {"X": "1.1521395512e-2", "W^Q": "1.0958978679e-4", "W^K": "8.5352955084e-5",
                  "W^V": "2.5999582710e-3", "W^O": "1.2846214216e-1", "b_Q": "1.7571261450e-5",
                  "b_V": "6.1496973038e-2"}),
    "optimized": ("-0.231840978246",
                  "0.5123422560 0.0850321846 -0.3191363161 0.0877817897",
                  "0.5112762994 0.0804405703 -0.3219641462 0.0960215841",
                  {"X": "2.1147220412e-2", "W^Q": "1.4122734687e-4", "W^K": "5.2313564593e-4",
                   "W^O": "1.3752836467e-2", "b_Q": "3.6309553354e-5"}),
    "efficient": ("-0.229512794196",
                  "0.4939015793 0.0954884098 -0.3354381253 0.0925259583",
                  "0.4923859166 0.0836414191 -0.3354136317 0.1053206279",
                  {"X": "2.4122588581e-2", "W^Q": "1.5005040556e-3", "W^O": "1.4150707800e-2",
                   "b_Q": "1.5463334037e-4"}),
    "super": ("-0.230439874753",
              "0.4654180622 0.0713123604 -0.3948136650 0.1577193637",
              "0.4674925160 0.0710472775 -0.3905258445 0.1566760377",
              {"X": "1.9679258134e-3", "W^Q": "3.9536448830e-4", "W^O": "6.6553452306e-3",
               "W^A": "4.6077819921e-3", "b_Q": "4.5184304350e-5"}),
    "super, b_A on": ("-0.225465801828",
                      "0.5161674780 0.0535207992 -0.3848086995 0.1473521040",
                      "0.5193002730 0.0502981585 -0.3795284366 0.1472682711",
                      {"X": "3.0584041644e-3", "W^Q": "7.1158916636e-4", "W^O": "1.6718365737e-2",
                       "W^A": "4.6077819921e-3", "b_Q": "2.4555859408e-4",
                       "b_A": "3.5764722075e-3"}),
}
B_O_NORM2 = "3.3813476562e-1"


def fill(n, *shape):
    j = np.arange(int(np.prod(shape)))
    return ((((37 * j + 101 * n + 11) % 64) - 31.5) / 64).reshape(shape)


def tensors():
    shapes = {"X": (L, D), "G": (L, D), "W^A": (L, L), "b_A": (L,)}
    return {name: fill(n, *shapes.get(name, (D, D) if name[0] == "W" else (D,)))
            for name, n in NUMBERS.items()}


def layer(variant, t):
    """Returns (L, O, gradients by name) of L = sum G * O."""
    x, g, k = t["X"], t["G"], D // H
    scale = 1 / np.sqrt(k)
    q = x @ t["W^Q"] + t["b_Q"]
    keys = x @ t["W^K"] + t["b_K"] if variant in ("standard", "optimized") else x
    values = x @ t["W^V"] + t["b_V"] if variant == "standard" else x
    if variant.startswith("super"):
        values = t["W^A"] @ x + (t["b_A"][:, None] if variant.endswith("on") else 0)
    heads, shares = np.zeros((L, D)), []
    for i in range(H):
        c = slice(i * k, (i + 1) * k)
        e = np.exp(scale * q[:, c] @ keys[:, c].T)
        shares.append(e / e.sum(1, keepdims=True))
        heads[:, c] = shares[i] @ values[:, c]
    out = heads @ t["W^O"] + t["b_O"]

    dq, dk, dv = np.zeros((L, D)), np.zeros((L, D)), np.zeros((L, D))
    dh = g @ t["W^O"].T
    for i in range(H):
        c, s = slice(i * k, (i + 1) * k), shares[i]
        dv[:, c] = s.T @ dh[:, c]
        r = np.sum(dh[:, c] * heads[:, c], 1, keepdims=True)
        dz = s * (dh[:, c] @ values[:, c].T - r)
        dq[:, c] = scale * dz @ keys[:, c]
        dk[:, c] = scale * dz.T @ q[:, c]
    grads = {"W^O": heads.T @ g, "b_O": g.sum(0), "W^Q": x.T @ dq, "b_Q": dq.sum(0)}
    dx = dq @ t["W^Q"].T
    if variant in ("standard", "optimized"):
        grads["W^K"], grads["b_K"] = x.T @ dk, dk.sum(0)
        dx = dx + dk @ t["W^K"].T
    else:
        dx = dx + dk
    if variant == "standard":
        grads["W^V"], grads["b_V"] = x.T @ dv, dv.sum(0)
        dx = dx + dv @ t["W^V"].T
    elif variant.startswith("super"):
        grads["W^A"] = dv @ x.T
        if variant.endswith("on"):
            grads["b_A"] = dv.sum(1)
        dx = dx + t["W^A"].T @ dv
    else:
        dx = dx + dv
    grads["X"] = dx
    return float(np.sum(g * out)), out, grads


def agrees(value, printed):
    """Whether `value`, rounded to the digits of `printed`, is `printed`."""
    mantissa, _, exponent = printed.partition("e")
    digits = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - digits)
    return abs(value - float(printed)) <= 0.5000001 * unit


def check_differences(variant, t, grads):
    """Central differences of every entry of every tensor that the variant reads."""
    step = 1e-6
    for name, grad in grads.items():
        flat = t[name].reshape(-1)
        for j in range(flat.size):
            start = flat[j]
            flat[j] = start + step
            up = layer(variant, t)[0]
            flat[j] = start - step
            down = layer(variant, t)[0]
            flat[j] = start
            assert abs((up - down) / (2 * step) - grad.reshape(-1)[j]) < 1e-8, (variant, name, j)


def case():
    t = tensors()
    assert t["X"][0].tolist() == [0.2578125, -0.1640625, 0.4140625, -0.0078125]
    assert t["W^A"][0].tolist() == [0.1484375, -0.2734375, 0.3046875]
    variants = []
    for name, (loss, row0, row2, norms) in PRINTED.items():
        value, out, grads = layer(name, t)
        check_differences(name, t, grads)
        assert agrees(value, loss), (name, value, loss)
        rows = {"0": row0.split(), "2": row2.split()}
        for row, texts in rows.items():
            assert all(agrees(v, s) for v, s in zip(out[int(row)], texts)), (name, row)
        norms = {**norms, "b_O": B_O_NORM2}
        norms2 = {key: float(np.sum(grad * grad)) for key, grad in grads.items()}
        for key, text in norms.items():
            assert agrees(norms2[key], text), (name, key, norms2[key], text)
        assert set(norms2) - set(norms) <= {"b_K"}
        attention = {"name": name.partition(",")[0]}
        if name.endswith("on"):
            attention["wa_bias"] = True
        variants.append({
            "attention": attention,
            "printed": {"L": float(loss), "O.0": [float(s) for s in rows["0"]],
                        "O.2": [float(s) for s in rows["2"]],
                        "norm2": {key: float(text) for key, text in norms.items()}},
            "full": {"L": value, "O": out.reshape(-1).tolist(),
                     "norm2": {key: norms2[key] for key in norms}},
        })
    return {"format": 1, "kind": "layer", "name": "hosseini_6_1", "tokens": L, "dim": D, "heads": H,
            "numbers": NUMBERS, "tolerance": {"L": 5e-13, "O": 5e-11, "norm2_relative": 1e-10},
            "variants": variants}
