"""Writes the golden cases into a folder, or compares a folder with what would be written.

    generate.py write FOLDER      writes every case that is missing or differs beyond rounding
    generate.py compare FOLDER    says which files would change; exit code 1 if any would
"""

import json
import os
import sys

import torch

import crosscheck
import crosscheck_swin
import efficient_cases
import foreign
import formula
import hosseini_6_1
import hosseini_cases
import linear_cases
import swin
import trajectory
import vit

LIMIT = 32 * 1024
BATCH = 3
BASE = {"name": "vit", "image_size": [12, 8], "channels": 3, "classes": 5, "patch_size": 4,
        "dim": 24, "depth": 2, "heads": 3, "mlp_ratio": 2, "pool": "cls", "pos_embed": "learned"}
SWIN = {"name": "swin", "image_size": 32, "channels": 3, "classes": 5, "patch_size": 4, "dim": 12,
        "depths": [2, 1], "heads": [2, 4], "window_size": 4, "mlp_ratio": 2}
MASKED = {"name": "super", "wa_mask": True}
ADAMW = {"name": "adamw", "lr": 1e-3, "weight_decay": 0.05, "betas": [0.9, 0.999], "eps": 1e-8}
SGD = {"name": "sgd", "lr": 5e-2, "weight_decay": 0.05, "momentum": 0.9}


def model(attention="standard", options=None, **changes):
    return {**BASE, **changes, "attention": {"name": attention, **(options or {})}}


def vit_cases():
    """Name, model and label smoothing of every case of kind "vit"."""
    for attention in ("standard", "optimized", "efficient", "super"):
        for pool in ("cls", "mean"):
            yield "vit_%s_%s" % (pool, attention), model(attention, pool=pool), 0.0
    yield "vit_rect_patch", model(patch_size=[4, 2]), 0.0
    yield "vit_grey_one_head", model("efficient", channels=1, heads=1, depth=1), 0.0
    yield "vit_layer_scale", model(layer_scale=0.1), 0.0
    yield "vit_no_bias_standard", model(qkv_bias=False, proj_bias=False), 0.0
    yield "vit_no_bias_super", model("super", qkv_bias=False, proj_bias=False), 0.0
    yield "vit_sincos_cls", model(pos_embed="sincos"), 0.0
    yield "vit_sincos_mean", model(pos_embed="sincos", pool="mean"), 0.0
    yield "vit_pos_none", model(pos_embed="none"), 0.0
    yield "vit_fc_norm", model(pool="mean", fc_norm=True), 0.0
    yield "vit_super_base_standard", model("super", {"base": "standard"}), 0.0
    yield "vit_super_base_optimized", model("super", {"base": "optimized"}), 0.0
    yield "vit_super_wa_bias", model("super", {"wa_bias": True}), 0.0
    yield "vit_super_per_head", model("super", {"wa_share": False}), 0.0
    yield "vit_super_per_head_bias", model("super", {"wa_share": False, "wa_bias": True}), 0.0
    yield "vit_label_smoothing", model(), 0.1


def swin_model(attention="standard", **changes):
    return {**SWIN, **changes, "attention": attention}


def swin_cases():
    """Name and model of every case of kind "swin".

    SWIN has an 8 x 8 map with one block of unmoved and one of moved windows, then a map that is one
    window.
    """
    for name in ("standard", "optimized", "efficient", "super"):
        yield "swin_" + name, swin_model(name)
    yield "swin_super_mask", swin_model(MASKED)
    fine = {"patch_size": 2, "depths": [1, 2]}
    yield "swin_fine_standard", swin_model(**fine)
    yield "swin_fine_super_mask", swin_model(MASKED, **fine)
    shrunk = {"patch_size": 8, "depths": [1, 2]}  # maps of 4 and 2: the second window is 2
    yield "swin_shrunk_standard", swin_model(**shrunk)
    yield "swin_shrunk_super", swin_model("super", **shrunk)
    yield "swin_per_stage", swin_model(["standard", MASKED, "efficient"], patch_size=2, dim=8,
                                       depths=[1, 2, 1], heads=[2, 2, 4])
    yield "swin_rect_image", swin_model("efficient", patch_size=2, image_size=[16, 32])
    yield "swin_rect_patch", swin_model(MASKED, patch_size=[4, 2])
    one_axis = {"image_size": [16, 8], "patch_size": 2, "depths": [2], "heads": [2]}
    yield "swin_one_axis_standard", swin_model(**one_axis)  # 8 x 4: moved down, not to the right
    yield "swin_one_axis_super_mask", swin_model(MASKED, **one_axis)
    yield "swin_rect_window", swin_model(MASKED, image_size=[32, 24], window_size=[4, 3])
    odd = {"image_size": 24, "patch_size": 2, "window_size": 3}
    yield "swin_odd_window", swin_model("optimized", **odd)
    yield "swin_grey", swin_model(MASKED, image_size=28, channels=1, patch_size=2, window_size=7,
                                  heads=[4, 2])
    yield "swin_no_bias", swin_model(qkv_bias=False, proj_bias=False)
    yield "swin_super_all", swin_model({"name": "super", "base": "standard", "wa_bias": True,
                                        "wa_share": False, "wa_mask": True})


