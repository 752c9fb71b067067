"""attnbench, PyTorch and onnxruntime side by side: processes in alternation, on the same threads.

Each measurement is a process of its own: `attnbench bench`, bench_torch.py, in inference
bench_onnx.js, and `attnbench bench --ceiling` for what plain products reach in the same run. All
sides start from an environment without settings for BLAS and OpenMP. Short trials give PyTorch the
fastest that there is for it on each row: OpenBLAS's kernel, its pthread or OpenMP build, vector
code for AVX-512, compiled inference. The tables show medians and spread over the rounds.

A run that is cut goes on where it was: each finished measurement is kept in build/bench/kept.json
and used again while it is less than --hours old and commit, program and scripts are the same. So

    until scripts/bench-peers --minutes 8; do [ $? -eq 3 ] || break; done

does the same as one long run; exit code 3 says that there is more to do. The files in docs/ are
written at the end.
"""

import argparse
import json
import os
import platform
import shutil
import sys
from typing import NamedTuple

import bench_attention
import bench_blocks
import bench_tables
from bench_run import (PROGRAM, ROOT, TORCH_PEER, WORK, Failed, OutOfTime, Store, commit,
                       config_path, cpu_flags, effective_config, machine, run, say, summary, today,
                       versions)

ONNX_PEER = os.path.join(ROOT, "scripts/bench_onnx.js")
NODE_PATH = os.environ.get("NODE_PATH") or os.path.join(ROOT, "build/node/node_modules")
LIBRARIES = "/usr/lib/%s-linux-gnu" % platform.machine()
AVX512_KERNELS = ("SkylakeX", "Cooperlake", "SapphireRapids")
PRECISIONS = ("fp32", "bf16")


class Row(NamedTuple):
    name: str
    title: str  # in the tables
    config: str
    mode: str
    batch: int


ROWS = (
    Row("train_vit_tiny", "train ViT-Ti/16 224, batch 32", "vit_tiny_224", "train", 32),
    Row("train_vit_small", "train ViT-S/16 224, batch 16", "vit_small_224", "train", 16),
    Row("train_swin_tiny", "train Swin-T 224, batch 16", "swin_tiny_224", "train", 16),
    Row("train_vit_28", "train ViT 28 px, D 128, batch 128", "vit_28", "train", 128),
    Row("train_vit_32", "train ViT 32 px, D 192, batch 128", "vit_32", "train", 128),
    Row("infer_vit_tiny_32", "infer ViT-Ti/16 224, batch 32", "vit_tiny_224", "infer", 32),
    Row("infer_vit_tiny_1", "infer ViT-Ti/16 224, batch 1", "vit_tiny_224", "infer", 1),
    Row("infer_swin_tiny", "infer Swin-T 224, batch 16", "swin_tiny_224", "infer", 16),
)
SCALING, ATTENTION, BLOCKS = "scaling", "attention", "blocks"


# --- the sides ------------------------------------------------------------------------------------

def attnbench(row, options, threads, seconds, number, *more):
    return options.store.run(
        [PROGRAM, "bench", config_path(row.config), "--mode", row.mode, "--batch", str(row.batch),
         "--threads", str(threads), "--seconds", str(seconds), "--json", *more], number=number)


def run_attnbench(row, options, precision, threads, number):
    return attnbench(row, options, threads, options.seconds, number,
                     "--set", "train.precision=%s" % precision)


def run_ceiling(row, options, number):
    """Of both precisions, each in the time of one side."""
    return attnbench(row, options, options.threads, 2 * options.seconds, number, "--ceiling")


def torch_environment(choice, threads):
    environment = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    environment.update(choice["kernel"])
    if choice["build"]:
        environment["LD_LIBRARY_PATH"] = os.path.join(LIBRARIES, "openblas-" + choice["build"])
    if choice["capability"]:
        environment["ATEN_CPU_CAPABILITY"] = choice["capability"]
    return environment


def torch_command(options, choice, seconds, *what):
    """`what` says which work; a trial is no longer than it must be."""
    trial = ["--least", "2"] if seconds < options.seconds else []
    return [sys.executable, TORCH_PEER, "--threads", str(options.threads), "--seconds",
            str(seconds), "--form", choice["form"], *trial, *what]


def run_torch(what, options, choice, seconds, number):
    result = options.store.run(torch_command(options, choice, seconds, *what),
                               torch_environment(choice, options.threads), number)
    return {**result, "kernel": choice["kernel"]}


def torch_work(row):
    return ("--config", effective_config(row.config), "--mode", row.mode, "--batch",
            str(row.batch))


