"""The pictures of a result: many systems, one system, and figure 7 with the paper's bars."""

from __future__ import annotations

from typing import Any

from . import printed
from .printed import AUTO, P_SCHEME, PCR
from .report import speedups

STYLES = {AUTO: {"color": "C0", "linewidth": 2}, P_SCHEME: {"color": "C1"}, PCR: {"color": "C3"}}


def draw(record: dict[str, Any]) -> Any:
    """Four panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8), layout="constrained")
    (many, one), below = figure.subplots(2, 2)
    rows = record["cases"]
    _draw_sizes(many, [row for row in rows if row.get("part") == "batch"], "systems")
    _draw_sizes(one, [row for row in rows if row.get("part") == "single"], "rows")
    one.set_xscale("log", base=2)
    for axes, steps in zip(below, printed.SPEEDUPS, strict=True):
        _draw_figure_7(axes, rows, steps)
    gpus = "; ".join(record["machine"]["gpus"]) or record["machine"]["processor"]
    figure.suptitle(f"{gpus}, {record['date'][:10]}")
    return figure


def _draw_sizes(axes: Any, rows: list[dict[str, Any]], by: str) -> None:
    for name in dict.fromkeys(row["candidate"] for row in rows):
        own = [row for row in rows if row["candidate"] == name]
        style = {"marker": ".", "linewidth": 1, "label": name} | STYLES.get(name, {})
        style |= {"linestyle": ":"} if name.startswith("CPU") else {}
        axes.plot([row[by] for row in own], [row["median"] / row["steps"] * 1e9 for row in own],
                  **style)  # fmt: skip
    axes.set(yscale="log", xlabel=by, ylabel="nanoseconds an unknown")
    axes.grid(alpha=0.3)
    if rows:
        axes.legend(fontsize=6, ncols=2)


def _draw_figure_7(axes: Any, rows: list[dict[str, Any]], steps: int) -> None:
    ours = speedups(rows, steps)
    for name, values in printed.SPEEDUPS[steps].items():
        colour = STYLES[name]["color"]
        axes.plot(printed.THREADS, values, ":", color=colour, label=f"{name[6:]}, paper")
        own = ours.get(name, {})
        axes.plot(list(own), list(own.values()), "-", color=colour, label=f"{name[6:]}, here")
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel="threads a block", ylabel="speedup over a CPU")
    axes.set_title(f"Wakatani, figure 7: N = {steps:,}, 32 blocks", fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