def model_case(kind, name, config, smoothing=0.0):
    """A case of kind "vit" or "swin"."""
    host, check = {"vit": (vit, crosscheck.check_modules),
                   "swin": (swin, crosscheck_swin.check)}[kind]
    m = host.Model(config)
    params = {n: torch.from_numpy(formula.tensor(n, s)) for n, s in
              host.parameter_shapes(m).items()}
    shape = (BATCH, m.channels) + m.image
    x = torch.from_numpy(formula.tensor("x", shape))
    labels = formula.labels(BATCH, m.classes)

    leaves = {n: v.clone().requires_grad_() for n, v in params.items()}
    input_leaf = x.clone().requires_grad_()
    outputs = host.forward(m, leaves, input_leaf)
    loss = vit.loss(outputs["logits"], labels, smoothing)
    loss.backward()
    grads = {"x": input_leaf.grad, **{n: v.grad for n, v in leaves.items()}}

    check(m, params, x, labels, smoothing, outputs["logits"], loss, grads)
    crosscheck.check_differences(
        lambda p, moved: vit.loss(host.forward(m, p, moved)["logits"], labels, smoothing),
        params, x, grads)

    tensors = {n: formula.summary(n, v.detach().numpy()) for n, v in outputs.items()}
    tensors.update({"grad." + n: formula.summary("grad." + n, g.numpy()) for n, g in grads.items()})
    document = {"format": 1, "kind": kind, "name": name,
                "config": {"model": config, "train": {"label_smoothing": smoothing}},
                "input": {"x": "x", "shape": list(shape), "labels": labels},
                "params": sum(v.numel() for v in params.values()), "loss": float(loss.detach()),
                "logits": outputs["logits"].detach().reshape(-1).tolist(), "tensors": tensors}
    if smoothing == 0.0:
        del document["config"]["train"]
    return document


def trajectory_cases():
    """Name, model and train settings; the last clips some of the updates, and not the others."""
    yield "trajectory_adamw_standard", model(), train_settings(ADAMW)
    yield "trajectory_adamw_super", model("super"), train_settings(ADAMW)
    yield "trajectory_sgd_standard", model(), train_settings(SGD)
    yield ("trajectory_sgd_efficient", model("efficient", pool="mean", layer_scale=0.1),
           {**train_settings(SGD), "clip_norm": 1.6, "label_smoothing": 0.1})
    yield "trajectory_adamw_swin_standard", swin_model(), train_settings(ADAMW)
    yield "trajectory_adamw_swin_super", swin_model(MASKED), train_settings(ADAMW)


def train_settings(optimizer):
    return {"epochs": trajectory.UPDATES, "batch_size": BATCH, "optimizer": optimizer,
            "schedule": {"name": "cosine", "warmup_epochs": trajectory.WARMUP,
                         "min_lr": trajectory.MIN_LR},
            "label_smoothing": 0.0, "clip_norm": 1.0}