def run_onnx(row, options, model, number):
    size = model["size"]
    result = options.store.run(
        ["node", ONNX_PEER, model["file"], str(row.batch), str(size["channels"]),
         str(size["image_size"]), str(options.threads), str(options.seconds)],
        {"NODE_PATH": NODE_PATH}, number)
    return {**result, "params": model["params"]}


def export_onnx(row, options):
    """PyTorch's model in an ONNX file, with its sizes."""
    path = os.path.join(WORK, "%s_%d.onnx" % (row.config, row.batch))
    config = effective_config(row.config)
    with open(config) as file:
        size = json.load(file)["model"]
    command = [sys.executable, TORCH_PEER, "--config", config, "--batch", str(row.batch),
               "--threads", str(options.threads), "--onnx", path]
    done = options.store.run(command) if os.path.exists(path) else run(command)
    return {"file": path, "size": size, "params": done["params"]}


def onnx_missing():
    """Why onnxruntime cannot run here, or None."""
    if not shutil.which("node"):
        return "node is not installed"
    try:
        run(["node", "-e", "require('onnxruntime-node'); console.log('{}')"],
            {"NODE_PATH": NODE_PATH})
    except Failed:
        return "onnxruntime-node cannot be loaded from %s" % os.path.relpath(NODE_PATH, ROOT)
    return None


# --- the best that PyTorch can do -----------------------------------------------------------------

def choose_kernel(options):
    """Settings under which OpenBLAS's sgemm is fastest inside PyTorch: its own choice of kernel
    unless another one, or a size for an L2 cache that the CPU hides, gives 5 % more. Also all
    trials."""
    base = {"kernel": {}, "build": None, "capability": None}
    command = [sys.executable, TORCH_PEER, "--threads", str(options.threads), "--sgemm"]
    found, trials = None, []
    candidates = [{}, {"OPENBLAS_L2_SIZE": "512"}]
    own = options.store.run(command, torch_environment(base, options.threads))["blas"].split()
    flags = cpu_flags()
    if "avx512f" in flags and not set(own) & set(AVX512_KERNELS):
        candidates += [{"OPENBLAS_CORETYPE": "SkylakeX"},
                       {"OPENBLAS_CORETYPE": "SkylakeX", "OPENBLAS_L2_SIZE": "512"}]
    elif "avx2" in flags and not set(own) & {*AVX512_KERNELS, "Haswell", "Zen"}:
        candidates += [{"OPENBLAS_CORETYPE": "Haswell"}]
    for kernel in candidates:
        environment = torch_environment({**base, "kernel": kernel}, options.threads)
        try:
            rate = max(options.store.run(command, environment, number)["gflops_per_sec"]
                       for number in range(2))
        except Failed as reason:
            trials.append({"environment": kernel, "failed": str(reason)})
            continue
        trials.append({"environment": kernel, "gflops_per_sec": rate})
        if not found or rate > 1.05 * found[1]:
            found = kernel, rate
    if not found:
        raise Failed("PyTorch's sgemm fails under every setting")
    say("PyTorch's sgemm: %.0f GFLOP/s with %s" % (found[1], found[0] or "OpenBLAS's own kernel"))
    return found[0], trials


def choose(what, options, kernel, forms):
    """Tries one change at a time and keeps it where it is faster; forms[0] is the form to start
    with. Returns the choice (None where nothing runs) and all trials."""
    choice = {"kernel": kernel, "build": None, "capability": None, "form": forms[0]}
    changes = []
    if not options.quick:
        changes = [("build", build) for build in ("pthread", "openmp")
                   if os.path.isdir(os.path.join(LIBRARIES, "openblas-" + build))]
        if "avx512f" in cpu_flags():
            changes.append(("capability", "avx512"))
        changes += [("form", form) for form in forms[1:]]
    found, trials, seconds = None, [], min(1, options.seconds / 2)
    for key, value in [(None, None)] + changes:
        if trials and not found and key != "form":  # that it fails is not up to libraries
            continue
        candidate = {**choice, key: value} if key else choice
        try:
            result = run_torch(what, options, candidate, seconds, 0)
        except Failed as reason:
            trials.append({**candidate, "failed": str(reason)})
            continue
        rate = 1e3 / result["step_ms"]["median"]
        trials.append({**candidate, "steps_per_sec": rate,
                       "peak_rss_bytes": result["peak_rss_bytes"]})
        if found is None or rate > found:
            choice, found = candidate, rate
    return (choice if found else None), trials


def forms_of(row, precision):
    if row.mode == "train":
        return ["autocast"] if precision == "bf16" else ["eager"]
    return ["autocast", "weights in bf16"] if precision == "bf16" else ["eager", "jit"]


# --- rounds ---------------------------------------------------------------------------------------

