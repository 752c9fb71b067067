"""Ten updates of a small model by torch.optim, from formula weights and formula batches."""

import math

import torch

import formula
import swin
import vit

UPDATES, WARMUP, MIN_LR = 10, 3, 1e-5


def learning_rate(t, lr):
    """The rate of update t = 0 … UPDATES-1: linear warm-up from 0, then a half cosine."""
    if t < WARMUP:
        return lr * (t + 1) / WARMUP
    return MIN_LR + (lr - MIN_LR) * (1 + math.cos(math.pi * (t - WARMUP) / (UPDATES - WARMUP))) / 2


def decays(name, value):
    return value.dim() > 1 and name.rpartition(".")[2] not in (
        "cls_token", "pos_embed", "relative_position_bias_table")


def make_optimizer(settings, params):
    groups = [{"params": [v for n, v in params.items() if decays(n, v)],
               "weight_decay": settings["weight_decay"]},
              {"params": [v for n, v in params.items() if not decays(n, v)], "weight_decay": 0.0}]
    if settings["name"] == "adamw":
        return torch.optim.AdamW(groups, lr=settings["lr"], betas=tuple(settings["betas"]),
                                 eps=settings["eps"], foreach=False)
    assert settings["name"] == "sgd"
    return torch.optim.SGD(groups, lr=settings["lr"], momentum=settings["momentum"], foreach=False)


def by_hand(settings, state, name, p, g, t, lr):
    """The same update written out, to check that torch.optim means what README.md says."""
    decay = settings["weight_decay"] if decays(name, p) else 0.0
    if settings["name"] == "sgd":
        g = g + decay * p
        state[name] = g if t == 0 else settings["momentum"] * state[name] + g
        return p - lr * state[name]
    b1, b2 = settings["betas"]
    m, v = state.get(name, (torch.zeros_like(p), torch.zeros_like(p)))
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    state[name] = (m, v)
    p = p * (1 - lr * decay)
    corrected = m / (1 - b1 ** (t + 1))
    return p - lr * corrected / (torch.sqrt(v / (1 - b2 ** (t + 1))) + settings["eps"])


def case(name, model, train, batch):
    host = {"vit": vit, "swin": swin}[model["name"]]
    m = host.Model(model)
    shapes = host.parameter_shapes(m)
    start = {n: torch.from_numpy(formula.tensor(n, s)) for n, s in shapes.items()}
    params = {n: v.clone().requires_grad_() for n, v in start.items()}
    settings, clip = train["optimizer"], train["clip_norm"]
    optimizer = make_optimizer(settings, params)
    written, state = {n: v.clone() for n, v in start.items()}, {}
    steps = []
    for t in range(UPDATES):
        x = torch.from_numpy(formula.tensor("x.%d" % t, (batch, m.channels) + m.image))
        y = formula.labels(batch, m.classes, first=t * batch)
        optimizer.zero_grad()
        loss = vit.loss(host.forward(m, params, x)["logits"], y, train["label_smoothing"])
        loss.backward()
        norm = math.sqrt(sum(float((v.grad * v.grad).sum()) for v in params.values()))
        scale = min(1.0, clip / (norm + 1e-6))
        lr = learning_rate(t, settings["lr"])
        for n, v in params.items():
            written[n] = by_hand(settings, state, n, written[n], v.grad * scale, t, lr)
        reported = torch.nn.utils.clip_grad_norm_(params.values(), clip)
        assert abs(float(reported) - norm) <= 1e-12 * norm
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
        steps.append({"x": "x.%d" % t, "labels": y, "lr": lr, "loss": float(loss.detach()),
                      "grad_norm": norm})
    final = {}
    for n, v in params.items():
        v = v.detach()
        # The gradient of a key bias is rounding noise, which no two programs share: hence atol.
        assert torch.allclose(v, written[n], rtol=1e-10, atol=1e-11), n
        final[n] = formula.summary(n, v.numpy())
        final[n]["moved"] = float((v - start[n]).norm())
    config = {"model": model, "train": train}
    return {"format": 1, "kind": "trajectory", "name": name, "config": config,
            "input": {"shape": [batch, m.channels, *m.image]}, "updates": UPDATES,
            "warmup_updates": WARMUP, "steps": steps, "tensors": final}