def formula_case():
    """Hashes and single entries, for the test of the formula itself."""
    entries = []
    for name, shape in (("x", (3, 3, 12, 8)), ("x.9", (3, 3, 12, 8)), ("cls_token", (1, 1, 24)),
                        ("pos_embed", (1, 7, 24)), ("patch_embed.proj.weight", (24, 3, 4, 4)),
                        ("blocks.0.norm1.weight", (24,)), ("blocks.0.norm1.bias", (24,)),
                        ("blocks.0.attn.qkv.weight", (72, 24)),
                        ("blocks.0.attn.align.weight", (7, 7)),
                        ("blocks.1.attn.align.weight", (3, 7, 7)), ("blocks.0.ls1.gamma", (24,)),
                        ("blocks.1.mlp.fc2.weight", (24, 48)), ("head.weight", (5, 24))):
        flat = formula.tensor(name, shape).reshape(-1)
        at = [0, 1, flat.size - 1]
        offset, scale = formula.offset_and_scale(name, shape)
        entries.append({"name": name, "shape": list(shape), "fnv1a": formula.fnv1a(name),
                        "hash": [int(formula.bits(name, flat.size)[j]) for j in at],
                        "offset": offset, "scale": scale, "at": at,
                        "values": [float(flat[j]) for j in at], "sum": float(flat.sum())})
    probes = [{"name": "logits#%d" % which, "scale": 4.0,
               "values": formula.probe("logits", which, 4).tolist()} for which in (1, 2)]
    return {"format": 1, "kind": "formula", "name": "formula", "tensors": entries, "probes": probes}


def all_cases():
    yield formula_case()
    yield hosseini_6_1.case()
    for name, config, smoothing in vit_cases():
        yield model_case("vit", name, config, smoothing)
    crosscheck_swin.check_published()
    for name, config in swin_cases():
        yield model_case("swin", name, config)
    for layout in foreign.LAYOUTS:
        yield foreign.case(layout, swin_model(), BATCH)
    for name, config, train in trajectory_cases():
        yield trajectory.case(name, config, train, BATCH)
    for family in (hosseini_cases, linear_cases, efficient_cases):
        yield from family.cases()


def number(value):
    """JSON of a number: 17 significant digits, but settings such as 0.001 as they are written."""
    short = json.dumps(value)
    return short if not isinstance(value, float) or len(short) <= 12 else "%.17g" % value


def text(value, indent=""):
    """JSON: one line for what holds numbers and short things only, else one line per member."""
    if isinstance(value, (bool, int, float)):
        return number(value)
    if value is None or isinstance(value, str):
        return json.dumps(value)
    inner = indent + " "
    if isinstance(value, dict):
        parts = ["%s: %s" % (json.dumps(key), text(item, inner)) for key, item in value.items()]
        ends = "{}"
    else:
        parts = [text(item, inner) for item in value]
        ends = "[]"
    line = ends[0] + ", ".join(parts) + ends[1]
    if isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value):
        return line
    if isinstance(value, dict) and "norm" in value and "proj" in value:
        return line
    if len(line) + len(indent) <= 96 and "\n" not in line:
        return line
    return ends[0] + "\n" + ",\n".join(inner + part for part in parts) + "\n" + indent + ends[1]


def same(a, b, scale=1.0):
    """Equal up to the rounding of another BLAS: 1e-12 of the tensor's norm, at least of 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        scale = max(scale, abs(b.get("norm", 0.0)) if isinstance(b.get("norm"), float) else 0.0)
        return list(a) == list(b) and all(same(a[key], b[key], scale) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, scale) for x, y in zip(a, b))
    if isinstance(a, float) or isinstance(b, float):
        return isinstance(a, (int, float)) and isinstance(b, (int, float)) and \
            abs(a - b) <= 1e-12 * max(scale, abs(b))
    return type(a) is type(b) and a == b


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in ("write", "compare"):
        sys.stderr.write(__doc__)
        return 2
    write, folder = arguments[0] == "write", arguments[1]
    torch.set_num_threads(1)
    changed, names = [], set()
    for case in all_cases():
        content = text(case) + "\n"
        assert len(content) <= LIMIT, "%s has %d bytes" % (case["name"], len(content))
        file = case["name"] + ".json"
        names.add(file)
        path = os.path.join(folder, file)
        old = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as stream:
                old = json.load(stream)
        if old is not None and same(json.loads(content), old):
            continue
        changed.append(file)
        print("%s: %s" % (file, "new" if old is None else "differs"))
        if write:
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(content)
    for file in sorted(set(os.listdir(folder)) - names):
        changed.append(file)
        print("%s: belongs to no case%s" % (file, ", removed" if write else ""))
        if write:
            os.remove(os.path.join(folder, file))
    print("%d cases, %d %s" % (len(names), len(changed), "written" if write else "would change"))
    return 0 if write or not changed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