def summarize(results):
    """Medians and spread over the rounds of one side, and what it said about itself."""
    last = results[-1]
    out = {"img_per_sec": summary([result["img_per_sec"] for result in results]),
           "step_ms": [result["step_ms"] for result in results],
           "steps": sum(result["steps"] for result in results),
           "peak_rss_bytes": max(result["peak_rss_bytes"] for result in results)}
    if "gflops_per_sec" in last:
        out["gflops_per_sec"] = summary([result["gflops_per_sec"] for result in results])
    for key in ("blas", "kernel", "isa", "capability", "form", "adamw", "params", "macs", "slice",
                "lanes", "onnxruntime"):
        if key in last:
            out[key] = last[key]
    return out


def ceiling_summary(results, precision):
    return {key: summary([result[precision][key] for result in results])
            for key in ("gflops_per_sec", "gflops_per_sec_one_thread")}


def prepare(row, options, kernel):
    """What to run for each side of a row, the trials, and why a side has nothing to run."""
    sides, trials, failures = {}, {}, {}
    for precision in options.precisions:
        what = torch_work(row)
        choice, trials[precision] = choose(what, options, kernel, forms_of(row, precision))
        if choice:
            say("  PyTorch %s: %s" % (precision, bench_tables.choice_text(choice)))
            sides["pytorch " + precision] = lambda number, choice=choice: run_torch(
                what, options, choice, options.seconds, number)
        else:
            failures["pytorch " + precision] = trials[precision][-1]["failed"]
        sides["attnbench " + precision] = lambda number, precision=precision: run_attnbench(
            row, options, precision, options.threads, number)
    sides["ceiling"] = lambda number: run_ceiling(row, options, number)
    if row.mode == "infer":
        sides["onnxruntime fp32"] = None
        try:
            reason = onnx_missing()
            if reason:
                raise Failed(reason)
            model = export_onnx(row, options)
            sides["onnxruntime fp32"] = lambda number: run_onnx(row, options, model, number)
        except Failed as reason:
            failures["onnxruntime fp32"] = str(reason)
    return sides, trials, failures


def least_memory(side, trials):
    """Of PyTorch, whichever form takes it: the fastest one may well be a compiled model with a copy
    of all weights."""
    found = [trial["peak_rss_bytes"] for trial in trials if "peak_rss_bytes" in trial]
    side["peak_rss_bytes"] = min([side["peak_rss_bytes"], *found])


def measure(row, options, kernel):
    """All rounds of one row: attnbench, ceiling, PyTorch, and again."""
    say(row.title)
    sides, row_trials, failures = prepare(row, options, kernel)
    results = {name: [] for name in sorted(sides)}
    for number in range(options.rounds):
        for name in results:
            if name in failures:
                continue
            try:
                results[name].append(sides[name](number))
            except Failed as reason:
                failures[name] = str(reason)
                continue
            last = results[name][-1]
            say("  %d %-16s %s" % (number + 1, name, "%.1f img/s" % last["img_per_sec"]
                                   if "img_per_sec" in last
                                   else "%.0f GFLOP/s" % last["fp32"]["gflops_per_sec"]))
    if len({last[0]["params"] for last in results.values() if last and "params" in last[0]}) > 1:
        raise Failed("%s: the sides' models differ in their number of parameters" % row.title)
    out = {**row._asdict(), "threads": options.threads, "date": today(), "commit": commit(),
           "trials": row_trials, "failed": failures,
           "sides": {name: summarize(list_) for name, list_ in results.items()
                     if list_ and name not in failures and name != "ceiling"}}
    for precision, trials in row_trials.items():
        if "pytorch " + precision in out["sides"]:
            least_memory(out["sides"]["pytorch " + precision], trials)
    if "ceiling" not in failures:
        out["ceiling"] = {precision: ceiling_summary(results["ceiling"], precision)
                          for precision in options.precisions}
    return out


def measure_scaling(options):
    """ViT-Ti on one thread and on all, beside plain products on as many."""
    row = ROWS[0]
    say("%s, 1 and %d threads" % (row.title, options.threads))
    counts = sorted({1, options.threads})
    ours = {(precision, threads): [] for precision in options.precisions for threads in counts}
    products = []
    for number in range(options.rounds):
        # Measurements of their own beside those of the row: all in one stretch of time.
        own = number + options.rounds
        products.append(run_ceiling(row, options, own))
        for (precision, threads), results in ours.items():
            results.append(run_attnbench(row, options, precision, threads, own))
            say("  %d %s, %d thread%s %.1f img/s" % (number + 1, precision, threads,
                                                     "s"[:threads - 1],
                                                     results[-1]["img_per_sec"]))

    def rate(precision, threads):
        return summary([result["img_per_sec"] for result in ours[precision, threads]])

    return {"title": row.title, "threads": options.threads, "date": today(),
            **{precision: {"img_per_sec_one_thread": rate(precision, 1),
                           "img_per_sec": rate(precision, options.threads),
                           **ceiling_summary(products, precision)}
               for precision in options.precisions}}


