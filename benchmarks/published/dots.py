"""A picture of any result that has none of its own: a dot a candidate, a line a case."""

from __future__ import annotations

from collections import Counter
from io import BytesIO
from typing import Any

from .rows import Result, Row

NAMES = {
    "fraction": "fraction of the limit of memory traffic: right is better",
    "GCUPS": "10^9 cells a second: right is better",
    "ns": "nanoseconds a step: left is better",
    "ms": "milliseconds: left is better",
}
MOST_LINES, MOST_CANDIDATES = 60, 10


def value_of(result: Result) -> str:
    """What most rows of the result have, of what compares best."""
    preferred = ["fraction", "ns"]
    if "alignment" in result.path.name:
        preferred = ["GCUPS"]
    for value in preferred:
        if sum(value in row.numbers for row in result.rows) > len(result.rows) / 2:
            return value
    return "ms"


def draw(result: Result) -> bytes | None:
    """The picture as PNG; None where no row has a time."""
    value = value_of(result)
    rows = [row for row in result.rows if row.numbers.get(value, 0) > 0]
    cases = list(dict.fromkeys(row.case for row in rows))[:MOST_LINES]
    return _dots([row for row in rows if row.case in cases], cases, value) if cases else None


def _dots(rows: list[Row], cases: list[str], value: str) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.6 + 0.22 * len(cases)), layout="constrained")
    axes = figure.subplots()
    counts = Counter(row.candidate for row in rows)
    names = sorted(counts, key=lambda name: (name != "mgrec", -counts[name]))
    shown = names if len(names) <= MOST_CANDIDATES else [*names[: MOST_CANDIDATES - 1], "others"]
    for number, name in enumerate(shown):
        own = [row for row in rows if (row.candidate if row.candidate in shown else "others") == name]
        axes.plot(
            [row.numbers[value] for row in own],
            [cases.index(row.case) for row in own],
            "o",
            ms=5,
            color=f"C{number}",
            alpha=0.8,
            label=name or "mgrec",
        )
    axes.set_yticks(range(len(cases)), cases, fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(NAMES[value])
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=4, fontsize=7)
    return _png(figure)


def _png(figure: Any) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, dpi=90)
    return buffer.getvalue()
