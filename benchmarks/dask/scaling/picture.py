"""Pictures of a scaling study: efficiency by workers, and what each worker did when."""

from __future__ import annotations

from itertools import product
from typing import Any

from dask.utils import key_split
from distributed import Client, get_task_stream, wait

import mgrec

from ...harness.records import RESULTS, read
from .cases import BARS, CASES, ROWS, SCALED, way_of

COLOURS = {"precompute": "#4477aa", "propagate": "#ee6677", "determine": "#228833"}
COLOUR_OF = {name: f"C{k}" for k, name in enumerate(CASES)}
STYLES = {"graph": ("o-", "x"), "solve": ("s-.", "1"), "plan": ("^--", "+")}
"""One sequence, and many rows."""
MOST = 8
"""The most workers drawn: predictions go further."""


def stream(client: Client, addresses: list[str], s: Any, t: Any) -> list[dict[str, Any]]:
    """The tasks of one solve, the second: worker, phase, and when it ran, in milliseconds."""
    wait(mgrec.linear_recurrence(s, t, 2.0).persist())
    with get_task_stream(client=client) as tasks:
        wait(mgrec.linear_recurrence(s, t, 3.0).persist())
    found = []
    for task in tasks.data:
        for span in task["startstops"]:
            about = {"worker": addresses.index(task["worker"]), "action": span["action"]}
            name = key_split(task["key"])
            found.append({**about, "task": name, "start": span["start"], "stop": span["stop"]})
    begin = min((span["start"] for span in found), default=0.0)
    for span in found:
        span["start"], span["stop"] = ((span[k] - begin) * 1e3 for k in ("start", "stop"))
    return found


def draw(record: dict[str, Any]) -> Any:
    """Efficiency and seconds by workers, measured and predicted, and the task stream.

    A record of predictions alone has no measured lines, and no stream. A stream that none of the
    measured solves can have had is left out.
    """
    from matplotlib.figure import Figure

    rows = [row for row in record["cases"] if "rows" in row]
    rows += _of_more_workers(record, rows)
    parts = [part for part in SCALED if any(_part(row) == part for row in rows)]
    spans = _measured_spans(record)
    heights = [3, 3, 2] if spans else [3, 3]
    figure = Figure(figsize=(max(8, 3.4 * len(parts)), 1.2 * sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(heights), max(1, len(parts)), height_ratios=heights)
    for column, part in enumerate(parts):
        own = [row for row in rows if _part(row) == part and row["workers"] <= MOST]
        first, second = (figure.add_subplot(grid[k, column]) for k in (0, 1))
        _lines(first, own, "efficiency", "predicted_efficiency", 1.0)
        _lines(second, own, "median", "predicted", 1e3)
        chunk = max(row["chunk"] for row in own)
        first.set(title=f"{part}: chunks of 2^{chunk.bit_length() - 1}", ylim=(0, 1.1))
        if wanted := BARS.get((part, "arrays")):
            first.axhline(wanted["plan"], color="grey", lw=1, ls="--")
        second.set(xlabel="workers", ylim=(0, None))
        if not column:
            first.set(ylabel="efficiency against one call")
            second.set(ylabel="milliseconds")
    if spans:
        _gantt(figure.add_subplot(grid[2, :]), spans)
    if parts:
        ways = {way_of(row["candidate"]) for row in rows}
        figure.legend(handles=_legend(ways), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _measured_spans(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The task stream, unless it lasts longer than every measured solve.

    Its chunks are short beside theirs: such a stream is of a first solve, which compiles.
    """
    spans = [span for row in record["cases"] for span in row.get("spans", [])]
    lasts = max((span["stop"] for span in spans), default=0.0) / 1e3
    measured = [row["median"] for row in record["cases"] if "workers" in row and "median" in row]
    slowest = max(measured, default=lasts)
    if lasts <= slowest:
        return spans
    print(
        f"The tasks are left out: the stream lasts {lasts * 1e3:.4g} ms, and the slowest measured "
        f"solve {slowest * 1e3:.4g} ms"
    )
    return []


def _of_more_workers(record: dict[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Predictions of measured cases for more workers than were measured."""
    path = RESULTS / record.get("notes", {}).get("predictions", "none")
    known = {(row["case"], row["candidate"]) for row in rows}
    ways = {(row["case"], way_of(row["candidate"])) for row in rows}
    others = read(path)["cases"] if path.is_file() else []
    others = [row for row in others if (row["case"], way_of(row["candidate"])) in ways]
    return [row for row in others if (row["case"], row["candidate"]) not in known]


def _part(row: dict[str, Any]) -> str:
    return str(row["case"].rsplit(", one sequence, ")[0].rsplit(f", {ROWS} rows, ")[0])


def _is(row: dict[str, Any], name: str, way: str) -> bool:
    return row["case"].endswith(f", {name}") and way_of(row["candidate"]) == way


def _lines(axes: Any, rows: list[dict[str, Any]], key: str, predicted: str, scale: float) -> None:
    """One sequence as lines, many rows as crosses, predictions of one sequence dotted."""
    rows = sorted(rows, key=lambda row: row["workers"])
    for (name, colour), (way, (style, cross)) in product(COLOUR_OF.items(), STYLES.items()):
        own = [row for row in rows if _is(row, name, way)]
        one, many = ([r for r in own if (r["rows"] == 1) == is_one] for is_one in (True, False))
        for some, value, how in ((one, key, style), (many, key, cross), (one, predicted, ":")):
            found = [(r["workers"], r[value] * scale) for r in some if r.get(value) is not None]
            if found:
                axes.plot(*zip(*found, strict=True), how, color=colour, ms=5, lw=2)
    counts = sorted({row["workers"] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts], minor=False)
    axes.grid(alpha=0.3)


def _legend(ways: set[str]) -> list[Any]:
    from matplotlib.lines import Line2D

    found = [Line2D([], [], color=each, label=name, lw=4) for name, each in COLOUR_OF.items()]
    styles = {way: STYLES[way] for way in STYLES if way in ways}
    labels = {style: way for way, (style, _) in styles.items()}
    labels |= {cross: f"{ROWS} rows, {way}" for way, (_, cross) in styles.items()}
    labels[":"] = "predicted before"
    for style, label in labels.items():
        line, marker = style.strip("os^x1+"), style.strip("-.:")
        found.append(Line2D([], [], color="black", label=label, ls=line, marker=marker, ms=5))
    return found


def _gantt(axes: Any, spans: list[dict[str, Any]]) -> None:
    for span in spans:
        colour = COLOURS.get(span["task"], "#bbbbbb")
        colour = colour if span["action"] == "compute" else "#cc3311"
        axes.barh(span["worker"], span["stop"] - span["start"], left=span["start"], color=colour)
    axes.set_yticks(sorted({span["worker"] for span in spans}))
    axes.set(xlabel="milliseconds", ylabel="worker", title="tasks of one solve (red: transfers)")
