"""The tables of a result: our figures beside the papers', and a sentence on each difference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median
from typing import Any

from . import printed
from .printed import (
    AGAIN,
    AGAIN_GLOBAL,
    ALL,
    AUTO,
    CPU_LOOP,
    NONE,
    P_SCHEME,
    PART,
    PCR,
    REDUCTION,
    STORED,
    THOMAS,
    THOMAS_GLOBAL,
    Table,
)

Rows = list[dict[str, Any]]
PAPER = "Pogorelskih and Loganova (2019)"
MACHINES = (
    "The papers: a GPU of the supercomputer Sergey Korolev, number type not said (2019); a Tesla "
    "C1060 beside one core of a Phenom II X4 945 (2012). Here: float32, operands and result in the "
    "device's memory, caches flushed; a CPU's loops are one numba thread, measured with few "
    "systems, their times in proportion to the number of systems."
)


def tables(record: dict[str, Any]) -> str:
    """The text of a result file."""
    about, load = record["machine"], record["load"]
    gpus = "; ".join(about["gpus"]) or "no GPU"
    lines = [
        f"# {record['study']}: {gpus}, {about['processor']}, {record['date']}", "",
        f"mgrec {record['commit']}. The machine was {'' if load['quiet'] else 'not '}quiet. "
        f"Copy bandwidth of {record['memory']}: {record['copy_bandwidth'] / 1e9:.4g} GB/s.", "",
        MACHINES, "",
    ]  # fmt: skip
    rows = record["cases"]
    for table in printed.TABLES:
        lines += accelerations(rows, table)
    lines += seconds(rows) + batches(rows) + single(rows) + figure_7(rows)
    for row in record["not_measured"]:
        lines.append(f"- {row['case']}, {row['candidate']}: not measured, because {row['reason']}")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def times(rows: Rows, part: str, candidate: str, by: str) -> dict[int, float]:
    """Seconds of a candidate by systems, rows or threads."""
    found = (row for row in rows if row.get("part") == part and row["candidate"] == candidate)
    return {row[by]: row["median"] for row in found if by in row}


def ratios(over: dict[int, float], under: dict[int, float]) -> dict[int, float]:
    return {key: over[key] / under[key] for key in over if key in under}


def accelerations(rows: Rows, table: Table) -> list[str]:
    """One of tables 1 to 3."""
    base = times(rows, "batch", table.base, "systems")
    ours = {name: ratios(base, times(rows, "batch", name, "systems")) for name in table.columns}
    title = f"## {PAPER}, table {table.number}: acceleration over {table.base}"
    return [
        *_table(title, "systems", table.columns, ours),
        *(f"- {text}" for text in _differences(rows, table)), "",
    ]  # fmt: skip


def _table(
    title: str, first: str, theirs: dict[str, dict[int, float]], ours: dict[str, dict[int, float]]
) -> list[str]:
    """A line a size; two columns a candidate."""
    names = [f"{name}, {who}" for name in theirs for who in ("paper", "here")]
    lines = [title, "", f"| {first} | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
    for size in sorted({size for each in (theirs, ours) for col in each.values() for size in col}):
        values = [each.get(name, {}).get(size) for name in theirs for each in (theirs, ours)]
        cells = [f"{value:.3g}" if value is not None else "-" for value in values]
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
    return [*lines, ""]


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
    if gain := _ratio(rows, THOMAS_GLOBAL, THOMAS):
        yield (
            f"Shared memory makes Thomas {gain:.3g} times as fast here, 1.47 times in the paper: "
            f"without it neighbouring threads read {4 * printed.ROWS:,} bytes apart, with it a "
            f"warp reads 128 bytes of a system at once, and the next ones are under way meanwhile."
        )


def _on_sericr(rows: Rows) -> Iterator[str]:
    if gain := _ratio(rows, AGAIN_GLOBAL, AGAIN):
        yield (
            f"Shared memory makes SERICR {gain:.3g} times as fast here, with levels of up to 64 "
            f"rows there; 1.3 to 1.6 times in the paper, which does not say what it keeps there."
        )
    stored, block = _ratio(rows, AGAIN, STORED), _ratio(rows, STORED, REDUCTION)
    if stored and block:
        yield (
            f"The paper computes levels again, since its GPU's memory does not hold them; here it "
            f"does, and storing them is {stored:.3g} times as fast. A block a system in place of a "
            f"thread, mgrec's method, is {block:.3g} times as fast as that."
        )


def _on_paracr(rows: Rows) -> Iterator[str]:
    everything, part = _ratio(rows, NONE, ALL), _ratio(rows, NONE, PART)
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
    lines = _table(f"## {PAPER}, table 4: seconds", "systems", printed.SECONDS, ours)
    if ratio := _ratio(rows, PART, THOMAS):
        lines.append(
            f"- Thomas is {ratio:.3g} times as fast as PARACR here, 6.3 times in the paper: it "
            f"does 9 operations an unknown, PARACR 12 on each of twelve levels, but reads operands "
            f"once where Thomas reads and writes nine numbers an unknown."
        )
    return [*lines, ""]


def batches(rows: Rows) -> list[str]:
    """All candidates, in nanoseconds an unknown."""
    return ["## All methods, many systems", "", *_all(rows, "batch", "systems"), ""]


def single(rows: Rows) -> list[str]:
    """Figure 2 of the one paper, and the tridiagonal systems of the other."""
    lines = [f"## {PAPER}, figure 2, and Wakatani (2012): one system of growing size", ""]
    lines += [*_all(rows, "single", "rows"), ""]
    thomas = times(rows, "single", THOMAS, "rows")
    best = times(rows, "single", PART, "rows") | times(rows, "single", PCR, "rows")
    if found := ratios(thomas, best):
        least, most = min(found), max(found)
        lines.append(
            f"- PARACR is {found[least]:.3g} times as fast as Thomas with {least:,} rows and "
            f"{found[most]:.3g} times with {most:,}; {printed.ONE_SYSTEM:g} times in the paper. "
            f"Thomas has one thread of a GPU, PARACR all of them, and GPUs have more now."
        )
    schemes = ratios(times(rows, "single", P_SCHEME, "rows"), times(rows, "single", PCR, "rows"))
    if schemes:
        lines.append(
            f"- The three recurrences of P-scheme take {schemes[max(schemes)]:.3g} times as long "
            f"as PCR for {max(schemes):,} rows, {schemes[min(schemes)]:.3g} times for "
            f"{min(schemes):,}: P-scheme's operations grow with N, those of PCR with N·log2(N), "
            f"and these are calls of mgrec with all checks and their waiting."
        )
    if gain := _ratio(rows, PCR, AUTO, "single", "rows"):
        lines.append(f"- 'auto' is {gain:.3g} times as fast as PCR in the median of all sizes.")
    return [*lines, ""]


def _all(rows: Rows, part: str, by: str) -> list[str]:
    own = [row for row in rows if row.get("part") == part]
    sizes = sorted({row[by] for row in own})
    head = " | ".join(f"{size:,}" for size in sizes)
    lines = [f"| ns an unknown, by {by} | {head} |", "|---" * (1 + len(sizes)) + "|"]
    for name in dict.fromkeys(row["candidate"] for row in own):
        found = {row[by]: row["median"] / row["steps"] for row in own if row["candidate"] == name}
        cells = [f"{found[size] * 1e9:.3g}" if size in found else "-" for size in sizes]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def speedups(rows: Rows, steps: int) -> dict[str, dict[int, float]]:
    """Over a CPU's loop, by threads of a block, for figure 7."""
    own = [row for row in rows if row.get("part") == "figure 7" and row["steps"] == steps]
    base = next((row["median"] for row in own if row["candidate"] == CPU_LOOP), None)
    if base is None:
        return {}
    return {
        name: {key: base / value for key, value in times(own, "figure 7", name, "threads").items()}
        for name in (P_SCHEME, PCR)
    }


