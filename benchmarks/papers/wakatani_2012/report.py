"""The tables of a result: our figures beside the paper's, and a sentence on each difference."""

from __future__ import annotations

from math import sqrt
from statistics import median
from typing import Any

from .. import overhead, speedups
from ..pogorelskih_2019.report import methods
from ..speedups import AUTO, LOOP, NATURAL, PHASES, REARRANGED
from ..text import Curve, Rows, curve, finish, head, ratios, section
from . import printed
from .printed import BLOCKS, LARGE, P_SCHEME, PCR, SMALL

PAPER = "Wakatani (2012)"
MACHINES = (
    "The paper: a Tesla C1060 with 30 multiprocessors, beside one core of a Phenom II X4 945. "
    "Here: w[i] = w[i-1]/2 + t[i] in float32, operands and result in the device's memory, caches "
    "flushed, the arrays rearranged beforehand as in the paper; speedups are over one numba "
    "thread of this CPU."
)


def tables(record: dict[str, Any]) -> str:
    """The text of a result file."""
    rows = record["cases"]
    lines = [*head(record), MACHINES, ""]
    for number, steps, blocks in ((3, SMALL, 4), (3, SMALL, 32), (5, LARGE, 4), (5, LARGE, 16)):
        lines += phases(rows, number, steps, blocks)
    for number, steps in ((4, SMALL), (6, LARGE)):
        lines += orders(rows, number, steps)
    for steps in (SMALL, LARGE):
        lines += figure_7(rows, steps) + figure_8(rows, steps)
    lines += methods(rows, f"{PAPER}: a tridiagonal system by three recurrences, and other methods")
    lines += overhead.table(rows, PAPER, "p of a tridiagonal system") + summary(rows)
    return finish(lines, record)


def phase_times(rows: Rows, steps: int, blocks: int, order: str) -> dict[str, Curve]:
    """Milliseconds by T."""
    about = {"part": "phase", "steps": steps, "blocks": blocks, "order": order}
    found = {name: curve(rows, "threads", candidate=name, **about) for name in PHASES}
    return {name: {key: 1e3 * each for key, each in found[name].items()} for name in PHASES}


def phases(rows: Rows, number: int, steps: int, blocks: int) -> list[str]:
    """A part of figure 3 or 5."""
    columns = {
        f"{name}, {order}": times
        for order in (REARRANGED, NATURAL)
        for name, times in phase_times(rows, steps, blocks, order).items()
    }
    title = f"{PAPER}, figure {number}: phases, N = {steps:,}, G = {blocks}, milliseconds"
    return [*section(title, "T", columns), *_on_phases(rows, steps, blocks)]


def _on_phases(rows: Rows, steps: int, blocks: int) -> list[str]:
    given, without = (phase_times(rows, steps, blocks, each) for each in (REARRANGED, NATURAL))
    gains = ratios(without["precompute"], given["precompute"])
    if not gains:
        return []
    lines = [
        f"- Rearrangement makes the precomputation {min(gains.values()):.3g} to "
        f"{max(gains.values()):.3g} times as fast here, 2 to 10 times in the paper."
    ]
    if steps == SMALL and blocks == 4:
        pairs = (
            (name, median(ratios(theirs, ours).values()))
            for name, theirs, ours in (
                ("precomputation", {k: v[0] for k, v in printed.PRECOMPUTE.items()},
                 given["precompute"]),
                ("propagation", printed.PROPAGATE, given["propagate"]),
            )
        )  # fmt: skip
        told = " and the ".join(f"{name} {gain:.3g} times" for name, gain in pairs)
        lines.append(
            f"- Against the times that the text of the paper names the {told} as fast; of the "
            f"same number of threads, so that this is latency, not the number of processors."
        )
    return [*lines, ""]


def orders(rows: Rows, number: int, steps: int) -> list[str]:
    """Figure 4 or 6."""
    columns = {
        f"G = {blocks}, {order}": speedups.speedups(rows, "L", steps, blocks, order)
        for blocks in ((4, 32) if steps == SMALL else (4, 16))
        for order in (REARRANGED, NATURAL)
    }
    return section(f"{PAPER}, figure {number}: speedup over a CPU, N = {steps:,}", "T", columns)


