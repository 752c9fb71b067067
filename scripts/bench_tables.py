"""The record of bench_peers.py, docs/performance.json, and its tables in docs/performance.md."""

import json
import os

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


def merge(old, new, order):
    """The new record with those rows of the old one that were not measured anew, where both come
    from the same machine with the same versions."""
    if not old or any(old[key] != new[key] for key in ("machine", "versions")):
        return new
    rows = {row["name"]: row for row in old["rows"] + new["rows"]}
    merged = {**new, "rows": [rows[name] for name in order if name in rows]}
    if "scaling" in old:
        merged.setdefault("scaling", old["scaling"])
    return merged


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


def ratio(ours, theirs):
    return "%.2f" % (ours["median"] / theirs["median"]) if ours and theirs else "–"


def megabytes(row, side):
    return row["sides"][side]["peak_rss_bytes"] / 1e6 if side in row["sides"] else None


def ceiling(row, precision):
    """The rate of the model's own products alone."""
    found = row.get("ceiling", {}).get(precision)
    return found and found["gflops_per_sec"]


def share(row, precision):
    """What a whole step of attnbench reaches of that rate."""
    side, products = row["sides"].get("attnbench " + precision), ceiling(row, precision)
    if not side or not products:
        return "–"
    return "%.0f %%" % (100 * side["gflops_per_sec"]["median"] / products["median"])


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


def speed(record):
    rows = []
    for row in record["rows"]:
        ours, theirs = rate(row, "attnbench fp32"), rate(row, "pytorch fp32")
        rows.append((row["title"], str(row["threads"]), spread(ours), spread(theirs),
                     ratio(ours, theirs), spread(ceiling(row, "fp32")), share(row, "fp32")))
    return ["### Images a second, fp32", ""] + table(
        ("work", "threads", "attnbench", "PyTorch", "ratio", "products, GFLOP/s", "share of it"),
        rows)


def speed_onnx(record):
    rows = []
    for row in record["rows"]:
        side = "onnxruntime fp32"
        if side not in row["sides"] and side not in row["failed"]:
            continue
        ours, theirs = rate(row, "attnbench fp32"), rate(row, side)
        rows.append((row["title"], spread(ours), row["failed"].get(side) or spread(theirs),
                     ratio(ours, theirs)))
    if not rows:
        return []
    return ["### Images a second beside onnxruntime, fp32", ""] + table(
        ("work", "attnbench", "onnxruntime", "ratio"), rows)


def speed_bf16(record):
    rows = []
    for row in record["rows"]:
        ours, theirs = rate(row, "attnbench bf16"), rate(row, "pytorch bf16")
        if ours or theirs:
            rows.append((row["title"], spread(ours), spread(theirs), ratio(ours, theirs),
                         ratio(ours, rate(row, "attnbench fp32")), spread(ceiling(row, "bf16")),
                         share(row, "bf16")))
    if not rows:
        return []
    return ["### Images a second, bf16", ""] + table(
        ("work", "attnbench", "PyTorch", "ratio", "attnbench against its fp32",
         "products, GFLOP/s", "share of it"), rows)


def memory(record):
    rows = []
    for row in record["rows"]:
        theirs = megabytes(row, "pytorch fp32")
        cells = [row["title"]]
        for side in ("attnbench fp32", "attnbench bf16", "pytorch fp32", "pytorch bf16",
                     "onnxruntime fp32"):
            ours = megabytes(row, side)
            text = "–" if ours is None else "%.0f" % ours
            if ours and theirs and side.startswith("attnbench"):
                text += " (%.2f)" % (ours / theirs)
            cells.append(text)
        rows.append(cells)
    return ["### Peak memory of the process, MB", "",
            "In brackets: against PyTorch's in fp32.", ""] + table(
        ("work", "attnbench fp32", "attnbench bf16", "PyTorch fp32", "PyTorch bf16",
         "onnxruntime fp32"), rows)


def scaling(record):
    if "scaling" not in record:
        return []
    s = record["scaling"]
    rows = []
    for title, key in ((s["title"] + ", img/s", "img_per_sec"),
                       ("its products alone, GFLOP/s", "gflops_per_sec")):
        one, all_ = s[key + "_one_thread"], s[key]
        rows.append((title, spread(one), spread(all_), ratio(all_, one)))
    gain = (s["img_per_sec"]["median"] / s["img_per_sec_one_thread"]["median"]) / (
        s["gflops_per_sec"]["median"] / s["gflops_per_sec_one_thread"]["median"])
    head = ("fp32", "1 thread", "%d threads" % s["threads"], "gain")
    return ["### Threads", ""] + table(head, rows) + [
        "The step gains %.0f %% of what plain products gain." % (100 * gain), ""]


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
    lines = ["### What each side used", ""] + table(("work", "side", "with"), rows)
    for row in record["rows"]:
        for side, reason in sorted(row["failed"].items()):
            lines += ["%s, %s: %s" % (row["title"], side, reason), ""]
    return lines


def lines(record):
    out = about(record)
    for section in (speed, speed_bf16, speed_onnx, memory, scaling, settings):
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
