"""attnbench, PyTorch and onnxruntime side by side: processes in alternation, on the same threads.

Each measurement is a process of its own: `attnbench bench`, bench_torch.py, in inference
bench_onnx.js, and `attnbench bench --ceiling` for what plain products reach in the same run. All
sides start from an environment without settings for BLAS and OpenMP. Short trials give PyTorch the
fastest that there is for it on each row: OpenBLAS's kernel, its pthread or OpenMP build, vector
code for AVX-512, compiled inference. The tables show medians and spread over the rounds.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

import bench_tables

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "build/release/attnbench")
PEER = os.path.join(ROOT, "scripts/bench_torch.py")
ONNX_PEER = os.path.join(ROOT, "scripts/bench_onnx.js")
NODE_PATH = os.environ.get("NODE_PATH") or os.path.join(ROOT, "build/node/node_modules")
LIBRARIES = "/usr/lib/%s-linux-gnu" % platform.machine()
AVX512_KERNELS = ("SkylakeX", "Cooperlake", "SapphireRapids")

# name, what the tables call it, config, mode, batch
ROWS = (
    ("train_vit_tiny", "train ViT-Ti/16 224, batch 32", "vit_tiny_224", "train", 32),
    ("train_vit_small", "train ViT-S/16 224, batch 16", "vit_small_224", "train", 16),
    ("train_vit_28", "train ViT 28 px, D 128, batch 128", "vit_28", "train", 128),
    ("train_vit_32", "train ViT 32 px, D 192, batch 128", "vit_32", "train", 128),
    ("infer_vit_tiny_32", "infer ViT-Ti/16 224, batch 32", "vit_tiny_224", "infer", 32),
    ("infer_vit_tiny_1", "infer ViT-Ti/16 224, batch 1", "vit_tiny_224", "infer", 1),
)
SCALING = "scaling"


class Failed(Exception):
    pass


def say(text):
    print(text, file=sys.stderr, flush=True)


# --- processes ------------------------------------------------------------------------------------

def clean_environment():
    prefixes = ("OPENBLAS_", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "ATEN_",
                "ATTNBENCH_", "LD_LIBRARY_PATH", "LD_PRELOAD")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def run(command, extra=()):
    """The JSON object that the command prints. Failed with the end of its messages."""
    environment = {**clean_environment(), **dict(extra)}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        raise Failed("took more than 900 seconds") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["exit code %d" % done.returncode]
        raise Failed(lines[-1])
    return json.loads(done.stdout)


def config_path(config):
    return os.path.join(ROOT, "configs/bench/%s.json" % config)


def attnbench(row, threads, seconds, *more):
    _, _, config, mode, batch = row
    return run([PROGRAM, "bench", config_path(config), "--mode", mode, "--batch", str(batch),
                "--threads", str(threads), "--seconds", str(seconds), "--json", *more])


def run_attnbench(row, options, precision, threads):
    return attnbench(row, threads, options.seconds, "--set", "train.precision=%s" % precision)


def run_ceiling(row, options):
    """Of both precisions, each in the time of one side."""
    return attnbench(row, options.threads, 2 * options.seconds, "--ceiling")


def effective_config(config):
    """The config with all its defaults, in a file that is there as long as it is open."""
    file = tempfile.NamedTemporaryFile("w", suffix=".json")
    json.dump(run([PROGRAM, "config", config_path(config)]), file)
    file.flush()
    return file


def run_torch(row, options, choice, seconds):
    _, _, config, mode, batch = row
    with effective_config(config) as file:
        result = run([sys.executable, PEER, "--config", file.name, "--mode", mode,
                      "--batch", str(batch), "--threads", str(options.threads),
                      "--seconds", str(seconds), "--form", choice["form"]],
                     torch_environment(choice, options.threads))
    return {**result, "kernel": choice["kernel"]}


def run_onnx(row, options, model):
    size = model["size"]
    result = run(["node", ONNX_PEER, model["file"].name, str(row[4]), str(size["channels"]),
                  str(size["image_size"]), str(options.threads), str(options.seconds)],
                 {"NODE_PATH": NODE_PATH})
    return {**result, "params": model["params"]}


def export_onnx(row, options):
    """PyTorch's model in a temporary ONNX file, with its sizes."""
    _, _, config, _, batch = row
    file = tempfile.NamedTemporaryFile(suffix=".onnx")
    with effective_config(config) as text:
        with open(text.name) as content:
            size = json.load(content)["model"]
        done = run([sys.executable, PEER, "--config", text.name, "--batch", str(batch),
                    "--threads", str(options.threads), "--onnx", file.name])
    return {"file": file, "size": size, "params": done["params"]}


