"""The pictures of a result: many systems, one system, and figure 7 with the paper's bars."""

from __future__ import annotations

from typing import Any

from . import printed
from .printed import AUTO, P_SCHEME, PCR, REDUCTION
from .report import speedups

COLOURS = {
    "CPU Thomas": "0.3", "CPU": "0.6", "Thomas": "C2", "SERICR computed": "C4", "SERICR": "C5",
    "PARACR": "C3", PCR: "C3", REDUCTION: "C9", P_SCHEME: "C1", AUTO: "C0",
}  # fmt: skip
LINES = {"global": ":", "part": "--", "all": "-.", "CPU": "--"}


def draw(record: dict[str, Any]) -> Any:
    """Four panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 9), layout="constrained")
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


def _style(name: str) -> dict[str, Any]:
    """A colour a method, a line a kind of memory."""
    found = (colour for start, colour in COLOURS.items() if name.startswith(start))
    line = next((line for word, line in LINES.items() if word in name), "-")
    return {"color": next(found, "C2"), "linestyle": line, "linewidth": 2 if name == AUTO else 1}


def _draw_sizes(axes: Any, rows: list[dict[str, Any]], by: str) -> None:
    for name in dict.fromkeys(row["candidate"] for row in rows):
        own = [row for row in rows if row["candidate"] == name]
        times = [row["median"] / row["steps"] * 1e9 for row in own]
        axes.plot([row[by] for row in own], times, marker=".", label=name, **_style(name))
    axes.set(yscale="log", xlabel=by, ylabel="nanoseconds an unknown")
    axes.grid(alpha=0.3)
    if rows:
        axes.legend(fontsize=6, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _draw_figure_7(axes: Any, rows: list[dict[str, Any]], steps: int) -> None:
    ours = speedups(rows, steps)
    for name, values in printed.SPEEDUPS[steps].items():
        colour, told = COLOURS[name], name.removeprefix("mgrec ")
        axes.plot(printed.THREADS, values, ":", color=colour, label=f"{told}, paper")
        own = ours.get(name, {})
        axes.plot(list(own), list(own.values()), "-", color=colour, label=f"{told}, here")
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel="threads a block", ylabel="speedup over a CPU")
    axes.set_title(f"Wakatani, figure 7: N = {steps:,}, 32 blocks", fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