# --- all of it ------------------------------------------------------------------------------------

def parse():
    names = [row.name for row in ROWS] + [SCALING, ATTENTION, BLOCKS]
    parser = argparse.ArgumentParser(prog="bench-peers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="some of %s (default: all); what was recorded of the others "
                        "stays" % ",".join(names))
    parser.add_argument("--rounds", type=int, default=2, help="processes of each side (default: 2)")
    parser.add_argument("--seconds", type=float, default=4,
                        help="of measuring in each process (default: 4)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="of each side (default: all cores)")
    parser.add_argument("--precisions", default=",".join(PRECISIONS), help="default: fp32,bf16")
    parser.add_argument("--variants", help="attention mechanisms of the row blocks (default: all "
                        "that `attnbench list attention` names)")
    parser.add_argument("--minutes", type=float,
                        help="stop before a measurement that would begin later (exit code 3)")
    parser.add_argument("--hours", type=float, default=12,
                        help="how old a kept measurement may be (default: 12)")
    parser.add_argument("--fresh", action="store_true", help="use none that is kept")
    parser.add_argument("--quick", action="store_true",
                        help="two small rows, one short round; prints the tables, writes nothing")
    parser.add_argument("--print", action="store_true", dest="print_only",
                        help="print the tables, write no files in docs/")
    parser.add_argument("--tables", action="store_true",
                        help="measure nothing, make the tables anew from docs/performance.json")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.rounds, options.seconds = "train_vit_28,infer_vit_tiny_1", 1, 1
        options.print_only = True
    options.asked = options.rows is not None
    options.rows = options.rows.split(",") if options.asked else names
    options.precisions = [name for name in PRECISIONS if name in options.precisions.split(",")]
    if set(options.rows) - set(names) or not options.precisions:
        parser.error("unknown row or precision")
    if options.rounds < 1 or options.threads < 1 or not options.seconds > 0:
        parser.error("--rounds, --threads and --seconds are above 0")
    return options


def rows_to_measure(options):
    """Without those of models that this attnbench does not have, unless they were asked for."""
    rows = []
    for row in ROWS:
        if row.name not in options.rows:
            continue
        try:
            effective_config(row.config)
            rows.append(row)
        except Failed as reason:
            if options.asked:
                raise
            say("%s: left out: %s" % (row.title, reason))
    return rows


def record(options):
    """Measures what was asked for, into a record as docs/performance.json holds it."""
    load = os.getloadavg()[0]
    if load > 0.5:
        say("bench-peers: the load is %.1f: other processes run, figures will be too low" % load)
    options.store = Store(options.hours, options.minutes, options.fresh)
    kernel, trials = choose_kernel(options)
    rows = [measure(row, options, kernel) for row in rows_to_measure(options)]
    out = {"machine": machine(), "versions": versions(), "date": today(), "load_at_start": load,
           "rounds": options.rounds, "seconds": options.seconds, "sgemm_trials": trials,
           "rows": rows}
    if SCALING in options.rows:
        out["scaling"] = measure_scaling(options)
    if ATTENTION in options.rows:
        out["attention"] = bench_attention.measure(options, lambda what, forms: choose(
            what, options, kernel, forms), run_torch)
    if BLOCKS in options.rows:
        out["blocks"] = bench_blocks.measure(options)
    say("%d measurements, %d used again" % (options.store.measured, options.store.reused))
    return out


def main():
    options = parse()
    path = os.path.join(ROOT, "docs/performance.json")
    try:
        new = bench_tables.load(path) if options.tables else record(options)
        if not new:
            raise Failed("docs/performance.json is missing (run make bench-peers)")
    except Failed as reason:
        sys.exit("bench-peers: %s" % reason)
    except KeyboardInterrupt:
        sys.exit(130)
    except OutOfTime:
        say("bench-peers: %d measurements are kept; the same command again goes on" %
            len(options.store.results))
        sys.exit(3)
    if options.print_only:
        print("\n".join(bench_tables.lines(new)))
        return
    if not options.tables:
        new = bench_tables.merge(bench_tables.load(path), new, [row.name for row in ROWS])
        bench_tables.save(path, new)
    bench_tables.write(os.path.join(ROOT, "docs/performance.md"), new)
    say("docs/performance.md and docs/performance.json are written")


if __name__ == "__main__":
    main()
