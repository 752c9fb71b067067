"""The record of bench_peers.py, docs/performance.json, and its tables in docs/performance.md."""

import json
import os

import bench_goals

BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"


def load(path):
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def save(path, record):
    text = json.dumps(record, indent=1) + "\n"
    with open(path + ".tmp", "w") as file:
        file.write(text)
    os.replace(path + ".tmp", path)


# Of a record: when and how its rows were measured.
ABOUT_ROWS = ("date", "load_at_start", "rounds", "seconds", "sgemm_trials")


def merge(old, new, order):
    """The new record with those rows of the old one that were not measured anew, where both come
    from the same machine with the same versions."""
    if not old or any(old[key] != new[key] for key in ("machine", "versions")):
        return new
    rows = {row["name"]: row for row in old["rows"] + new["rows"]}
    kept = {name: old[name] for name in ("scaling", "attention", "blocks") if name in old}
    if not new["rows"]:  # then what is said of the rows stays, too
        new = {**new, **{name: old[name] for name in ABOUT_ROWS}}
    return {**kept, **new, "rows": [rows[name] for name in order if name in rows]}


# --- text -----------------------------------------------------------------------------------------

def number(value):
    return "%.0f" % value if value >= 100 else "%.3g" % value


def spread(summary):
    """Median, and from lowest to highest round where there are several."""
    if not summary:
        return "–"
    text = number(summary["median"])
    if len(summary["rounds"]) > 1:
        text += " (%s–%s)" % (number(summary["low"]), number(summary["high"]))
    return text


def rate(row, side):
    return row["sides"][side]["img_per_sec"] if side in row["sides"] else None


def quotient(ours, theirs):
    return ours["median"] / theirs["median"] if ours and theirs else None


def times(value):
    return "–" if value is None else "%.2f" % value


def percent(value):
    return "–" if value is None else bench_goals.percent(value)


def megabytes(row, side):
    return row["sides"][side]["peak_rss_bytes"] / 1e6 if side in row["sides"] else None


def ceiling(row, precision):
    """The rate of the model's own products alone."""
    found = row.get("ceiling", {}).get(precision)
    return found and found["gflops_per_sec"]


def share(row, precision):
    """What a whole step of attnbench reaches of that rate."""
    side = row["sides"].get("attnbench " + precision)
    return quotient(side and side["gflops_per_sec"], ceiling(row, precision))


def rows_of(record, mode, latency=False):
    return [row for row in record["rows"]
            if row["mode"] == mode and (row["mode"] == "infer" and row["batch"] == 1) == latency]


def precisions(record, row):
    return [name for name in ("fp32", "bf16") if "attnbench " + name in row["sides"]]


def kernel_text(kernel):
    return " ".join("%s=%s" % pair for pair in sorted(kernel.items()))


def choice_text(choice):
    return ", ".join(filter(None, (
        kernel_text(choice["kernel"]), choice["build"] and "OpenBLAS's %s build" % choice["build"],
        choice["capability"] and "ATEN_CPU_CAPABILITY=%s" % choice["capability"], choice["form"])))


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


# --- sections -------------------------------------------------------------------------------------

def about(record):
    m, v = record["machine"], record["versions"]
    return [
        "Measured on %s: %s, %d cores, %s; Linux %s, %.0f GB of memory. %s, compiled with %s; "
        "PyTorch %s, Python %s. %d rounds of %g seconds each; load %.1f when it started." % (
            record["date"], m["cpu"], m["cores"], " ".join(m["features"]) or "no vector extensions",
            m["kernel"], m["memory_bytes"] / 1e9, v["attnbench"], v["compiler"], v["torch"],
            v["python"], record["rounds"], record["seconds"], record["load_at_start"]), ""]


GOAL = ("goal", "holds")


