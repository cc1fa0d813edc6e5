"""The tables of a result: our figures beside the paper's, and a sentence on each difference."""

from __future__ import annotations

from statistics import median
from typing import Any

from ..curves import Curve, Rows, cell, curve, figure_of, ratios, render, rows_of
from . import printed
from .printed import AUTO, P_SCHEME, PCR, REDUCTION

COLOURS = {
    "CPU Thomas": "0.3",
    "CPU": "0.6",
    "Thomas": "C2",
    "SERICR computed": "C4",
    "SERICR": "C5",
    "PARACR": "C3",
    PCR: "C3",
    REDUCTION: "C9",
    P_SCHEME: "C1",
    AUTO: "C0",
}
LINES = {"global": ":", "part": "--", "all": "-.", "CPU": "--"}


def tables(record: dict[str, Any]) -> str:
    """The text of a result file."""
    rows = record["cases"]

    def times(candidate: str, part: str = "batch") -> Curve:
        by = {"batch": "systems", "single": "rows"}[part]
        return curve(rows, by, part=part, candidate=candidate)

    def gains(table: printed.Table) -> dict[str, Curve]:
        return {name: ratios(times(table.base), times(name)) for name in table.columns}

    def ratio(over: str, under: str, part: str = "batch") -> float:
        """The median ratio of two candidates' times; 0 where it was not measured."""
        return median(ratios(times(over, part), times(under, part)).values() or [0.0])

    def unknown(found: Curve) -> str:
        """Nanoseconds an unknown."""
        return f"{median(s / n for n, s in found.items()) / printed.ROWS * 1e9:.2g}"

    return render(
        "pogorelskih_2019/report.md.j2",
        record,
        p=printed,
        times=times,
        gains=gains,
        ratio=ratio,
        unknown=unknown,
        methods=methods,
        seconds={name: times(name) for name in printed.SECONDS},
        reductions=times(printed.PART, "single") | times(printed.PCR, "single"),
    )


def methods(rows: Rows, part: str, by: str, title: str) -> str:
    """A table in nanoseconds an unknown: a line a method, a column a size."""
    own = rows_of(rows, part=part)
    if not own:
        return ""
    sizes = sorted({row[by] for row in own})
    columns = " | ".join(f"{size:,}" for size in sizes)
    lines = [f"## {title}", "", f"| ns an unknown, by {by} | {columns} |"]
    lines.append("|---" * (1 + len(sizes)) + "|")
    for name in dict.fromkeys(row["candidate"] for row in own):
        found = {row[by]: row["median"] / row["steps"] for row in rows_of(own, candidate=name)}
        cells = [cell(found.get(size), 1e9) for size in sizes]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def draw(record: dict[str, Any]) -> Any:
    """Two panels."""
    figure, (many, one) = figure_of(record, "", 1, 2, (10, 5))
    rows = record["cases"]
    _draw_sizes(many, [row for row in rows if row.get("part") == "batch"], "systems")
    _draw_sizes(one, [row for row in rows if row.get("part") == "single"], "rows")
    one.set_xscale("log", base=2)
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
