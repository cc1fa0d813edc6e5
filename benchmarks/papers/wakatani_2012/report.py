"""What the paper prints, and our figures beside it, with a sentence on each difference.

A. Wakatani, "Implementation and evaluation of recurrence equation solvers on GPGPU systems using
rearrangement of array configurations", Future Computing 2012. Figure 7's labels are given to the
bars in the order in which the text says that each series rises or falls; the other figures have no
numbers but those that the text names.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import overhead
from ..curves import Curve, Rows, curve, figure_of, label, plot, render
from ..pogorelskih_2019.report import methods
from ..speedups import AUTO, LOOP, NATURAL, PHASES, REARRANGED, Solves

P_SCHEME, PCR = "P-scheme/G", "PCR"
SMALL, LARGE = 2**18, 2**20
BLOCKS, THREADS = 32, (16, 32, 64, 128, 256, 512)
# Milliseconds of N = 2^18 with G = 4, by T; without rearrangement 2.69, 1.92, 1.18 and 0.9.
PRECOMPUTE = {16: 2.07, 32: 1.07, 64: 0.59, 128: 0.34}
PROPAGATE = {16: 0.25, 32: 0.38, 64: 0.69, 128: 1.21}
# Figure 8: T of the greatest speedup by G; equation 18 predicts P_opt = sqrt(N/2).
BEST_THREADS = {LARGE: {4: 256, 8: 128, 16: 64, 32: 32}, SMALL: {4: 256, 8: 64, 16: 32, 32: 16}}
# Figure 7: speedups over a CPU by steps and threads of a block, with 32 blocks.
SPEEDUPS = {
    SMALL: {P_SCHEME: (1.935, 1.69, 1.245, 0.74, 0.382, 0.197), PCR: (0.24, 0.45, 0.79, 1.20, 1.31, 1.32)},
    LARGE: {P_SCHEME: (3.13, 4.48, 4.176, 2.658, 1.568, 0.79), PCR: (0.20, 0.37, 0.67, 1.10, 1.19, 1.25)},
}


def tables(record: dict[str, Any]) -> str:
    """The text of a result file."""
    rows = record["cases"]
    cases = {steps: Solves(rows, "L", steps) for steps in (SMALL, LARGE)}
    best = [(BEST_THREADS[steps], best_threads(solves)) for steps, solves in cases.items()]
    return render(
        "wakatani_2012/report.md.j2",
        record,
        p=sys.modules[__name__],
        methods=methods,
        cases=cases,
        times=overhead.times(rows),
        count=sum(len(theirs) for theirs, _ in best),
        same=sum(theirs[g] == ours.get(g) for theirs, ours in best for g in theirs),
        is_whole=all(s.best and s.seconds(AUTO) and s.seconds(LOOP) for s in cases.values()),
    )


def phases(rows: Rows, steps: int, blocks: int) -> dict[str, Curve]:
    """Milliseconds by T, of figures 3 and 5."""
    about = {"part": "phase", "steps": steps, "blocks": blocks}
    found = {
        f"{name}, {order}": curve(rows, "threads", candidate=name, order=order, **about)
        for order in (REARRANGED, NATURAL)
        for name in PHASES
    }
    return {name: {key: 1e3 * each for key, each in found[name].items()} for name in found}


def orders(rows: Rows, steps: int, some: tuple[int, ...]) -> dict[str, Curve]:
    """Speedups by T, of figures 4 and 6."""
    solves = Solves(rows, "L", steps)
    return {
        f"G = {blocks}, {order}": solves.speedups(blocks, order)
        for blocks in some
        for order in (REARRANGED, NATURAL)
    }


def by_method(solves: Solves) -> dict[str, Curve]:
    """Speedups by T, with the blocks of figure 7."""
    return {P_SCHEME: solves.speedups(BLOCKS), PCR: solves.speedups(BLOCKS, PCR)}


def of_paper(steps: int) -> dict[str, Curve]:
    """Figure 7."""
    return {name: dict(zip(THREADS, each, strict=True)) for name, each in SPEEDUPS[steps].items()}


def best_of(found: dict[str, Curve]) -> dict[str, Any]:
    """The best threads of P-scheme/G, and how many times as fast as PCR it is then."""
    own, peer = found[P_SCHEME], found[PCR]
    gain = max(own.values()) / max(peer.values())
    return {"threads": max(own, key=own.__getitem__), "gain": gain}


def by_blocks(solves: Solves) -> dict[str, Curve]:
    """Speedups by T, of figure 8."""
    return {f"G = {blocks}": solves.speedups(blocks) for blocks in BEST_THREADS[solves.steps]}


def best_threads(solves: Solves) -> dict[int, int]:
    """T of the greatest speedup with rearrangement, by G."""
    columns = {blocks: solves.speedups(blocks) for blocks in BEST_THREADS[solves.steps]}
    return {g: max(found, key=found.__getitem__) for g, found in columns.items() if found}


def draw(record: dict[str, Any]) -> Any:
    """Two rows of four panels."""
    figure, panels = figure_of(record, "Wakatani (2012) on ", 2, 4, (15, 8))
    rows, threads, speedup = record["cases"], "threads a block", "speedup over a CPU"
    for (above, middle, below), steps in zip(panels[:, :3], (SMALL, LARGE), strict=True):
        solves = Solves(rows, "L", steps)
        _draw(above, phases(rows, steps, 4), (0, 1, 2, 0, 1, 2))
        label(above, f"figures 3 and 5: phases, N = {steps:,}, G = 4", threads, "milliseconds")
        ours, theirs = by_method(solves), of_paper(steps)
        for name, colour in ((P_SCHEME, "C1"), (PCR, "C3")) if any(ours.values()) else ():
            plot(middle, theirs[name], f"{name}, paper", ":", color=colour)
            plot(middle, ours[name], f"{name}, here", color=colour)
        label(middle, f"figure 7: N = {steps:,}, 32 blocks", threads, speedup)
        solves.draw(below, f"figure 8: N = {steps:,}")
    _draw(panels[0, 3], orders(rows, LARGE, (4, 16)), (0, 0, 1, 1))
    label(panels[0, 3], f"figure 6: N = {LARGE:,}", threads, speedup)
    overhead.draw(panels[1, 3], rows)
    return figure


def _draw(panel: Any, found: dict[str, Curve], colours: tuple[int, ...]) -> None:
    """Curves of both orders."""
    for (name, each), colour in zip(found.items(), colours, strict=True):
        plot(panel, each, name, "--" if name.endswith(NATURAL) else "-", color=f"C{colour}")
