"""The tables of a result: our figures beside the paper's, and a sentence on each difference."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from ..curves import Rows, cell, curve, figure_of, finish, head, ratios, rows_of, section
from . import printed
from .printed import AGAIN, ALL, AUTO, NONE, PART, PCR, REDUCTION, STORED, THOMAS, Table

PAPER = "Pogorelskih and Loganova (2019)"
MACHINES = (
    "The paper: a GPU of the supercomputer Sergey Korolev, number type not said. Here: float32, "
    "operands and result in the device's memory, caches flushed; a CPU's loops are one numba "
    "thread, measured with few systems, their times in proportion to the number of systems."
)

COLOURS = {
    "CPU Thomas": "0.3", "CPU": "0.6", "Thomas": "C2", "SERICR computed": "C4", "SERICR": "C5",
    "PARACR": "C3", PCR: "C3", REDUCTION: "C9", printed.P_SCHEME: "C1", AUTO: "C0",
}  # fmt: skip
LINES = {"global": ":", "part": "--", "all": "-.", "CPU": "--"}


def tables(record: dict[str, Any]) -> str:
    """The text of a result file."""
    rows = record["cases"]
    lines = [*head(record), MACHINES, ""]
    for table in printed.TABLES:
        lines += accelerations(rows, table)
    lines += seconds(rows) + batches(rows) + single(rows) + summary(rows)
    return finish(lines, record)


def times(rows: Rows, part: str, candidate: str, by: str) -> dict[int, float]:
    """Seconds of a candidate by systems or rows."""
    return curve(rows, by, part=part, candidate=candidate)


def accelerations(rows: Rows, table: Table) -> list[str]:
    """One of tables 1 to 3."""
    base = times(rows, "batch", table.base, "systems")
    ours = {name: ratios(base, times(rows, "batch", name, "systems")) for name in table.columns}
    title = f"{PAPER}, table {table.number}: acceleration over {table.base}"
    return [
        *section(title, "systems", ours, table.columns),
        *(f"- {text}" for text in _differences(rows, table)), "",
    ]  # fmt: skip


def _ratio(rows: Rows, over: str, under: str, part: str = "batch", by: str = "systems") -> Any:
    """The median ratio of two candidates' times; None where it was not measured."""
    found = ratios(times(rows, part, over, by), times(rows, part, under, by))
    return median(found.values()) if found else None


def _differences(rows: Rows, table: Table) -> Iterator[str]:
    """Sentences on a table of accelerations."""
    first, *_ = table.columns
    if base := _ratio(rows, table.base, first):
        theirs = median(table.columns[first].values())
        yield (
            f"{first} is {base:.3g} times as fast as {table.base} here, {theirs:.3g} times in the "
            f"paper{_by_unknown(rows, first, table.base)}."
        )
    yield from {1: _on_thomas, 2: _on_sericr, 3: _on_paracr}[table.number](rows)


def _by_unknown(rows: Rows, name: str, base: str) -> str:
    """Nanoseconds an unknown, where the paper prints seconds."""
    if name not in printed.SECONDS:
        return ""
    ours = (times(rows, "batch", each, "systems") for each in (name, base))
    told = [
        f"{median(value / count for count, value in each.items()) / printed.ROWS * 1e9:.2g}"
        for each in (*ours, printed.SECONDS[name])
    ]
    return (
        f": {told[0]} ns an unknown, without transfers between host and device, against {told[2]} "
        f"ns in table 4, where the loop on this CPU takes {told[1]} ns"
    )


def _on_thomas(rows: Rows) -> Iterator[str]:
    if gain := _ratio(rows, printed.THOMAS_GLOBAL, THOMAS):
        yield (
            f"Shared memory makes Thomas {gain:.3g} times as fast here, 1.47 times in the paper: "
            f"without it neighbouring threads read {4 * printed.ROWS:,} bytes apart, with it a "
            f"warp reads 128 bytes of a system at once, and the next ones are under way meanwhile."
        )


def _on_sericr(rows: Rows) -> Iterator[str]:
    if gain := _ratio(rows, printed.AGAIN_GLOBAL, AGAIN):
        yield (
            f"Shared memory makes SERICR {gain:.3g} times as fast here, with levels of up to 64 "
            f"rows there; 1.3 to 1.6 times in the paper, which does not say what it keeps there."
        )
    stored, block = (_ratio(rows, AGAIN, STORED), _ratio(rows, STORED, REDUCTION))
    if stored and block:
        yield (
            f"The paper computes levels again, since its GPU's memory does not hold them; here it "
            f"does, and storing them is {stored:.3g} times as fast. A block a system in place of a "
            f"thread, mgrec's method, is {block:.3g} times as fast as that."
        )


