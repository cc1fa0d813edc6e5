"""What the paper prints, and our figures beside it, with a sentence on each difference.

A. Wakatani, "Evaluation of P-Scheme/G algorithm for solving recurrence equations", International
Journal of Modeling and Optimization 3 (2013). Its figures 5 to 7 have no numbers in their text but
those that the text names.
"""

from __future__ import annotations

from typing import Any

from .. import overhead, speedups
from ..curves import Rows, curve, figure_of, finish, head, label, plot, ratios, rows_of, section
from ..loops import CASES
from ..speedups import AUTO, LOOP, NATURAL, REARRANGED

FEW_STEPS, STEPS = 2**18, 2**20
# Equation 6: alpha : beta : gamma.
CONSTANTS = {"L": (1.6, 1.0, 1.1), "M": (20.0, 1.0, 1.1), "H": (91.7, 1.0, 1.1)}
# P_opt for N = 10^6, and P of the best speedup.
OPTIMA = {"L": (1643, 2048), "M": (4594, 4096), "H": (9633, 8192)}
SPEEDUPS = {"L": 7.1, "M": 183.0, "H": 370.0}
# Table I: milliseconds without and with shared memory, by N.
REARRANGEMENT = {256_000: (0.33, 0.11), 1_000_000: (0.751, 0.376)}
# Figure 4, N = 256K, G = 32: T of the best speedup, it without and with rearrangement.
FIGURE_4 = {"M": (128, 63.68, 92.91), "H": (64, 189.87, 233.58)}
MULTIPROCESSORS = 16
PAPER = "Wakatani (2013)"
MACHINES = (
    "The paper: one of two GPUs of a GTX 590 with 16 multiprocessors, beside one thread of a Core "
    "i7 875K. Here: float32, operands and result in the device's memory, caches flushed, the "
    "arrays rearranged beforehand as in the paper; speedups are over one numba thread of this "
    "CPU, whose coefficients are computed in float32 where the GPU takes float64."
)


def tables(record: dict[str, Any]) -> str:
    """The text of a result file."""
    rows = record["cases"]
    lines = [*head(record), MACHINES, "", *phase_costs(rows), *rearrangement(rows)]
    lines += figure_4(rows)
    for number, case in zip((5, 6, 7), CASES, strict=True):
        lines += figure(rows, number, case)
    lines += overhead.table(rows, PAPER, "linear recurrence") + summary(rows)
    return finish(lines, record)


def phase_costs(rows: Rows) -> list[str]:
    """Equation 6."""
    if not rows_of(rows, part="phase"):
        return []
    lines = [
        f"## {PAPER}, equation 6: alpha : beta : gamma", "",
        "| case | paper | here | alpha, beta, gamma here, ns |", "|---|---|---|---|",
    ]  # fmt: skip
    for case, theirs in CONSTANTS.items():
        found = speedups.constants(rows, case, STEPS)
        ours = " : ".join(f"{each / found[1]:.3g}" for each in found) if found else "-"
        told = ", ".join(f"{each * 1e9:.3g}" for each in found) if found else "-"
        lines.append(f"| {case} | {' : '.join(f'{each:g}' for each in theirs)} | {ours} | {told} |")
    return [
        *lines, "",
        "- Measured with 32 blocks of 32 threads. The paper's determination corrects results that "
        "are stored already, so that its gamma is the same in all cases; here it computes the "
        "steps again from the state before them, coefficients included, which saves the traffic "
        "of stored products.", "",
    ]  # fmt: skip


def rearrangement(rows: Rows) -> list[str]:
    """Table I."""
    names = ("without shared memory", "with shared memory")
    theirs = {
        name: {n: each[place] for n, each in REARRANGEMENT.items()}
        for place, name in enumerate(names)
    }
    seconds = {name: curve(rows, "steps", part="rearrangement", candidate=name) for name in names}
    ours = {name: {n: each * 1e3 for n, each in seconds[name].items()} for name in names}
    lines = section(f"{PAPER}, table I: rearrangement, milliseconds", "N", ours, theirs)
    if gains := ratios(*(ours[name] for name in names)):
        least, most = min(gains.values()), max(gains.values())
        lines += [
            f"- Shared memory makes it {least:.3g} to {most:.3g} times as fast here, 2 to 3 times "
            f"in the paper: arrays of these sizes lie in today's cache, which gathers what a warp "
            f"scatters.", "",
        ]  # fmt: skip
    return lines


def figure_4(rows: Rows) -> list[str]:
    lines: list[str] = []
    for case, (threads, without, given) in FIGURE_4.items():
        ours = {
            order: speedups.speedups(rows, case, FEW_STEPS, 32, order)
            for order in (NATURAL, REARRANGED)
        }
        title = f"{PAPER}, figure 4: case {case}, N = {FEW_STEPS:,}, G = 32, speedup"
        lines += section(title, "T", ours)
        if all(ours.values()):
            best = {order: max(each.values()) for order, each in ours.items()}
            gain = best[REARRANGED] / best[NATURAL]
            lines += [
                f"- The best with rearrangement is {gain:.3g} times the best without, "
                f"{given / without:.3g} times in the paper ({given:g} and {without:g} with T = "
                f"{threads}).", "",
            ]  # fmt: skip
    return lines


