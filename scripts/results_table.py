#!/usr/bin/env python3
"""results_table - the finished runs of scripts/results as tables in Markdown.

    scripts/results_table.py [FOLDER]      default runs/results

A run's folder is GROUP_ATTENTION_PRECISION_sSEED. One table for each group and precision, one row for
each attention: the last epoch's test accuracy (mean, standard deviation over seeds with n - 1, each
seed's), parameters, multiply-adds of one image, (accuracy / that of standard) / (parameters / those
of standard), and training speed and the memory of its step where `scripts/results --bench` measured
them.
"""
import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ATTENTIONS = re.findall(r"^ATTENTION\((\w+)\)",
                        (ROOT / "src/attention/variants.def").read_text(), re.MULTILINE)
RUN = re.compile(r"(.+?)_(%s)_(fp32|bf16)_s(\d+)$" %
                 "|".join(sorted(ATTENTIONS, key=len, reverse=True)))


def read_bench(run):
    """(images a second, MB of the step blocks), or None."""
    if not (run / "bench.json").exists():
        return None
    bench = json.loads((run / "bench.json").read_text())
    return bench["img_per_sec"], bench["block_bytes"] / 1e6


def read_runs(folder):
    """{(group, precision): {attention: {seed: (accuracy, parameters, macs, bench)}}} of finished
    runs."""
    groups = {}
    for run in sorted(folder.iterdir()):
        match = RUN.match(run.name)
        if not match or not (run / "summary.json").exists():
            continue
        events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        start = next(e for e in events if e["event"] == "start")
        last = [e for e in events if e["event"] == "epoch"][-1]
        group, attention, precision, seed = match.groups()
        rows = groups.setdefault((group, precision), {})
        rows.setdefault(attention, {})[int(seed)] = (last["val_top1"], start["params"],
                                                     start["macs"], read_bench(run))
    return groups


def table(rows):
    base = rows.get("standard")
    benched = any(run[3] for seeds in rows.values() for run in seeds.values())
    head = ["attention", "test accuracy, %", "seeds", "parameters", "MACs an image", "ratio"]
    head += ["training, img/s", "step, MB"] if benched else []
    print("| %s |" % " | ".join(head))
    print("| %s |" % " | ".join(["---"] * len(head)))
    for attention in ATTENTIONS:
        if attention not in rows:
            continue
        seeds = rows[attention]
        accuracies = [seeds[s][0] for s in sorted(seeds)]
        mean = statistics.mean(accuracies)
        text = f"{mean:.2f}"
        if len(accuracies) > 1:
            text += f" ± {statistics.stdev(accuracies):.2f}"
        _, parameters, macs, _ = next(iter(seeds.values()))
        ratio = "–"
        if base:
            base_mean = statistics.mean(run[0] for run in base.values())
            ratio = f"{mean / base_mean / (parameters / next(iter(base.values()))[1]):.3f}"
        each = ", ".join(f"{seeds[s][0]:.2f}" for s in sorted(seeds))
        line = f"| {attention} | {text} | {each} | {parameters:,} | {macs / 1e6:.2f} M | {ratio} |"
        if benched:
            speed = next((run[3] for run in seeds.values() if run[3]), None)
            line += f" {speed[0]:.0f} | {speed[1]:.1f} |" if speed else " – | – |"
        print(line)


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "runs/results")
    for (group, precision), rows in read_runs(folder).items():
        print(f"\n{group}, {precision}\n")
        table(rows)


main()
