"""One block of every attention, projections and MLP included, at several numbers of tokens N: time of
an image and memory, forward and in training, in both precisions.

The block is the model configs/bench/block.json: one block behind small patches, without class token.
Training also tells the mixing alone, as in bench_attention.
"""

import math
import os
import re

from bench_run import PROGRAM, Failed, config_path, run, say, summary, today

CONFIG = "block"
PATCH = 4
# Image size and batch: B x N is about the same in all.
SIZES = ((32, 196), (56, 64), (112, 16), (224, 4))
FIT_FROM = 196  # tokens from which on the exponent is fitted, in the linear order where there is one
# Options under which costs are compared; all others are at their defaults.
OPTIONS = {"linformer": {"k": 64}, "qt_exact": {"basis": "sym"}}


def tokens_of(size):
    return (size // PATCH) ** 2


def published_exponent(complexity):
    """Of N in a text such as "O(N^2 D)"; None where it is not one plain power."""
    powers = re.findall(r"\bN\b(?:\^([\d.]+))?", complexity)
    if re.search(r"log|sqrt", complexity) or len(powers) != 1:
        return None
    return float(powers[0]) if powers[0] else 1.0


def fit_exponent(points):
    """The slope of a line through (log N, log seconds)."""
    points = [(math.log(n), math.log(seconds)) for n, seconds in points
              if n >= FIT_FROM and seconds > 0]
    if len(points) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum(
        (x - mean_x) ** 2 for x, _ in points)


def mixing_seconds(result):
    """Of a step; what the threads wait is shared out over all ops by their time."""
    profile = result["profile"]
    step = profile["step_seconds"]
    return sum(profile["mixing"]["seconds"]) * step / (step - max(0, profile["rest_seconds"]))


def measure_point(options, settings, size, batch, mode, precision):
    command = [PROGRAM, "bench", config_path(CONFIG), "--mode", mode, "--batch", str(batch),
               "--threads", str(options.threads), "--seconds", str(options.seconds / 4), "--profile",
               "--json"]
    for setting in ("model.image_size=%d" % size, "train.precision=%s" % precision, *settings):
        command += ["--set", setting]
    results = [options.store.run(command, number=number) for number in range(options.rounds)]
    return {"tokens": tokens_of(size), "batch": batch,
            "seconds_per_image": summary([r["step_ms"]["median"] / 1e3 / batch for r in results]),
            "mixing_seconds_per_image": summary([mixing_seconds(r) / batch for r in results]),
            "block_bytes": max(r["block_bytes"] for r in results)}


def mixing_points(options, settings, points):
    """[(tokens, seconds)] of the mixing in training, in fp32."""
    if "fp32" not in options.precisions:
        return []
    if settings:
        points = [measure_point(options, settings, size, batch, "train", "fp32")
                  for size, batch in SIZES if tokens_of(size) >= FIT_FROM]
    return [(point["tokens"], point["mixing_seconds_per_image"]["median"]) for point in points]


def measure_variant(options, variant):
    name = variant["name"]
    out = {"name": name, "complexity": variant["complexity"], "options": OPTIONS.get(name, {}),
           "published_exponent": published_exponent(variant["complexity"]), "points": {}}
    settings = ["model.attention=%s" % name]
    settings += ["model.attention.%s=%s" % pair for pair in out["options"].items()]
    for precision in options.precisions:
        for mode in ("train", "infer"):
            points = out["points"].setdefault("%s %s" % (mode, precision), [])
            for size, batch in SIZES:
                try:
                    points.append(measure_point(options, settings, size, batch, mode, precision))
                except Failed as reason:
                    out["failed"] = "N = %d, %s: %s" % (tokens_of(size), precision, reason)
    ordered = any(option["name"] == "order" for option in variant["options"])
    linear = settings + ["model.attention.order=linear"] if ordered else None
    out["exponent"] = fit_exponent(mixing_points(options, linear,
                                                 out["points"].get("train fp32", [])))
    say("  %-16s mixing N^%s" % (name, "?" if out["exponent"] is None else
                                 "%.2f" % out["exponent"]))
    return out


def measure(options):
    """Every variant that attnbench lists, or those of --variants."""
    say("a block of every attention")
    known = run([PROGRAM, "list", "attention", "--json"])["attention"]
    wanted = options.variants.split(",") if options.variants else [v["name"] for v in known]
    for name in wanted:
        if name not in [variant["name"] for variant in known]:
            raise Failed("--variants: attnbench does not know %s" % name)
    return {"date": today(), "load_at_start": os.getloadavg()[0], "rounds": options.rounds,
            "seconds": options.seconds, "rows": [measure_variant(options, variant)
                                                 for variant in known
                                                 if variant["name"] in wanted]}
