"""The picture of a result: figures 3 and 5 to 8, and figure 1."""

from __future__ import annotations

from typing import Any

from .. import axes, overhead, speedups
from ..speedups import NATURAL, REARRANGED
from . import printed
from .printed import LARGE, P_SCHEME, SMALL
from .report import phase_times, speedups_of_methods


def draw(record: dict[str, Any]) -> Any:
    """Two rows of four panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 8), layout="constrained")
    panels = figure.subplots(2, 4)
    rows = record["cases"]
    for (phases, pcr, by_blocks), steps in zip(panels[:, :3], (SMALL, LARGE), strict=True):
        _draw_phases(phases, rows, steps)
        _draw_figure_7(pcr, rows, steps)
        speedups.draw(by_blocks, rows, "L", steps, f"figure 8: N = {steps:,}")
    _draw_orders(panels[0, 3], rows)
    overhead.draw(panels[1, 3], rows)
    gpus = "; ".join(record["machine"]["gpus"]) or record["machine"]["processor"]
    figure.suptitle(f"Wakatani (2012) on {gpus}, {record['date'][:10]}")
    return figure


def _draw_phases(panel: Any, rows: Any, steps: int) -> None:
    for order, line in ((REARRANGED, "-"), (NATURAL, "--")):
        for number, (name, found) in enumerate(phase_times(rows, steps, 4, order).items()):
            axes.plot(panel, found, f"{name}, {order}", line, color=f"C{number}")
    title = f"figures 3 and 5: phases, N = {steps:,}, G = 4"
    axes.finish(panel, title, "threads a block", "milliseconds")


def _draw_figure_7(panel: Any, rows: Any, steps: int) -> None:
    ours = speedups_of_methods(rows, steps)
    if any(ours.values()):
        for name, values in printed.SPEEDUPS[steps].items():
            colour = "C1" if name == P_SCHEME else "C3"
            theirs = dict(zip(printed.THREADS, values, strict=True))
            axes.plot(panel, theirs, f"{name}, paper", ":", color=colour)
            axes.plot(panel, ours[name], f"{name}, here", color=colour)
    title = f"figure 7: N = {steps:,}, 32 blocks"
    axes.finish(panel, title, "threads a block", "speedup over a CPU")


def _draw_orders(panel: Any, rows: Any) -> None:
    for number, blocks in enumerate((4, 16)):
        for order, line in ((REARRANGED, "-"), (NATURAL, "--")):
            found = speedups.speedups(rows, "L", LARGE, blocks, order)
            axes.plot(panel, found, f"G = {blocks}, {order}", line, color=f"C{number}")
    title = f"figure 6: N = {LARGE:,}"
    axes.finish(panel, title, "threads a block", "speedup over a CPU")
