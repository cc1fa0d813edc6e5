"""The picture of a result: many systems, and one system."""

from __future__ import annotations

from typing import Any

from .printed import AUTO, P_SCHEME, PCR, REDUCTION

COLOURS = {
    "CPU Thomas": "0.3", "CPU": "0.6", "Thomas": "C2", "SERICR computed": "C4", "SERICR": "C5",
    "PARACR": "C3", PCR: "C3", REDUCTION: "C9", P_SCHEME: "C1", AUTO: "C0",
}  # fmt: skip
LINES = {"global": ":", "part": "--", "all": "-.", "CPU": "--"}


def draw(record: dict[str, Any]) -> Any:
    """Two panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5), layout="constrained")
    many, one = figure.subplots(1, 2)
    rows = record["cases"]
    _draw_sizes(many, [row for row in rows if row.get("part") == "batch"], "systems")
    _draw_sizes(one, [row for row in rows if row.get("part") == "single"], "rows")
    one.set_xscale("log", base=2)
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
