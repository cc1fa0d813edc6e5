"""What the paper prints, and our figures beside it, with a sentence on each difference.

A. Wakatani, "Implementation and evaluation of recurrence equation solvers on GPGPU systems using
rearrangement of array configurations", Future Computing 2012. Figure 7's labels are given to the
bars in the order in which the text says that each series rises or falls; the other figures have no
numbers but those that the text names.
"""

from __future__ import annotations

from math import sqrt
from statistics import median
from typing import Any

from .. import overhead, speedups
from ..curves import Curve, Rows, curve, figure_of, finish, head, label, plot, ratios, section
from ..pogorelskih_2019.report import methods
from ..speedups import AUTO, LOOP, NATURAL, PHASES, REARRANGED

P_SCHEME, PCR = "P-scheme/G", "PCR"
SMALL, LARGE = 2**18, 2**20
BLOCKS, THREADS = 32, (16, 32, 64, 128, 256, 512)
# Milliseconds of N = 2^18 with G = 4, by T: with rearrangement and without it.
PRECOMPUTE = {16: (2.07, 2.69), 32: (1.07, 1.92), 64: (0.59, 1.18), 128: (0.34, 0.9)}
PROPAGATE = {16: 0.25, 32: 0.38, 64: 0.69, 128: 1.21}
# Figure 8: T of the greatest speedup by G; equation 18 predicts P_opt = sqrt(N/2).
BEST_THREADS = {LARGE: {4: 256, 8: 128, 16: 64, 32: 32}, SMALL: {4: 256, 8: 64, 16: 32, 32: 16}}
# Figure 7: speedups over a CPU by steps and threads of a block, with 32 blocks.
SPEEDUPS = {
    SMALL: {
        P_SCHEME: (1.935, 1.69, 1.245, 0.74, 0.382, 0.197),
        PCR: (0.24, 0.45, 0.79, 1.20, 1.31, 1.32),
    },
    LARGE: {
        P_SCHEME: (3.13, 4.48, 4.176, 2.658, 1.568, 0.79),
        PCR: (0.20, 0.37, 0.67, 1.10, 1.19, 1.25),
    },
}
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
                ("precomputation", {k: v[0] for k, v in PRECOMPUTE.items()},
                 given["precompute"]),
                ("propagation", PROPAGATE, given["propagate"]),
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
        name: dict(zip(THREADS, values, strict=True)) for name, values in SPEEDUPS[steps].items()
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
    theirs = BEST_THREADS[steps]
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
    columns = {g: speedups.speedups(rows, "L", steps, g) for g in BEST_THREADS[steps]}
    return {g: max(found, key=found.__getitem__) for g, found in columns.items() if found}


def summary(rows: Rows) -> list[str]:
    """What the study comes to."""
    told, same, cases = [], 0, 0
    for steps in (SMALL, LARGE):
        theirs, ours = BEST_THREADS[steps], best_threads(rows, steps)
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


def draw(record: dict[str, Any]) -> Any:
    """Two rows of four panels."""
    figure, panels = figure_of(record, "Wakatani (2012) on ", 2, 4, (15, 8))
    rows = record["cases"]
    for (phases, pcr, by_blocks), steps in zip(panels[:, :3], (SMALL, LARGE), strict=True):
        _draw_phases(phases, rows, steps)
        _draw_figure_7(pcr, rows, steps)
        speedups.draw(by_blocks, rows, "L", steps, f"figure 8: N = {steps:,}")
    _draw_orders(panels[0, 3], rows)
    overhead.draw(panels[1, 3], rows)
    return figure


def _draw_phases(panel: Any, rows: Any, steps: int) -> None:
    for order, line in ((REARRANGED, "-"), (NATURAL, "--")):
        for number, (name, found) in enumerate(phase_times(rows, steps, 4, order).items()):
            plot(panel, found, f"{name}, {order}", line, color=f"C{number}")
    title = f"figures 3 and 5: phases, N = {steps:,}, G = 4"
    label(panel, title, "threads a block", "milliseconds")


def _draw_figure_7(panel: Any, rows: Any, steps: int) -> None:
    ours = speedups_of_methods(rows, steps)
    if any(ours.values()):
        for name, values in SPEEDUPS[steps].items():
            colour = "C1" if name == P_SCHEME else "C3"
            theirs = dict(zip(THREADS, values, strict=True))
            plot(panel, theirs, f"{name}, paper", ":", color=colour)
            plot(panel, ours[name], f"{name}, here", color=colour)
    title = f"figure 7: N = {steps:,}, 32 blocks"
    label(panel, title, "threads a block", "speedup over a CPU")


def _draw_orders(panel: Any, rows: Any) -> None:
    for number, blocks in enumerate((4, 16)):
        for order, line in ((REARRANGED, "-"), (NATURAL, "--")):
            found = speedups.speedups(rows, "L", LARGE, blocks, order)
            plot(panel, found, f"G = {blocks}, {order}", line, color=f"C{number}")
    title = f"figure 6: N = {LARGE:,}"
    label(panel, title, "threads a block", "speedup over a CPU")
