"""The tables of a result, and a sentence on each difference from the paper."""

from __future__ import annotations

from math import log2
from statistics import median
from typing import Any

from ..curves import Curve, Rows, cell, curve, figure_of, ratios, render, rows_of

LOOPS = ("SAT", "SW", "SOR")
STRATEGIES = ("compensation", "tiles", "hyperplane", "hybrid")
COLOURS = {"compensation": "C0", "tiles": "C1", "hybrid": "C2", "hyperplane": "C3"}
PAIRS = ("∘ ≠ ◇", "∘ = ◇")


def tables(record: dict[str, Any]) -> str:
    """The text of a result file."""
    rows = record["cases"]
    loops = {name: times(rows, name, "rows") for name in LOOPS}
    scans = {pair: times(rows, pair, "size") for pair in PAIRS}
    each_step = {
        pair: {name: {n: s / n for n, s in curve.items()} for name, curve in found.items()}
        for pair, found in scans.items()
    }
    return render(
        "hou_2018/report.md.j2",
        record,
        loops=loops,
        scans=each_step,
        cell=cell,
        compare=compare,
        summarise=lambda: [told for name in LOOPS for told in summarise(name, loops[name])],
    )


def times(rows: Rows, part: str, by: str) -> dict[str, Curve]:
    """Seconds of every candidate of a part by rows of the grid, or by size."""
    own = rows_of(rows, part=part)
    names = dict.fromkeys(row["candidate"] for row in own)
    return {name: curve(own, by, candidate=name) for name in names}


def compare(found: dict[str, Curve]) -> tuple[Curve, float, list[float]]:
    """Tiles over compensation by rows, the hybrid over the better, and hyperplanes over tiles."""
    strips, tiles, planes, hybrid = (found.get(name, {}) for name in STRATEGIES)
    shared = sorted(strips.keys() & tiles.keys() & hybrid.keys())
    better = {rows: min(strips[rows], tiles[rows]) for rows in shared}
    losses = [planes[rows] / tiles[rows] for rows in shared if rows in planes]
    worst = max(ratios(hybrid, better).values(), default=0.0)
    return {rows: tiles[rows] / strips[rows] for rows in shared}, worst, losses


def summarise(name: str, found: dict[str, Curve]) -> list[dict[str, Any]]:
    """How often compensation wins, and what mgrec's own function of the loop gains."""
    tiles, strips = found.get("tiles", {}), found.get("compensation", {})
    function = next((each for each in found if each not in STRATEGIES), None)
    if not (tiles and strips and function):
        return []
    wins = sum(strips[rows] < tiles[rows] for rows in tiles.keys() & strips.keys())
    gain = median(ratios(found.get("hybrid", {}), found[function]).values())
    about = {"name": name, "wins": wins, "shapes": len(tiles), "function": function}
    return [{**about, "gain": gain}]


def draw(record: dict[str, Any]) -> Any:
    """Four panels."""
    figure, panels = figure_of(record, "", 2, 2, (10, 8))
    *upper, scans = panels.ravel()
    for axes, name in zip(upper, LOOPS, strict=True):
        _draw_loop(axes, record["cases"], name)
    for pair, line in zip(PAIRS, ("-", "--"), strict=True):
        _draw_scans(scans, record["cases"], pair, line)
    scans.set(xscale="log", yscale="log", xlabel="steps", ylabel="nanoseconds a step")
    scans.set_title("weighted scan of one row", fontsize=9)
    _finish(scans)
    scans.set_visible(bool(scans.lines))
    return figure


def _finish(axes: Any) -> None:
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(fontsize=7)


def _draw_loop(axes: Any, rows: Rows, name: str) -> None:
    for candidate, found in times(rows, name, "rows").items():
        is_own = candidate not in COLOURS
        axes.plot(
            [log2(each) for each in found],
            [each * 1e3 for each in found.values()],
            marker=".",
            color=COLOURS.get(candidate, "0.4"),
            linestyle=":" if is_own else "-",
            linewidth=2 if candidate == "hybrid" else 1,
            label=candidate,
        )
    shapes = {
        row["rows"]: "\n".join(f"$2^{{{log2(row[each]):.0f}}}$" for each in ("rows", "columns"))
        for row in rows_of(rows, part=name)
    }
    axes.set_xticks([log2(each) for each in shapes], list(shapes.values()))
    axes.set(yscale="log", xlabel="rows, columns", ylabel="milliseconds")
    axes.set_title(name, fontsize=9)
    _finish(axes)


def _draw_scans(axes: Any, rows: Rows, pair: str, line: str) -> None:
    for number, (candidate, found) in enumerate(times(rows, pair, "size").items()):
        values = [seconds / size * 1e9 for size, seconds in found.items()]
        axes.plot(list(found), values, line, color=f"C{number}", label=f"{candidate}, {pair}")