def onnx_missing():
    """Why onnxruntime cannot run here, or None."""
    try:
        run(["node", "-e", "require('onnxruntime-node'); console.log('{}')"],
            {"NODE_PATH": NODE_PATH})
    except FileNotFoundError:
        return "node is not installed"
    except Failed:
        return "onnxruntime-node cannot be loaded from %s" % os.path.relpath(NODE_PATH, ROOT)
    return None


def torch_environment(choice, threads):
    environment = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    environment.update(choice["kernel"])
    if choice["build"]:
        environment["LD_LIBRARY_PATH"] = os.path.join(LIBRARIES, "openblas-" + choice["build"])
    if choice["capability"]:
        environment["ATEN_CPU_CAPABILITY"] = choice["capability"]
    return environment


# --- the best that PyTorch can do -----------------------------------------------------------------

def cpu_flags():
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("flags"):
                    return set(line.split(":")[1].split())
    except OSError:
        pass
    return set()


def choose_kernel(options):
    """Settings under which OpenBLAS's sgemm is fastest inside PyTorch: its own choice of kernel
    unless another one, or a size for an L2 cache that the CPU hides, gives 5 % more. Also all
    trials."""
    base = {"kernel": {}, "build": None, "capability": None}
    command = [sys.executable, PEER, "--threads", str(options.threads), "--sgemm"]
    found, trials = None, []
    candidates = [{}, {"OPENBLAS_L2_SIZE": "512"}]
    own = run(command, torch_environment(base, options.threads))["blas"].split()
    flags = cpu_flags()
    if "avx512f" in flags and not set(own) & set(AVX512_KERNELS):
        candidates += [{"OPENBLAS_CORETYPE": "SkylakeX"},
                       {"OPENBLAS_CORETYPE": "SkylakeX", "OPENBLAS_L2_SIZE": "512"}]
    elif "avx2" in flags and not set(own) & {*AVX512_KERNELS, "Haswell", "Zen"}:
        candidates += [{"OPENBLAS_CORETYPE": "Haswell"}]
    for kernel in candidates:
        environment = torch_environment({**base, "kernel": kernel}, options.threads)
        try:
            rate = max(run(command, environment)["gflops_per_sec"] for _ in range(2))
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


def choose(row, options, kernel, precision):
    """Tries one change at a time and keeps it where it is faster. Returns the choice (None where
    nothing runs) and all trials."""
    mode = row[3]
    choice = {"kernel": kernel, "build": None, "capability": None,
              "form": "autocast" if precision == "bf16" else "eager"}
    changes = []
    if not options.quick:
        changes = [("build", build) for build in ("pthread", "openmp")
                   if os.path.isdir(os.path.join(LIBRARIES, "openblas-" + build))]
        if "avx512f" in cpu_flags():
            changes.append(("capability", "avx512"))
        if mode == "infer":
            changes.append(("form", "weights in bf16" if precision == "bf16" else "jit"))
    found, trials, seconds = None, [], 0.5 if options.quick else 2
    for key, value in [(None, None)] + changes:
        candidate = {**choice, key: value} if key else choice
        try:
            rate = run_torch(row, options, candidate, seconds)["img_per_sec"]
        except Failed as reason:
            trials.append({**candidate, "failed": str(reason)})
            continue
        trials.append({**candidate, "img_per_sec": rate})
        if found is None or rate > found:
            choice, found = candidate, rate
    return (choice if found else None), trials


