"""Attention alone, at several numbers of tokens N: time, FLOP/s and memory of the mixing, that is
of a mixer without its linear projections.

attnbench's side comes from the profile of a model of one block, configs/bench/attention.json, in
which attention is most of the work. What the threads wait is shared out over all ops by their time.
PyTorch's side is softmax(scale q k^T) v alone, on q, k and v that lie as suits it best.
"""

import json

from bench_run import PROGRAM, config_path, effective_config, say, summary, today

CONFIG = "attention"
# Image size and batch: B x N is about the same in all.
SIZES = ((224, 64), (448, 16), (896, 4))


def attnbench(options, size, batch, mode, precision, seconds, number):
    """Seconds of the mixing for one image, its FLOP/s, and the step blocks of the whole model."""
    command = [PROGRAM, "bench", config_path(CONFIG), "--mode", mode, "--batch", str(batch),
               "--threads", str(options.threads), "--seconds", str(seconds), "--profile", "--json"]
    for setting in ("model.image_size=%d" % size, "train.precision=%s" % precision):
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