def train(record, precision):
    rows, amx = [], "amx_bf16" in record["machine"]["features"]
    for row in rows_of(record, "train"):
        ours, theirs = rate(row, "attnbench " + precision), rate(row, "pytorch " + precision)
        if not ours:
            continue
        own = quotient(ours, rate(row, "attnbench fp32"))
        goal = bench_goals.train(precision, quotient(ours, theirs), share(row, precision), own, amx)
        rows.append([row["title"], spread(ours),
                     "fails" if "pytorch " + precision in row["failed"] else spread(theirs),
                     times(quotient(ours, theirs)),
                     *([times(own)] if precision == "bf16" else []),
                     spread(ceiling(row, precision)), percent(share(row, precision)), *goal])
    if not rows:
        return []
    return ["### Training, images a second, %s" % precision, ""] + table(
        ("work", "attnbench", "PyTorch " + precision, "ratio",
         *(["against its fp32"] if precision == "bf16" else []), "products, GFLOP/s",
         "share of it", *GOAL), rows)


def infer(record):
    rows = []
    for row in rows_of(record, "infer"):
        onnx = rate(row, "onnxruntime fp32")
        for precision in precisions(record, row):
            ours, theirs = rate(row, "attnbench " + precision), rate(row, "pytorch " + precision)
            ratio = quotient(ours, onnx)
            goal = bench_goals.NOTHING
            if row["config"] == "vit_tiny_224":
                goal = bench_goals.infer(precision, ratio, share(row, precision))
            rows.append((row["title"], precision, spread(ours), spread(theirs), spread(onnx),
                         times(quotient(ours, theirs)), times(ratio),
                         spread(ceiling(row, precision)), percent(share(row, precision)), *goal))
    if not rows:
        return []
    return ["### Inference, images a second", "",
            "PyTorch at the same precision; onnxruntime in fp32, which both of ours are held "
            "against.", ""] + table(
        ("work", "precision", "attnbench", "PyTorch", "onnxruntime", "to PyTorch",
         "to onnxruntime", "products, GFLOP/s", "share of it", *GOAL), rows)


def milliseconds(rate):
    """Of a step of one image, from images a second."""
    if not rate:
        return None
    return {"median": 1e3 / rate["median"], "low": 1e3 / rate["high"], "high": 1e3 / rate["low"],
            "rounds": rate["rounds"]}


def latency(record):
    rows = []
    for row in rows_of(record, "infer", latency=True):
        onnx = rate(row, "onnxruntime fp32")
        for precision in precisions(record, row):
            ours, theirs = rate(row, "attnbench " + precision), rate(row, "pytorch " + precision)
            ratio = quotient(ours, onnx)
            rows.append((row["title"], precision, spread(milliseconds(ours)),
                         spread(milliseconds(theirs)), spread(milliseconds(onnx)),
                         times(quotient(ours, theirs)), times(ratio),
                         *bench_goals.latency(precision, ratio)))
    if not rows:
        return []
    return ["### Latency, milliseconds an image", "",
            "Ratios are of speeds: above 1 attnbench is faster. onnxruntime in fp32.", ""] + table(
        ("work", "precision", "attnbench", "PyTorch", "onnxruntime", "to PyTorch",
         "to onnxruntime", *GOAL), rows)


def memory(record):
    rows = []
    for row in record["rows"]:
        theirs, parts = megabytes(row, "pytorch fp32"), {}
        cells = [row["title"]]
        for side in ("attnbench fp32", "attnbench bf16", "pytorch fp32", "pytorch bf16",
                     "onnxruntime fp32"):
            ours = megabytes(row, side)
            text = "–" if ours is None else "%.0f" % ours
            if ours and theirs and side.startswith("attnbench"):
                parts[side.split()[1]] = ours / theirs
                text += " (%.2f)" % (ours / theirs)
            cells.append(text)
        rows.append([*cells, *bench_goals.memory(parts)])
    if not rows:
        return []
    return ["### Peak memory of the process, MB", "",
            "In brackets: against PyTorch's in fp32, of which the goals are the largest part.",
            ""] + table(
        ("work", "attnbench fp32", "attnbench bf16", "PyTorch fp32", "PyTorch bf16",
         "onnxruntime fp32", *GOAL), rows)


