"""All stored results on one page: ``python -m benchmarks.published.report``.

Pictures are embedded; a result without one gets a dot a candidate and a line a case. Tables are
those that the study wrote, or its rows as they are.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ..harness import records
from ..harness.command import Options, parser_of
from . import dots
from .captions import line_of
from .rows import Result, read

TEMPLATE = Path(__file__).with_name("report.html.j2")
_WIDE = '<div class="wide"><table>{}</table></div>'


@dataclass(frozen=True)
class Section:
    """What the page shows of a result."""

    name: str
    study: str
    machine: str
    date: str
    versions: str
    note: str
    bars: str
    line: str
    picture: str
    tables: str


def render(folder: Path = records.RESULTS) -> str:
    """The page, studies in the order of their names."""
    from jinja2 import Environment

    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise FileNotFoundError(f"there are no results in {folder}")
    template = Environment(autoescape=True).from_string(TEMPLATE.read_text())
    return template.render(results=[section(path) for path in paths])


def section(path: Path) -> Section:
    record, result = records.read(path), read(path)
    study = str(record["study"]).replace("_", "-")
    bars = record.get("bars") or []
    return Section(
        name=path.stem,
        study=study,
        machine=result.machine,
        date=result.date,
        versions=_versions(record),
        note=result.note,
        bars=f"{sum(bar['met'] for bar in bars)} of {len(bars)}" if bars else "",
        line=line_of(study),
        picture=_picture(path, result),
        tables=_tables(path, record),
    )


def _versions(record: dict[str, Any]) -> str:
    found = record.get("versions", {})
    known = [f"{name} {each}" for name, each in found.items() if each != "not installed"]
    return ", ".join([f"mgrec {str(record.get('commit', ''))[:12]}", *known])


def _picture(path: Path, result: Result) -> str:
    own = path.with_suffix(".png")
    picture = own.read_bytes() if own.is_file() else dots.draw(result)
    return b64encode(picture).decode() if picture else ""


def _tables(path: Path, record: dict[str, Any]) -> str:
    """The study's own tables; each may be scrolled by itself."""
    from markdown_it import MarkdownIt

    text = path.with_suffix(".md")
    if not text.is_file():
        return _table(record.get("rows") or record["cases"])
    page = MarkdownIt("commonmark", {"html": False}).enable("table").render(text.read_text())
    page = page.replace("<h2>", "<h3>").replace("</h2>", "</h3>").split("</h1>")[-1]
    return re.sub(r"<table>(.*?)</table>", lambda found: _WIDE.format(found[1]), page, flags=re.S)


def _table(rows: list[dict[str, Any]]) -> str:
    heads = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["".join(f"<td>{escape(_cell(row.get(name)))}</td>" for name in heads) for row in rows]
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return _WIDE.format(f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


OPTIONS: Options = {
    "--results": {"type": Path, "default": records.RESULTS, "help": "folder of results"},
    "--out": {"type": Path, "default": Path("mgrec-report.html"), "help": "the page"},
}


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__, OPTIONS)
    given = parser.parse_args(arguments)
    try:
        page = render(given.results)
    except FileNotFoundError as error:
        parser.error(str(error))
    given.out.write_text(page)
    print(given.out)


if __name__ == "__main__":
    main()
