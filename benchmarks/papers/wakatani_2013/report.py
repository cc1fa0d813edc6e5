"""What the paper prints, and our figures beside it, with a sentence on each difference.

A. Wakatani, "Evaluation of P-Scheme/G algorithm for solving recurrence equations", International
Journal of Modeling and Optimization 3 (2013). Its figures 5 to 7 have no numbers in their text but
those that the text names.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import overhead
from ..curves import Curve, Rows, curve, figure_of, label, plot, render
from ..loops import CASES
from ..speedups import AUTO, NATURAL, REARRANGED, Solves

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
WAYS = ("without shared memory", "with shared memory")


def rearrangement() -> dict[str, Curve]:
    """Table I as curves."""
    return {name: {steps: times[k] for steps, times in REARRANGEMENT.items()} for k, name in enumerate(WAYS)}


def tables(record: dict[str, Any]) -> str:
    """The text of a result file."""
    rows = record["cases"]
    cases = {case: Solves(rows, case, STEPS) for case in CASES}
    times = {name: curve(rows, "steps", part="rearrangement", candidate=name) for name in WAYS}
    orders = {case: speedups_of_orders(rows, case) for case in FIGURE_4}

    def gain(case: str) -> float:
        """How many times as fast rearrangement makes the best of figure 4; 0 if not measured."""
        without, given = (max(each.values(), default=0.0) for each in orders[case].values())
        return given / without if without else 0.0

    def misses(case: str) -> float:
        solves = cases[case]
        return solves.nearest(solves.optimum).seconds / solves.best.seconds

    def wins(case: str) -> float:
        return cases[case].best.seconds / cases[case].seconds(AUTO)

    return render(
        "wakatani_2013/report.md.j2",
        record,
        printed=sys.modules[__name__],
        cases=cases,
        times=overhead.times(rows),
        steps=STEPS,
        few=FEW_STEPS,
        orders=orders,
        gain=gain,
        rearranged={name: {n: 1e3 * each for n, each in times[name].items()} for name in times},
        is_whole=all(each.best and each.optimum and each.seconds(AUTO) for each in cases.values()),
        by_case=lambda value, of=CASES: ", ".join(f"{value(c):.3g} (case {c})" for c in of),
        by_blocks=lambda each: {f"G = {k}": each.speedups(k) for k in each.blocks},
        scaled=lambda values, scale: [scale * value for value in values],
        misses=misses,
        wins=wins,
    )


def speedups_of_orders(rows: Rows, case: str) -> dict[str, Curve]:
    """By T, of figure 4."""
    solves = Solves(rows, case, FEW_STEPS)
    return {order: solves.speedups(32, order) for order in (NATURAL, REARRANGED)}


def draw(record: dict[str, Any]) -> Any:
    """Two rows of three panels."""
    figure, (above, below) = figure_of(record, "Wakatani (2013) on ", 2, 3, (12, 8))
    rows = record["cases"]
    for panel, number, case in zip(above, (5, 6, 7), CASES, strict=True):
        solves = Solves(rows, case, STEPS)
        solves.draw(panel, f"figure {number}: case {case}, N = {STEPS:,}", solves.optimum)
    for panel, case in zip(below, FIGURE_4, strict=False):
        for order, found in reversed(speedups_of_orders(rows, case).items()):
            plot(panel, found, order, "-" if order == REARRANGED else "--")
        title = f"figure 4: case {case}, N = {FEW_STEPS:,}, G = 32"
        label(panel, title, "threads a block", "speedup over a CPU")
    overhead.draw(below[2], rows)
    return figure