def scaling(record):
    if "scaling" not in record:
        return []
    s, rows = record["scaling"], []
    for precision in ("fp32", "bf16"):
        if precision not in s:
            continue
        of, gains = s[precision], []
        for title, key in ((s["title"] + ", img/s", "img_per_sec"),
                           ("its products alone, GFLOP/s", "gflops_per_sec")):
            one, all_ = of[key + "_one_thread"], of[key]
            gains.append(quotient(all_, one))
            rows.append([title, precision, spread(one), spread(all_), times(gains[-1])])
        part = gains[0] / gains[1]
        rows[-2] += [percent(part), *bench_goals.threads(precision, part)]
        rows[-1] += ["", "", ""]
    return ["### Threads", ""] + table(
        ("work", "precision", "1 thread", "%d threads" % s["threads"], "gain",
         "of the products' gain", *GOAL), rows)


# --- attention alone ------------------------------------------------------------------------------

def per_image(side):
    """Milliseconds."""
    if not side:
        return None
    seconds = side["seconds_per_image"]
    return {**{key: 1e3 * seconds[key] for key in ("median", "low", "high")},
            "rounds": seconds["rounds"]}


def attention(record):
    if "attention" not in record:
        return []
    a, rows = record["attention"], []
    for row in a["rows"]:
        ours, theirs = row["attnbench"], row.get("pytorch")
        products = a["products"][row["precision"]]
        rows.append((
            str(row["tokens"]), str(row["batch"]),
            "forward" if row["mode"] == "infer" else "forward and backward", row["precision"],
            spread(per_image(ours)), spread(per_image(theirs)),
            times(quotient(theirs and theirs["seconds_per_image"], ours["seconds_per_image"])),
            spread(ours["gflops_per_sec"]), spread(theirs and theirs["gflops_per_sec"]),
            percent(ours["gflops_per_sec"]["median"] / products),
            "%.0f" % (ours["block_bytes"] / 1e6),
            "%.0f" % (theirs["growth_bytes"] / 1e6) if theirs else "–",
            "%.0f" % (row["tensor_bytes"] / 1e6)))
    return ["### Attention alone, D %d, H %d, one layer" % (a["dim"], a["heads"]), "",
            "Time of an image. GFLOP/s count 4 N² D forward and twice that backward, not what is "
            "computed again. The products that it is held against are those of the whole model at "
            "N = %d: %s. Memory is that of a step over the batch: all step blocks of the "
            "model of one block, projections and MLP included; the growth of PyTorch's process "
            "over softmax(q kᵀ) v alone; one tensor B x H x N x N in fp32." % (
                a["rows"][0]["tokens"],
                ", ".join("%.0f GFLOP/s in %s" % (rate, name)
                          for name, rate in a["products"].items())), ""] + table(
        ("N", "batch", "pass", "precision", "attnbench, ms", "PyTorch, ms", "ratio",
         "attnbench, GFLOP/s", "PyTorch, GFLOP/s", "of the products", "attnbench, MB",
         "PyTorch, MB", "N x N, MB"), rows)


# --- a block of every attention -------------------------------------------------------------------

PASSES = (("train fp32", "training, fp32"), ("infer fp32", "forward, fp32"),
          ("train bf16", "training, bf16"), ("infer bf16", "forward, bf16"))


def row_name(row):
    return " ".join([row["name"]] + ["%s=%s" % pair for pair in row["options"].items()])


def block_rows(rows, key, tokens):
    """A line for each variant: times, those of standard, memory; goals where there are any."""
    base, out = {}, []
    for row in rows:
        points = {point["tokens"]: point for point in row["points"].get(key, [])}
        base = base or points
        against = {n: quotient(points[n]["seconds_per_image"], base[n]["seconds_per_image"])
                   for n in tokens if n in points and n in base}
        line = [row_name(row), *[spread(per_image(points.get(n))) for n in tokens],
                *[times(against.get(n)) for n in bench_goals.BLOCK_TOKENS],
                "%.0f" % (points[tokens[-1]]["block_bytes"] / 1e6) if tokens[-1] in points else "–"]
        if key == "train fp32":
            line += [row["complexity"], times(row["exponent"]),
                     *bench_goals.exponent(row["published_exponent"], row["exponent"]),
                     *bench_goals.block(row["published_exponent"], against)]
        out.append(line)
    return out