def figure_7(rows: Rows, steps: int) -> list[str]:
    theirs = {
        name: dict(zip(printed.THREADS, values, strict=True))
        for name, values in printed.SPEEDUPS[steps].items()
    }
    ours = speedups_of_methods(rows, steps)
    title = f"{PAPER}, figure 7: speedup over a CPU, N = {steps:,}, {BLOCKS} blocks"
    lines = section(title, "T", ours, theirs)
    return [*lines, f"- {_on_figure_7(theirs, ours)}", ""] if all(ours.values()) else lines


def speedups_of_methods(rows: Rows, steps: int) -> dict[str, Curve]:
    """By T, with the blocks of figure 7."""
    orders = {P_SCHEME: REARRANGED, PCR: PCR}
    return {
        name: speedups.speedups(rows, "L", steps, BLOCKS, order) for name, order in orders.items()
    }


def _on_figure_7(theirs: dict[str, Curve], ours: dict[str, Curve]) -> str:
    best = [
        {name: max(each[name], key=each[name].__getitem__) for name in (P_SCHEME, PCR)}
        for each in (ours, theirs)
    ]
    gain = [
        each[P_SCHEME][own[P_SCHEME]] / each[PCR][own[PCR]]
        for each, own in zip((ours, theirs), best, strict=True)
    ]
    why = ""
    if best[0][P_SCHEME] > best[1][P_SCHEME]:
        why = ": the paper propagates by one thread, mgrec by a warp, and so affords more parts"
    return (
        f"P-scheme/G at its best is {gain[0]:.3g} times as fast as PCR at its best here, "
        f"{gain[1]:.3g} times in the paper. Its best has {best[0][P_SCHEME]} threads a block here, "
        f"{best[1][P_SCHEME]} there{why}. The paper does not say what PCR solves; here it is the "
        f"same recurrence as a system without a diagonal above, a launch a level."
    )


def figure_8(rows: Rows, steps: int) -> list[str]:
    theirs = printed.BEST_THREADS[steps]
    columns = {f"G = {each}": speedups.speedups(rows, "L", steps, each) for each in theirs}
    title = f"{PAPER}, figure 8: speedup with rearrangement, N = {steps:,}"
    lines = section(title, "T", columns)
    if not all(columns.values()):
        return lines
    ours = best_threads(rows, steps)
    return [
        *lines,
        f"- The best T with G = {', '.join(map(str, theirs))} is "
        f"{', '.join(map(str, ours.values()))} "
        f"here, {', '.join(map(str, theirs.values()))} in the paper, whose model (equation 18) "
        f"predicts P = sqrt(N/2) = {sqrt(steps / 2):,.0f}.", "",
    ]  # fmt: skip


def best_threads(rows: Rows, steps: int) -> dict[int, int]:
    """T of the greatest speedup with rearrangement, by G."""
    columns = {g: speedups.speedups(rows, "L", steps, g) for g in printed.BEST_THREADS[steps]}
    return {g: max(found, key=found.__getitem__) for g, found in columns.items() if found}


def summary(rows: Rows) -> list[str]:
    """What the study comes to."""
    told, same, cases = [], 0, 0
    for steps in (SMALL, LARGE):
        theirs, ours = printed.BEST_THREADS[steps], best_threads(rows, steps)
        same += sum(theirs[g] == ours.get(g) for g in theirs)
        cases += len(theirs)
        best, auto = (
            speedups.best_of(rows, "L", steps), speedups.seconds_of(rows, "L", steps, AUTO),
        )  # fmt: skip
        chosen = speedups.nearest(rows, "L", steps, sqrt(steps / 2))
        base = speedups.seconds_of(rows, "L", steps, LOOP)
        if not (best and auto and chosen and base):
            return []
        told.append(
            f"For N = {steps:,} the best has G = {best.blocks} and T = {best.threads}; the "
            f"policy's choice, G = {chosen.blocks} and T = {chosen.threads}, takes "
            f"{chosen.seconds / best.seconds:.3g} times as long, and `auto` "
            f"{auto / best.seconds:.3g} times, a speedup of {base / auto:.3g} over the CPU."
        )
    return [
        "## What agrees, what changed, what `auto` does", "",
        "That G should be as large as the GPU allows, and that T has an optimum where the "
        "propagation begins to outweigh the other phases, agrees with the paper: with the same G "
        f"the best T is the paper's in {same} of {cases} cases. What changed: the paper's costs of "
        "1 : 4 : 1 are those of a propagation by one slow thread. "
        + " ".join(told)
        + " `auto` chooses no P: one pass, in which blocks hand their states on. For a "
        "tridiagonal system it cuts partitions and pivots where it must, and does not go through "
        "three recurrences.", "",
    ]  # fmt: skip
