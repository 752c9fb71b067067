"""Swin checkpoints as other programs name their tensors: the names, and the logits that follow.

torchvision's names are taken from a model of torchvision, which also gives the logits. The layout of
timm since 0.8 differs from the authors' in two rules of its `checkpoint_filter_fn`; the authors' own
files hold buffers besides.
"""

import re

import torch

import crosscheck
import crosscheck_swin
import formula
import swin

LAYOUTS = ("authors", "timm", "torchvision")


def authors_buffers(m):
    """relative_position_index of every block, attn_mask of those with moved windows."""
    for s, stage in enumerate(m.stages):
        for i in range(stage.depth):
            block = "layers.%d.blocks.%d." % (s, i)
            yield block + "attn.relative_position_index", "I64", [stage.tokens, stage.tokens]
            if any(stage.shift(i)):
                windows = stage.grid[0] * stage.grid[1] // stage.tokens
                yield block + "attn_mask", "F32", [windows, stage.tokens, stage.tokens]


def timm_name(name):
    name = re.sub(r"^layers\.(\d+)\.downsample",
                  lambda found: "layers.%d.downsample" % (int(found.group(1)) + 1), name)
    return re.sub(r"^head\.", "head.fc.", name)


def check_torchvision(m, params, x, logits):
    """Names, shapes and buffers of the state dict; its logits for the same input."""
    model = crosscheck_swin.torchvision_model(m)
    state = model.state_dict()
    renamed = {crosscheck_swin.torchvision_name(n): v for n, v in params.items()}
    buffers = {n: v for n, v in state.items() if n.endswith("relative_position_index")}
    assert set(state) == set(renamed) | set(buffers)
    assert all(state[n].shape == v.shape for n, v in renamed.items())
    model.load_state_dict({**renamed, **buffers})
    assert crosscheck.relative(model(x), logits) < crosscheck.TOLERANCE
    return [(n, "I64", list(v.shape)) for n, v in buffers.items()]


def case(layout, config, batch):
    m = swin.Model(config)
    shapes = swin.parameter_shapes(m)
    params = {n: torch.from_numpy(formula.tensor(n, s)) for n, s in shapes.items()}
    shape = (batch, m.channels) + m.image
    x = torch.from_numpy(formula.tensor("x", shape))
    logits = swin.forward(m, params, x)["logits"]
    rename, buffers = {"authors": (str, list(authors_buffers(m))), "timm": (timm_name, []),
                       "torchvision": (crosscheck_swin.torchvision_name, [])}[layout]
    if layout == "torchvision":
        buffers = check_torchvision(m, params, x, logits)
    tensors = [{"name": rename(n), "ours": n, "shape": list(s)} for n, s in shapes.items()]
    tensors += [{"name": n, "dtype": dtype, "shape": s} for n, dtype, s in buffers]
    assert len({t["name"] for t in tensors}) == len(tensors)
    return {"format": 1, "kind": "foreign", "name": "foreign_" + layout, "config": {"model": config},
            "input": {"x": "x", "shape": list(shape), "labels": formula.labels(batch, m.classes)},
            "logits": logits.reshape(-1).tolist(), "tensors": tensors}