def figure(rows: Rows, number: int, case: str) -> list[str]:
    """One of figures 5 to 7."""
    blocks = speedups.blocks_of(rows, case, STEPS)
    columns = {f"G = {each}": speedups.speedups(rows, case, STEPS, each) for each in blocks}
    title = f"{PAPER}, figure {number}: case {case}, N = {STEPS:,}, speedup over a CPU"
    return [*section(title, "T", columns), *_on_figure(rows, case)]


def _on_figure(rows: Rows, case: str) -> list[str]:
    best, found = speedups.best_of(rows, case, STEPS), speedups.constants(rows, case, STEPS)
    base = speedups.seconds_of(rows, case, STEPS, LOOP)
    if not (best and found and base):
        return []
    predicted = speedups.optimum(found, STEPS)
    chosen = speedups.nearest(rows, case, STEPS, predicted)
    theirs, measured = OPTIMA[case]
    auto = speedups.seconds_of(rows, case, STEPS, AUTO)
    lines = [
        f"- The best has G = {best.blocks}, T = {best.threads}, P = {best.processors:,} and a "
        f"speedup of {base / best.seconds:.3g}; in the paper P = {measured:,} and "
        f"{SPEEDUPS[case]:g}.",
        f"- The model predicts P_opt = {predicted:,.0f} from the constants above, {theirs:,} in "
        f"the paper. The measured configuration that its policy chooses, G = {chosen.blocks} and "
        f"T = {chosen.threads}, takes {chosen.seconds / best.seconds:.3g} times as long as the "
        f"best.",
    ]
    if auto:
        lines.append(
            f"- `auto` takes {auto / best.seconds:.3g} times the time of that best, and needs no "
            f"rearranged arrays."
        )
    return [*lines, ""]


def summary(rows: Rows) -> list[str]:
    """What the study comes to."""
    told, misses = [], []
    for case in CASES:
        best, found = speedups.best_of(rows, case, STEPS), speedups.constants(rows, case, STEPS)
        auto = speedups.seconds_of(rows, case, STEPS, AUTO)
        if not (best and found and auto):
            return []
        chosen = speedups.nearest(rows, case, STEPS, speedups.optimum(found, STEPS))
        misses.append(f"{chosen.seconds / best.seconds:.3g} (case {case})")
        told.append(f"{best.seconds / auto:.3g} (case {case})")
    gains = ", ".join(f"{_gain(rows, case):.3g} (case {case})" for case in FIGURE_4)
    return [
        "## What agrees, what changed, what `auto` does", "",
        "The policy holds: more processors pay until the propagation outweighs them, and longer "
        "coefficients want more of them. With constants that are measured on this GPU its choice "
        f"takes {', '.join(misses)} times as long as the best of all configurations. What "
        "changed: the GPU has eight times as many multiprocessors, so that the best P is larger "
        f"where coefficients are long, and arrays of these sizes lie in its cache: rearranging "
        f"them makes the best {gains} times as fast, 1.46 and 1.23 times in the paper. `auto` "
        "takes neither G nor T from a model: one pass over the arrays in natural order, in which "
        f"blocks hand their states on, is {', '.join(told)} times as fast as the best of "
        "P-scheme/G over arrays that are rearranged already; long coefficients are evaluated "
        "ahead of it by all threads.", "",
    ]  # fmt: skip


def _gain(rows: Rows, case: str) -> float:
    """How many times as fast rearrangement makes the best of figure 4."""
    given, without = (
        max(speedups.speedups(rows, case, FEW_STEPS, 32, order).values(), default=float("nan"))
        for order in (REARRANGED, NATURAL)
    )
    return given / without


def draw(record: dict[str, Any]) -> Any:
    """Two rows of three panels."""
    figure, (above, below) = figure_of(record, "Wakatani (2013) on ", 2, 3, (12, 8))
    rows = record["cases"]
    for panel, number, case in zip(above, (5, 6, 7), CASES, strict=True):
        found = speedups.constants(rows, case, STEPS)
        predicted = speedups.optimum(found, STEPS) if found else None
        title = f"figure {number}: case {case}, N = {STEPS:,}"
        speedups.draw(panel, rows, case, STEPS, title, predicted)
    for panel, case in zip(below, FIGURE_4, strict=False):
        for order, line in ((REARRANGED, "-"), (NATURAL, "--")):
            found = speedups.speedups(rows, case, FEW_STEPS, 32, order)
            plot(panel, found, order, line)
        title = f"figure 4: case {case}, N = {FEW_STEPS:,}, G = 32"
        label(panel, title, "threads a block", "speedup over a CPU")
    overhead.draw(below[2], rows)
    return figure