# --- rounds ---------------------------------------------------------------------------------------

def summary(results, key):
    values = [result[key] for result in results]
    return {"median": statistics.median(values), "low": min(values), "high": max(values),
            "rounds": values}


def summarize(results):
    """Medians and spread over the rounds of one side, and what it said about itself."""
    last = results[-1]
    out = {"img_per_sec": summary(results, "img_per_sec"),
           "step_ms": [result["step_ms"] for result in results],
           "steps": sum(result["steps"] for result in results),
           "peak_rss_bytes": max(result["peak_rss_bytes"] for result in results)}
    if "gflops_per_sec" in last:
        out["gflops_per_sec"] = summary(results, "gflops_per_sec")
    for key in ("blas", "kernel", "isa", "capability", "form", "adamw", "params", "macs", "slice",
                "lanes", "onnxruntime"):
        if key in last:
            out[key] = last[key]
    return out


def ceiling_summary(results, precision):
    return {key: summary([result[precision] for result in results], key)
            for key in ("gflops_per_sec", "gflops_per_sec_one_thread")}


def prepare(row, options, kernel):
    """What to run for each side of a row, the trials, and why a side has nothing to run."""
    sides, trials, failures = {}, {}, {}
    for precision in options.precisions:
        choice, trials[precision] = choose(row, options, kernel, precision)
        if choice:
            say("  PyTorch %s: %s" % (precision, bench_tables.choice_text(choice)))
            sides["pytorch " + precision] = lambda choice=choice: run_torch(row, options, choice,
                                                                            options.seconds)
        else:
            failures["pytorch " + precision] = trials[precision][-1]["failed"]
        sides["attnbench " + precision] = lambda precision=precision: run_attnbench(
            row, options, precision, options.threads)
    sides["ceiling"] = lambda: run_ceiling(row, options)
    if row[3] == "infer" and "fp32" in options.precisions:
        sides["onnxruntime fp32"] = None
        try:
            reason = onnx_missing()
            if reason:
                raise Failed(reason)
            model = export_onnx(row, options)
            sides["onnxruntime fp32"] = lambda: run_onnx(row, options, model)
        except Failed as reason:
            failures["onnxruntime fp32"] = str(reason)
    return sides, trials, failures


def measure(row, options, kernel):
    """All rounds of one row: attnbench, ceiling, PyTorch, and again."""
    say(row[1])
    sides, row_trials, failures = prepare(row, options, kernel)
    results = {name: [] for name in sorted(sides)}
    for number in range(options.rounds):
        for name in results:
            if name in failures:
                continue
            try:
                results[name].append(sides[name]())
            except Failed as reason:
                failures[name] = str(reason)
                continue
            last = results[name][-1]
            say("  %d %-16s %s" % (number + 1, name, "%.1f img/s" % last["img_per_sec"]
                                   if "img_per_sec" in last
                                   else "%.0f GFLOP/s" % last["fp32"]["gflops_per_sec"]))
    if len({last[0]["params"] for last in results.values() if last and "params" in last[0]}) > 1:
        raise Failed("%s: the sides' models differ in their number of parameters" % row[1])
    out = {"name": row[0], "title": row[1], "config": row[2], "mode": row[3], "batch": row[4],
           "threads": options.threads, "date": today(), "commit": commit(), "trials": row_trials,
           "failed": failures,
           "sides": {name: summarize(list_) for name, list_ in results.items()
                     if list_ and name not in failures and name != "ceiling"}}
    if "ceiling" not in failures:
        out["ceiling"] = {precision: ceiling_summary(results["ceiling"], precision)
                          for precision in options.precisions}
    return out