def _on_paracr(rows: Rows) -> Iterator[str]:
    everything, part = (_ratio(rows, NONE, ALL), _ratio(rows, NONE, PART))
    if everything and part:
        yield (
            f"Against PARACR in global memory, all rows in shared memory are {everything:.3g} "
            f"times as fast here (0.61 in the paper), part of them {part:.3g} times (1.02). Here "
            f"global memory means a launch a level that reads and writes all rows of all systems, "
            f"which no cache holds, and part means b and the right-hand side; the paper says of "
            f"neither what it is."
        )


def seconds(rows: Rows) -> list[str]:
    """Table 4."""
    ours = {name: times(rows, "batch", name, "systems") for name in printed.SECONDS}
    lines = section(f"{PAPER}, table 4: seconds", "systems", ours, printed.SECONDS)
    if ratio := _ratio(rows, PART, THOMAS):
        lines.append(
            f"- Thomas is {ratio:.3g} times as fast as PARACR here, 6.3 times in the paper: it "
            f"does 9 operations an unknown, PARACR 12 on each of twelve levels, but reads operands "
            f"once where Thomas reads and writes nine numbers an unknown."
        )
    return [*lines, ""]


def batches(rows: Rows) -> list[str]:
    """All candidates, in nanoseconds an unknown."""
    return _all(rows, "batch", "systems", "All methods, many systems")


def single(rows: Rows) -> list[str]:
    """Figure 2."""
    lines = methods(rows, f"{PAPER}, figure 2: one system of growing size")
    thomas = times(rows, "single", THOMAS, "rows")
    best = times(rows, "single", PART, "rows") | times(rows, "single", PCR, "rows")
    if found := ratios(thomas, best):
        least, most = min(found), max(found)
        lines.append(
            f"- PARACR is {found[least]:.3g} times as fast as Thomas with {least:,} rows and "
            f"{found[most]:.3g} times with {most:,}; {printed.ONE_SYSTEM:g} times in the paper. "
            f"Thomas has one thread of a GPU, PARACR all of them, and GPUs have more now."
        )
    return [*lines, ""]


def methods(rows: Rows, title: str) -> list[str]:
    """One system by all methods, in nanoseconds an unknown."""
    return _all(rows, "single", "rows", title)


def summary(rows: Rows) -> list[str]:
    """What the study comes to."""
    many, one = (_ratio(rows, each, AUTO) for each in (THOMAS, PART))
    alone = _ratio(rows, PCR, AUTO, "single", "rows")
    first = _ratio(rows, PART, THOMAS)
    if not (many and one and alone and first):
        return []
    agrees = "agrees with" if first > 1 else "contradicts"
    return [
        "## What agrees, what changed, what `auto` does", "",
        f"That a thread a system beats reduction where systems are many {agrees} these figures: "
        f"Thomas is {first:.3g} times as fast as PARACR. What changed: the memory now holds all "
        f"levels of a reduction, so computing them again no longer pays, and where the paper has "
        f"a thread a system, 'auto' cuts every system into partitions, reads the operands once "
        f"and keeps them on the chip: {many:.3g} times as fast as the best Thomas and {one:.3g} "
        f"times as fast as PARACR with many systems, {alone:.3g} times as fast as PCR with one, in "
        f"the medians of all sizes. Unlike all methods of the paper it pivots where it must.", "",
    ]  # fmt: skip


def _all(rows: Rows, part: str, by: str, title: str) -> list[str]:
    """A line a method, a column a size."""
    own = rows_of(rows, part=part)
    if not own:
        return []
    sizes = sorted({row[by] for row in own})
    columns = " | ".join(f"{size:,}" for size in sizes)
    lines = [f"## {title}", "", f"| ns an unknown, by {by} | {columns} |"]
    lines.append("|---" * (1 + len(sizes)) + "|")
    for name in dict.fromkeys(row["candidate"] for row in own):
        found = {row[by]: row["median"] / row["steps"] for row in rows_of(own, candidate=name)}
        cells = [cell(found.get(size), 1e9) for size in sizes]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]


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