def measured(part):
    return "Measured on %s, %s of %g seconds; load %.1f when it started." % (
        part["date"], "1 round" if part["rounds"] == 1 else "%d rounds" % part["rounds"],
        part["seconds"], part["load_at_start"])


def block_memory(rows, tokens):
    """Tables of the step blocks in MB, by tokens and precision."""
    lines = []
    for mode, title in (("train", "Memory in training, MB"), ("infer", "Memory forward, MB")):
        keys = ["%s %s" % (mode, precision) for precision in ("fp32", "bf16")]
        keys = [key for key in keys if any(row["points"].get(key) for row in rows)]
        found = []
        for row in rows:
            megabytes_of = {(key, point["tokens"]): point["block_bytes"] / 1e6
                            for key in keys for point in row["points"].get(key, [])}
            found.append([row_name(row)] + [
                number(megabytes_of[key, n]) if (key, n) in megabytes_of else "–"
                for key in keys for n in tokens])
        head = ["attention"] + ["%s, N = %d" % (key.split()[1], n) for key in keys for n in tokens]
        lines += ["%s:" % title, ""] + table(head, found)
    return lines


def blocks(record):
    if "blocks" not in record:
        return []
    rows = record["blocks"]["rows"]
    tokens = sorted({point["tokens"] for row in rows for points in row["points"].values()
                     for point in points})
    lines = ["### A block of every attention, D 192, H 3", "",
             "Milliseconds of an image for one block, projections and an MLP of 4 D included, no "
             "class token, B x N about constant; times of standard; all step blocks of the model "
             "at the largest N, in MB. In training also the power of N that fits the mixing alone "
             "from 196 tokens on (in the linear order where there is one), beside that of the "
             "paper. %s" % measured(record["blocks"]), ""]
    for key, title in PASSES:
        if not any(row["points"].get(key) for row in rows):
            continue
        head = ["attention", *["N = %d" % n for n in tokens],
                *["of standard, %d" % n for n in bench_goals.BLOCK_TOKENS],
                "MB at %d" % tokens[-1]]
        if key == "train fp32":
            head += ["published", "exponent", *GOAL, *GOAL]
        lines += ["%s:" % title.capitalize(), ""] + table(head, block_rows(rows, key, tokens))
    lines += block_memory(rows, tokens)
    for row in rows:
        if "failed" in row:
            lines += ["%s: %s" % (row["name"], row["failed"]), ""]
    return lines


# --- all of it ------------------------------------------------------------------------------------

def settings(record):
    rows = []
    for row in record["rows"]:
        for side in sorted(row["sides"]):
            s = row["sides"][side]
            detail = [s.get("blas"), kernel_text(s.get("kernel", {})), s.get("isa"),
                      s.get("form")]
            if "capability" in s:
                detail.append("ATen " + s["capability"])
            if "onnxruntime" in s:
                detail.append("onnxruntime-node " + s["onnxruntime"])
            if "adamw" in s:
                detail.append("AdamW " + s["adamw"])
            rows.append((row["title"], side, ", ".join(filter(None, detail))))
    for tried in record.get("attention", {}).get("trials", []):
        if tried["choice"]:
            rows.append(("attention alone, %s" % tried["mode"], "pytorch " + tried["precision"],
                         choice_text(tried["choice"])))
    lines = ["### What each side used", ""] + table(("work", "side", "with"), rows)
    for row in record["rows"]:
        for side, reason in sorted(row["failed"].items()):
            lines += ["%s, %s: %s" % (row["title"], side, reason), ""]
    return lines


def lines(record):
    out = about(record) + train(record, "fp32") + train(record, "bf16")
    for section in (infer, latency, memory, scaling, attention, blocks, settings):
        out += section(record)
    return out


def write(path, record):
    """Puts the tables between the markers of the file."""
    with open(path) as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    with open(path, "w") as file:
        file.write(before + BEGIN + "\n\n" + "\n".join(lines(record)) + "\n" + END + after)