def measure_scaling(options):
    """ViT-Ti on one thread and on all, beside plain products on as many."""
    row = ROWS[0]
    say("%s, 1 and %d threads" % (row[1], options.threads))
    ours, products = {1: [], options.threads: []}, []
    for number in range(options.rounds):
        products.append(run_ceiling(row, options))
        for threads, results in ours.items():
            results.append(run_attnbench(row, options, "fp32", threads))
            say("  %d %d thread%s %.1f img/s" % (number + 1, threads, "s"[:threads - 1],
                                                 results[-1]["img_per_sec"]))
    return {"title": row[1], "threads": options.threads, "date": today(),
            "img_per_sec_one_thread": summary(ours[1], "img_per_sec"),
            "img_per_sec": summary(ours[options.threads], "img_per_sec"),
            **ceiling_summary(products, "fp32")}


# --- the machine ----------------------------------------------------------------------------------

def today():
    return datetime.date.today().isoformat()


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return (done.stdout.strip().splitlines() or [""])[0]
    except OSError:
        return ""


def commit():
    return first_line(["git", "-C", ROOT, "describe", "--always", "--dirty"])


def cpu_name():
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":")[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine():
    wanted = ("avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_tile",
              "amx_bf16")
    return {"cpu": cpu_name(), "features": [name for name in wanted if name in cpu_flags()],
            "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")}


def versions():
    import torch
    return {"attnbench": first_line([PROGRAM, "version"]), "torch": torch.__version__,
            "python": platform.python_version(), "compiler": first_line(["gcc", "--version"])}


# --- all of it ------------------------------------------------------------------------------------

def parse():
    names = [row[0] for row in ROWS] + [SCALING]
    parser = argparse.ArgumentParser(prog="bench-peers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(names),
                        help="some of %s; what was recorded of the others stays" % ",".join(names))
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side (default: 3)")
    parser.add_argument("--seconds", type=float, default=8,
                        help="of measuring in each process (default: 8)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="of each side (default: all cores)")
    parser.add_argument("--precisions", default="fp32,bf16", help="default: fp32,bf16")
    parser.add_argument("--quick", action="store_true",
                        help="two small rows, one short round; prints the tables, writes nothing")
    parser.add_argument("--tables", action="store_true",
                        help="measure nothing, make the tables anew from docs/performance.json")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.rounds, options.seconds = "train_vit_28,infer_vit_tiny_1", 1, 1
    options.rows = options.rows.split(",")
    options.precisions = options.precisions.split(",")
    if set(options.rows) - set(names) or set(options.precisions) - {"fp32", "bf16"}:
        parser.error("unknown row or precision")
    if options.rounds < 1 or options.threads < 1 or not options.seconds > 0:
        parser.error("--rounds, --threads and --seconds are above 0")
    return options


def record(options):
    """Measures what was asked for, into a record as docs/performance.json holds it."""
    load = os.getloadavg()[0]
    if load > 0.5:
        say("bench-peers: the load is %.1f: other processes run, figures will be too low" % load)
    kernel, trials = choose_kernel(options)
    rows = [measure(row, options, kernel) for row in ROWS if row[0] in options.rows]
    out = {"machine": machine(), "versions": versions(), "date": today(), "load_at_start": load,
           "rounds": options.rounds, "seconds": options.seconds, "sgemm_trials": trials,
           "rows": rows}
    if SCALING in options.rows:
        out["scaling"] = measure_scaling(options)
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
    if options.quick:
        print("\n".join(bench_tables.lines(new)))
        return
    if not options.tables:
        new = bench_tables.merge(bench_tables.load(path), new, [row[0] for row in ROWS])
        bench_tables.save(path, new)
    bench_tables.write(os.path.join(ROOT, "docs/performance.md"), new)
    say("docs/performance.md and docs/performance.json are written")


if __name__ == "__main__":
    main()
