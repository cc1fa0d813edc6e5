"""The picture of a result: figures 1, 4 and 5 to 7."""

from __future__ import annotations

from typing import Any

from .. import axes, overhead, speedups
from ..loops import CASES
from ..speedups import NATURAL, REARRANGED
from . import printed
from .printed import FEW_STEPS, STEPS


def draw(record: dict[str, Any]) -> Any:
    """Two rows of three panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8), layout="constrained")
    above, below = figure.subplots(2, 3)
    rows = record["cases"]
    for panel, number, case in zip(above, (5, 6, 7), CASES, strict=True):
        found = speedups.constants(rows, case, STEPS)
        predicted = speedups.optimum(found, STEPS) if found else None
        title = f"figure {number}: case {case}, N = {STEPS:,}"
        speedups.draw(panel, rows, case, STEPS, title, predicted)
    for panel, case in zip(below, printed.FIGURE_4, strict=False):
        for order, line in ((REARRANGED, "-"), (NATURAL, "--")):
            found = speedups.speedups(rows, case, FEW_STEPS, 32, order)
            axes.plot(panel, found, order, line)
        title = f"figure 4: case {case}, N = {FEW_STEPS:,}, G = 32"
        axes.finish(panel, title, "threads a block", "speedup over a CPU")
    overhead.draw(below[2], rows)
    gpus = "; ".join(record["machine"]["gpus"]) or record["machine"]["processor"]
    figure.suptitle(f"Wakatani (2013) on {gpus}, {record['date'][:10]}")
    return figure
