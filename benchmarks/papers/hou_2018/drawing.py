"""The picture of a result: three loops by shape, and weighted scans by size."""

from __future__ import annotations

from math import log2
from typing import Any

from .report import LOOPS, PAIRS, Rows, of_part, times

COLOURS = {"compensation": "C0", "tiles": "C1", "hybrid": "C2", "hyperplane": "C3"}


def draw(record: dict[str, Any]) -> Any:
    """Four panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8), layout="constrained")
    *upper, scans = figure.subplots(2, 2).ravel()
    for axes, name in zip(upper, LOOPS, strict=True):
        _draw_loop(axes, of_part(record["cases"], name), name)
    for pair, line in zip(PAIRS, ("-", "--"), strict=True):
        _draw_scans(scans, of_part(record["cases"], pair), pair, line)
    scans.set(xscale="log", yscale="log", xlabel="steps", ylabel="nanoseconds a step")
    scans.set_title("weighted scan of one row", fontsize=9)
    _finish(scans)
    scans.set_visible(bool(scans.lines))
    gpus = "; ".join(record["machine"]["gpus"]) or record["machine"]["processor"]
    figure.suptitle(f"{gpus}, {record['date'][:10]}")
    return figure


def _finish(axes: Any) -> None:
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(fontsize=7)


def _draw_loop(axes: Any, rows: Rows, name: str) -> None:
    for candidate, found in times(rows, "rows").items():
        is_own = candidate not in COLOURS
        axes.plot(
            [log2(each) for each in found], [each * 1e3 for each in found.values()], marker=".",
            color=COLOURS.get(candidate, "0.4"), linestyle=":" if is_own else "-",
            linewidth=2 if candidate == "hybrid" else 1, label=candidate,
        )  # fmt: skip
    shapes = {
        row["rows"]: "\n".join(f"$2^{{{log2(row[each]):.0f}}}$" for each in ("rows", "columns"))
        for row in rows
    }
    axes.set_xticks([log2(each) for each in shapes], list(shapes.values()))
    axes.set(yscale="log", xlabel="rows, columns", ylabel="milliseconds")
    axes.set_title(name, fontsize=9)
    _finish(axes)


def _draw_scans(axes: Any, rows: Rows, pair: str, line: str) -> None:
    for number, (candidate, found) in enumerate(times(rows, "size").items()):
        values = [seconds / size * 1e9 for size, seconds in found.items()]
        axes.plot(list(found), values, line, color=f"C{number}", label=f"{candidate}, {pair}")
