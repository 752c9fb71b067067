"""Running one measurement as a process of its own, keeping what it said, and naming the machine."""

import datetime
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "build/release/attnbench")
TORCH_PEER = os.path.join(ROOT, "scripts/bench_torch.py")
WORK = os.path.join(ROOT, "build/bench")
KEPT = os.path.join(WORK, "kept.json")


class Failed(Exception):
    """A measurement that cannot be made, and why."""


class OutOfTime(Exception):
    """--minutes are over; what was measured is kept."""


def say(text):
    print(text, file=sys.stderr, flush=True)


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
    except OSError as reason:
        raise Failed(str(reason)) from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["exit code %d" % done.returncode]
        raise Failed(lines[-1])
    return json.loads(done.stdout)


def write_atomically(path, text):
    with open(path + ".tmp", "w") as file:
        file.write(text)
    os.replace(path + ".tmp", path)


class Store:
    """What was measured, in build/bench/kept.json, written after every measurement: a run that is
    cut goes on where it was. Good for `hours`, and for one commit, program and set of scripts."""

    def __init__(self, hours, minutes, fresh):
        os.makedirs(WORK, exist_ok=True)
        self.stop = time.time() + 60 * minutes if minutes else None
        self.results, self.measured, self.reused = {}, 0, 0
        self.stamp = first_line(["git", "-C", ROOT, "rev-parse", "HEAD"]) + " " + fingerprint()
        try:
            with open(KEPT) as file:
                kept = json.load(file)
        except (FileNotFoundError, json.JSONDecodeError):
            return
        if kept["stamp"] == self.stamp and not fresh:
            oldest = time.time() - 3600 * hours
            self.results = {key: value for key, value in kept["results"].items()
                            if value["time"] > oldest}

    def run(self, command, extra=(), number=0):
        """As run(), for measurement `number` of this command; a failure is not kept."""
        key = " ".join(["%s=%s" % pair for pair in sorted(dict(extra).items())]
                       + [os.path.relpath(word, ROOT) if word.startswith(ROOT) else word
                          for word in command] + ["#%d" % number])
        if key in self.results:
            self.reused += 1
            return self.results[key]["result"]
        if self.stop and time.time() > self.stop:
            raise OutOfTime
        result = run(command, extra)
        self.results[key] = {"time": time.time(), "result": result}
        self.measured += 1
        write_atomically(KEPT, json.dumps({"stamp": self.stamp, "results": self.results}))
        return result


def config_path(config):
    return os.path.join(ROOT, "configs/bench/%s.json" % config)


def effective_config(config):
    """The path of the config with all its defaults. Failed where attnbench refuses it."""
    path = os.path.join(WORK, config + ".json")
    write_atomically(path, json.dumps(run([PROGRAM, "config", config_path(config)])))
    return path


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


def fingerprint():
    """Of the program, the configs and the scripts, for trees that are not committed."""
    found = hashlib.sha256()
    paths = [PROGRAM]
    for folder in ("scripts", "configs/bench"):
        folder = os.path.join(ROOT, folder)
        paths += sorted(os.path.join(folder, name) for name in os.listdir(folder)
                        if name.endswith((".json", ".js")) or name == "bench_torch.py")
    for path in paths:
        with open(path, "rb") as file:
            found.update(file.read())
    return found.hexdigest()[:16]


def cpu_line(name):
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith(name):
                    return line.split(":")[1].strip()
    except OSError:
        pass
    return ""


def cpu_flags():
    return set(cpu_line("flags").split())


def machine():
    wanted = ("avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_tile",
              "amx_bf16")
    return {"cpu": cpu_line("model name") or platform.processor() or platform.machine(),
            "features": [name for name in wanted if name in cpu_flags()],
            "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")}


def versions():
    import torch
    return {"attnbench": first_line([PROGRAM, "version"]), "torch": torch.__version__,
            "python": platform.python_version(), "compiler": first_line(["gcc", "--version"])}


def summary(values):
    return {"median": statistics.median(values), "low": min(values), "high": max(values),
            "rounds": list(values)}
