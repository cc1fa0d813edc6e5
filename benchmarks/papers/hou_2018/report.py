"""The tables of a result, and a sentence on each difference from the paper."""

from __future__ import annotations

from math import log2
from statistics import median
from typing import Any

from ..curves import Rows, cell, figure_of, finish, head, ratios, rows_of, section

LOOPS = ("SAT", "SW", "SOR")
STRATEGIES = ("compensation", "tiles", "hyperplane", "hybrid")
COLOURS = {"compensation": "C0", "tiles": "C1", "hybrid": "C2", "hyperplane": "C3"}
PAIRS = ("∘ ≠ ◇", "∘ = ◇")
PAPER = (
    "The paper: K. Hou, H. Wang, W. Feng, J. S. Vetter, S. Lee, IPDPS 2018, on a Tesla K80 and a "
    "P100. Its figures have no numbers in their text. Here all three loops are calls of "
    "`mgrec.wavefront`, checks and the choice of a cut included, of operands in memory of the "
    "device, caches flushed."
)


def tables(record: dict[str, Any]) -> str:
    """The text of a result file."""
    lines = [*head(record), PAPER, ""]
    for name in LOOPS:
        lines += loop_table(of_part(record["cases"], name), name, record["copy_bandwidth"])
    for pair in PAIRS:
        lines += scan_table(of_part(record["cases"], pair), pair)
    lines += summary(record["cases"])
    return finish(lines, record)


def of_part(rows: Rows, part: str) -> Rows:
    return rows_of(rows, part=part)


def candidates(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["candidate"] for row in rows))


def times(rows: Rows, by: str) -> dict[str, dict[int, float]]:
    """Seconds of every candidate by rows of the grid, or by size."""
    found: dict[str, dict[int, float]] = {name: {} for name in candidates(rows)}
    for row in rows:
        found[row["candidate"]][row[by]] = row["median"]
    return found


def loop_table(rows: Rows, name: str, bandwidth: float) -> list[str]:
    """Milliseconds by shape, what the hybrid picked, and its fraction of the floor."""
    if not rows:
        return []
    found, names = times(rows, "rows"), candidates(rows)
    columns = " | ".join(names)
    lines = [f"## {name}, milliseconds", "", f"| rows x columns | {columns} | picked | fraction |"]
    lines.append("|---" * (len(names) + 3) + "|")
    for row in (row for row in rows if row["candidate"] == "hybrid"):
        cells = [cell(found[each].get(row["rows"]), 1e3) for each in names]
        fraction = row["bytes"] / bandwidth / row["median"]
        shape = f"{row['rows']:,} x {row['columns']:,}"
        lines.append(f"| {shape} | {' | '.join(cells)} | {row['picked']} | {fraction:.3f} |")
    return [*lines, "", *on_loop(found), ""]


def on_loop(found: dict[str, dict[int, float]]) -> list[str]:
    """Where one strategy beats the other, and how near the hybrid is to the better one."""
    rows, tiles, hybrid = (found.get(name, {}) for name in ("compensation", "tiles", "hybrid"))
    shared = sorted(rows.keys() & tiles.keys() & hybrid.keys())
    if not shared:
        return []
    gain = {each: tiles[each] / rows[each] for each in shared}
    worst = max(hybrid[each] / min(rows[each], tiles[each]) for each in shared)
    planes = found.get("hyperplane", {})
    losses = [planes[each] / tiles[each] for each in shared if each in planes]
    return [
        f"- Compensation is {gain[shared[0]]:.3g} times as fast as tiles with {shared[0]:,} rows "
        f"and {gain[shared[-1]]:.3g} times with {shared[-1]:,}. In the paper tiles wait on a "
        f"barrier for every antidiagonal, and compensation on one for every row; here a strip "
        f"waits for the one before it alone.",
        f"- The hybrid takes at most {worst:.3g} times as long as the better of both.",
        *(
            f"- Hyperplanes take {min(losses):.3g} to {max(losses):.3g} times as long as tiles, "
            f"with the copies to their layout and back; the paper says of diamond tiles that these "
            f"are not negligible."
            for _ in losses[:1]
        ),
    ]


def scan_table(rows: Rows, pair: str) -> list[str]:
    """Nanoseconds a step by size."""
    found, names = times(rows, "size"), candidates(rows)
    speeds = {
        name: {size: seconds * 1e9 / size for size, seconds in found[name].items()}
        for name in names
    }
    title = f"Weighted scan, {pair}, nanoseconds a step"
    return [*section(title, "steps", speeds), *on_scan(found), ""]


def on_scan(found: dict[str, dict[int, float]]) -> list[str]:
    own = found.get("inclusive", {})
    others = [name for name in found if name not in ("inclusive", "weighted_scan")]
    lines = []
    for name in others:
        gains = [found[name][size] / own[size] for size in own.keys() & found[name].keys()]
        if gains:
            lines.append(
                f"- The inclusive scan is {median(gains):.3g} times as fast as {name} in the "
                f"median of all sizes, {max(gains):.3g} times at best. The paper compares with "
                f"Thrust and ModernGPU and a comparator of its own."
            )
    return lines


def summary(rows: Rows) -> list[str]:
    """What the study comes to."""
    told = []
    for name in LOOPS:
        own = times(of_part(rows, name), "rows")
        tiles, strips = own.get("tiles", {}), own.get("compensation", {})
        function = next((each for each in own if each not in STRATEGIES), None)
        if not (tiles and strips and function):
            continue
        wins = sum(strips[each] < tiles[each] for each in tiles.keys() & strips.keys())
        gains = ratios(own.get("hybrid", {}), own[function])
        told.append(
            f"{name}: compensation wins in {wins} of {len(tiles)} shapes, and `{function}`, which "
            f"is made for this loop alone, is {median(gains.values()):.3g} times as fast as the "
            f"hybrid in their median"
        )
    if not told:
        return []
    return [
        "## What agrees, what changed, what `auto` does", "",
        "The paper finds that compensation pays where rows are long and antidiagonals short, "
        "and picks by the shape. " + ". ".join(told) + ". What changed: blocks of today's GPUs "
        "wait for each other inside one launch, so neither strategy has a barrier a row or a "
        "diagonal, and the shape decides less than it did. mgrec's hybrid picks by shape and "
        "operators, and says what it picked.", "",
    ]  # fmt: skip


def draw(record: dict[str, Any]) -> Any:
    """Four panels."""
    figure, panels = figure_of(record, "", 2, 2, (10, 8))
    *upper, scans = panels.ravel()
    for axes, name in zip(upper, LOOPS, strict=True):
        _draw_loop(axes, of_part(record["cases"], name), name)
    for pair, line in zip(PAIRS, ("-", "--"), strict=True):
        _draw_scans(scans, of_part(record["cases"], pair), pair, line)
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