def figure_7(rows: Rows) -> list[str]:
    lines: list[str] = []
    for steps, series in printed.SPEEDUPS.items():
        theirs = {
            name: dict(zip(printed.THREADS, values, strict=True)) for name, values in series.items()
        }
        ours = speedups(rows, steps)
        title = f"## Wakatani (2012), figure 7: speedup over a CPU, N = {steps:,}, 32 blocks"
        lines += _table(title, "threads a block", theirs, ours)
        if not all(ours.get(name) for name in series):
            continue
        lines += [f"- {_on_figure_7(theirs, ours)}", ""]
    return lines


def _on_figure_7(theirs: dict[str, dict[int, float]], ours: dict[str, dict[int, float]]) -> str:
    best = [
        {name: max(each[name], key=each[name].__getitem__) for name in (P_SCHEME, PCR)}
        for each in (ours, theirs)
    ]
    gain = [
        each[P_SCHEME][own[P_SCHEME]] / each[PCR][own[PCR]]
        for each, own in zip((ours, theirs), best, strict=True)
    ]
    why = ""
    if best[0][P_SCHEME] > best[1][P_SCHEME]:
        why = ": the paper propagates by one thread, mgrec by a warp, and so affords more parts"
    return (
        f"P-scheme at its best is {gain[0]:.3g} times as fast as PCR at its best here, "
        f"{gain[1]:.3g} times in the paper. Its best has {best[0][P_SCHEME]} threads a block here, "
        f"{best[1][P_SCHEME]} there{why}. The paper does not say what PCR solves; here it is the "
        f"same recurrence as a system without a diagonal above, a launch a level."
    )
