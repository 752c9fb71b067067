"""What each row of the tables shall reach, and whether it does."""

GOALS = {
    # Share of the rate of plain products; times PyTorch at the same precision, unless the share is
    # above `enough`.
    ("train", "fp32"): {"share": 0.70, "ratio": 2.2, "enough": 0.75},
    # Times PyTorch at the same precision; times our own fp32, on a CPU with AMX.
    ("train", "bf16"): {"ratio": 4, "own": 4},
    # Times onnxruntime in fp32, or that share of the rate of plain products.
    ("infer", "fp32"): {"ratio": 1.5, "enough": 0.75},
    ("infer", "bf16"): {"ratio": 6},
    # Times onnxruntime in fp32.
    ("latency", "fp32"): {"ratio": 1.2},
    ("latency", "bf16"): {"ratio": 2},
    # Of the peak resident memory of PyTorch's process in fp32, at most.
    ("memory", "fp32"): {"part": 0.5},
    ("memory", "bf16"): {"part": 0.35},
    # Of the gain that plain products have from all threads.
    ("threads", "fp32"): {"part": 0.90},
    ("threads", "bf16"): {"part": 0.85},
    # Of the exponent with which the time of a mechanism grows with N: distance from its paper's.
    ("variant", "fp32"): {"distance": 0.15},
    # Times the block of standard in training: any mechanism; one whose time is linear in N.
    ("block", "fp32"): {196: 2.5, 3136: 1},
}
BLOCK_TOKENS = (196, 3136)
NOTHING = ("–", "–")  # no goal, nothing to say


def percent(value):
    return "%.0f %%" % (100 * value)


def verdict(holds, reached):
    """yes, or no with what was reached; "–" where a side is missing."""
    return "–" if holds is None else "yes" if holds else "no, " + reached


def at_least(value, goal):
    return None if value is None else value >= goal


def both(a, b):
    return False if a is False or b is False else None if a is None or b is None else True


def either(a, b):
    return True if a or b else None if a is None or b is None else False


def train(precision, ratio, share, own, amx):
    """The goal as text, and whether it holds. ratio: to PyTorch; own: to our fp32."""
    goal = GOALS["train", precision]
    times = "–" if ratio is None else "%.2fx" % ratio
    if precision == "bf16":
        if not amx:
            return "%gx" % goal["ratio"], verdict(at_least(ratio, goal["ratio"]), times)
        holds = both(at_least(ratio, goal["ratio"]), at_least(own, goal["own"]))
        reached = times if own is None else times + " and %.2fx" % own
        return "%gx, %gx its fp32" % (goal["ratio"], goal["own"]), verdict(holds, reached)
    text = "%s, and %gx or above %s" % (percent(goal["share"]), goal["ratio"],
                                        percent(goal["enough"]))
    enough = None if share is None else share > goal["enough"]
    holds = both(at_least(share, goal["share"]), either(at_least(ratio, goal["ratio"]), enough))
    return text, verdict(holds, times + ("" if share is None else " at " + percent(share)))


def infer(precision, ratio, share):
    """ratio: to onnxruntime in fp32."""
    goal = GOALS["infer", precision]
    holds, text = at_least(ratio, goal["ratio"]), "%gx" % goal["ratio"]
    reached = "–" if ratio is None else "%.2fx" % ratio
    if "enough" in goal:
        text += " or " + percent(goal["enough"])
        holds = either(holds, at_least(share, goal["enough"]))
        reached += "" if share is None else " at " + percent(share)
    return text, verdict(holds, reached)


def latency(precision, ratio):
    goal = GOALS["latency", precision]["ratio"]
    return "%gx" % goal, verdict(at_least(ratio, goal), "%.2fx" % (ratio or 0))


def memory(parts):
    """parts: of PyTorch's fp32, by precision."""
    goals = {name: GOALS["memory", name]["part"] for name in parts}
    if not parts:
        return NOTHING
    missed = ["%s %.2f" % (name, part) for name, part in parts.items() if part > goals[name]]
    return ", ".join("%g" % goal for goal in goals.values()), verdict(not missed, ", ".join(missed))


def threads(precision, part):
    goal = GOALS["threads", precision]["part"]
    return percent(goal), verdict(at_least(part, goal), percent(part))


def exponent(published, fitted):
    if published is None or fitted is None:
        return NOTHING
    distance = GOALS["variant", "fp32"]["distance"]
    return ("%g ± %g" % (published, distance),
            verdict(abs(fitted - published) <= distance, "%+.2f" % (fitted - published)))


def block(published, against):
    """`against`: {N: times standard}. Only mechanisms of linear time have a goal at the largest."""
    goals = {n: goal for n, goal in GOALS["block", "fp32"].items()
             if n in against and (n == BLOCK_TOKENS[0] or published == 1)}
    missed = ["%.2f at %d" % (against[n], n) for n, goal in goals.items() if against[n] > goal]
    return (", ".join("%g at %d" % (goal, n) for n, goal in goals.items()),
            verdict(None if not goals else not missed, ", ".join(missed)))
