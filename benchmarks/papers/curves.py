"""Curves of measured times: rows of a record as tables and panels of a paper's study."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median
from typing import Any

Rows = list[dict[str, Any]]
Curve = dict[int, float]


def render(template: str, record: dict[str, Any], **values: Any) -> str:
    """Return the text of a result by a template of this folder.

    In templates a line that begins with spaces continues the line before.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"g": "{:.3g}".format, "n": "{:,.0f}".format}
    environment.filters |= {"all": all, "each": each, "median": median}
    environment.globals |= {"section": section, "ratios": ratios, "rows_of": rows_of}
    values |= {"record": record, "rows": record["cases"]}
    text = re.sub(r"\n +(?=\S)", " ", environment.get_template(template).render(values))
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def each(values: Any, text: str = "{}", between: str = ", ") -> str:
    """Format each of some values, and join them."""
    return between.join(text.format(value) for value in values)


def rows_of(rows: Rows, **wanted: Any) -> Rows:
    """Those rows whose entries are as wanted."""
    return [row for row in rows if all(row.get(key) == wanted[key] for key in wanted)]


def curve(rows: Rows, by: str, **wanted: Any) -> Curve:
    """Seconds by one of the rows' entries."""
    return {row[by]: row["median"] for row in rows_of(rows, **wanted) if by in row}


def ratios(over: Curve, under: Curve) -> Curve:
    return {key: over[key] / under[key] for key in over if key in under}


def cell(value: float | None, scale: float = 1.0) -> str:
    return "-" if value is None else f"{value * scale:.3g}"


def grid(first: str, columns: dict[str, Curve], scale: float = 1.0) -> str:
    """A table: a line a key of the curves, a column a curve."""
    lines = [f"| {first} | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for key in sorted({key for column in columns.values() for key in column}):
        cells = [cell(column.get(key), scale) for column in columns.values()]
        lines.append(f"| {key:,} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def section(
    title: str, first: str, ours: dict[str, Curve], theirs: dict[str, Curve] | None = None, scale: float = 1.0
) -> str:
    """A table under its title, our columns beside the paper's; nothing if nothing was measured."""
    if not any(ours.values()):
        return ""
    if theirs is not None:
        ours = {
            f"{name}, {who}": each.get(name, {})
            for name in theirs
            for who, each in (("paper", theirs), ("here", ours))
        }
    return f"## {title}\n\n{grid(first, ours, scale)}"


def figure_of(record: dict[str, Any], title: str, rows: int, columns: int, size: Any) -> Any:
    """A figure with the GPU and the date in its title, and its panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    gpus = "; ".join(record["machine"]["gpus"]) or record["machine"]["processor"]
    figure.suptitle(f"{title}{gpus}, {record['date'][:10]}")
    return figure, figure.subplots(rows, columns)


def plot(panel: Any, found: Curve, name: str, line: str = "-", **style: Any) -> None:
    """Draw a curve, if anything was measured."""
    if found:
        panel.plot(list(found), list(found.values()), line, marker=".", label=name, **style)


def label(panel: Any, title: str, x: str, y: str) -> None:
    """Scales, names and a legend; a panel without curves is not shown."""
    panel.set_visible(bool(panel.lines))
    if not panel.lines:
        return
    panel.set_xscale("log", base=2)
    panel.set(yscale="log", xlabel=x, ylabel=y)
    panel.set_title(title, fontsize=9)
    panel.grid(alpha=0.3)
    panel.legend(fontsize=6)
