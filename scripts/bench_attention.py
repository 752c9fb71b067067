"""Attention alone, at several numbers of tokens N: time, FLOP/s and memory of the mixing, that is
of a mixer without its linear projections.

attnbench's side comes from the profile of a model of one block, configs/bench/attention.json, in
which attention is most of the work. What the threads wait is shared out over all ops by their time.
PyTorch's side is softmax(scale q k^T) v alone, on q, k and v that lie as suits it best.
"""

import json
import math
import re

from bench_run import PROGRAM, Failed, config_path, effective_config, run, say, summary, today

CONFIG = "attention"
# Image size and batch: B x N is about the same in all.
SIZES = ((224, 64), (448, 16), (896, 4))
VARIANT_SIZES = ((128, 196), *SIZES)
FIT_FROM = 196  # tokens from which on the exponent is fitted
# Options under which costs are compared; all others are at their defaults.
OPTIONS = {"linformer": {"k": 64}}


def attnbench(options, size, batch, mode, precision, seconds, number, *settings):
    """Seconds of the mixing for one image, its FLOP/s, and the step blocks of the whole model."""
    command = [PROGRAM, "bench", config_path(CONFIG), "--mode", mode, "--batch", str(batch),
               "--threads", str(options.threads), "--seconds", str(seconds), "--profile", "--json"]
    for setting in ("model.image_size=%d" % size, "train.precision=%s" % precision, *settings):
        command += ["--set", setting]
    result = options.store.run(command, number=number)
    profile = result["profile"]
    step, mixing = profile["step_seconds"], profile["mixing"]
    seconds = sum(mixing["seconds"]) * step / (step - max(0, profile["rest_seconds"]))
    return {"seconds_per_image": seconds / batch, "block_bytes": result["block_bytes"],
            "gflops_per_sec": sum(mixing["flops"]) / seconds / 1e9}


def summarize(results):
    out = {key: summary([result[key] for result in results])
           for key in ("seconds_per_image", "gflops_per_sec")}
    for key in ("block_bytes", "growth_bytes"):
        if key in results[0]:
            out[key] = max(result[key] for result in results)
    return out


# --- beside PyTorch -------------------------------------------------------------------------------

def model_of():
    with open(effective_config(CONFIG)) as file:
        return json.load(file)["model"]


def tokens_of(model, size):
    """Of the patches."""
    return (size // model["patch_size"]) ** 2


def torch_side(options, what, flops, batch, choice, run_torch, number):
    result = run_torch(what, options, choice, options.seconds / 2, number)
    seconds = result["step_ms"]["median"] / 1e3
    return {"seconds_per_image": seconds / batch, "gflops_per_sec": flops / seconds / 1e9,
            "growth_bytes": result["growth_bytes"]}


def torch_work(model, size, batch, mode):
    heads = model["heads"]
    return ("--attention", "%d,%d,%d,%d" % (batch, heads, tokens_of(model, size) + 1,
                                            model["dim"] // heads), "--mode", mode)


def measure_size(options, model, size, batch, mode, precision, choice, run_torch):
    tokens, what = tokens_of(model, size) + 1, torch_work(model, size, batch, mode)
    flops = (3 if mode == "train" else 1) * 4.0 * batch * tokens ** 2 * model["dim"]
    row = {"tokens": tokens, "batch": batch, "mode": mode, "precision": precision,
           "tensor_bytes": 4 * batch * model["heads"] * tokens ** 2}
    ours, theirs = [], []
    for number in range(options.rounds):
        ours.append(attnbench(options, size, batch, mode, precision, options.seconds / 2, number))
        if choice:
            theirs.append(torch_side(options, what, flops, batch, choice, run_torch, number))
    row["attnbench"] = summarize(ours)
    if theirs:
        row["pytorch"] = summarize(theirs)
    say("  N = %d, %s, %s: %.0f GFLOP/s" % (tokens, mode, precision,
                                            row["attnbench"]["gflops_per_sec"]["median"]))
    return row


def measure(options, choose, run_torch):
    """Standard attention with a class token. choose(work, forms) and run_torch(work, ...) are those
    of bench_peers; PyTorch's settings are chosen at the middle size."""
    say("attention alone")
    model, rows, trials = model_of(), [], []
    for precision in options.precisions:
        forms = ["tensors in bf16", "autocast"] if precision == "bf16" else ["eager"]
        for mode in ("infer", "train"):
            choice, tried = choose(torch_work(model, *SIZES[1], mode), forms)
            trials.append({"precision": precision, "mode": mode, "choice": choice,
                           "trials": tried})
            rows += [measure_size(options, model, size, batch, mode, precision, choice, run_torch)
                     for size, batch in SIZES]
    products = options.store.run(
        [PROGRAM, "bench", config_path(CONFIG), "--batch", str(SIZES[0][1]), "--threads",
         str(options.threads), "--seconds", str(2 * options.seconds), "--ceiling", "--json"])
    return {"date": today(), "dim": model["dim"], "heads": model["heads"], "rows": rows,
            "trials": trials,
            "products": {precision: products[precision]["gflops_per_sec"]
                         for precision in options.precisions}}


# --- every variant --------------------------------------------------------------------------------

def published_exponent(complexity):
    """Of N in a text such as "O(N^2 D)"; None where it is not a plain power."""
    if re.search(r"log|sqrt|\+", complexity):
        return None
    power = re.search(r"\bN\^([\d.]+)", complexity)
    return float(power.group(1)) if power else 1.0 if re.search(r"\bN\b", complexity) else None


def fit_exponent(points):
    """The slope of a line through (log N, log seconds)."""
    points = [(math.log(n), math.log(seconds)) for n, seconds in points if n >= FIT_FROM]
    if len(points) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum(
        (x - mean_x) ** 2 for x, _ in points)


def measure_variant(options, variant, model):
    name = variant["name"]
    out = {"name": name, "complexity": variant["complexity"], "points": [],
           "options": OPTIONS.get(name, {}),
           "published_exponent": published_exponent(variant["complexity"])}
    settings = ["model.pool=mean", "model.attention=%s" % name]
    settings += ["model.attention.%s=%s" % pair for pair in out["options"].items()]
    for size, batch in VARIANT_SIZES:
        tokens = tokens_of(model, size)
        try:
            results = [attnbench(options, size, batch, "train", "fp32", options.seconds / 4, number,
                                 *settings) for number in range(options.rounds)]
        except Failed as reason:
            out["failed"] = "N = %d: %s" % (tokens, reason)
            break
        out["points"].append({"tokens": tokens, "batch": batch, **summarize(results)})
    out["exponent"] = fit_exponent([(point["tokens"], point["seconds_per_image"]["median"])
                                    for point in out["points"]])
    say("  %-16s N^%s" % (name, "?" if out["exponent"] is None else "%.2f" % out["exponent"]))
    return out


def measure_variants(options):
    """Forward and backward in fp32 without class token, for every variant that attnbench lists."""
    say("attention variants")
    known = run([PROGRAM, "list", "attention", "--json"])["attention"]
    wanted = options.variants.split(",") if options.variants else [v["name"] for v in known]
    for name in wanted:
        if name not in [variant["name"] for variant in known]:
            raise Failed("--variants: attnbench does not know %s" % name)
    model = model_of()
    return {"date": today(), "rows": [measure_variant(options, variant, model)
                                      for variant in known if variant["name"] in wanted]}
