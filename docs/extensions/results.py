"""Tables and numbers of the performance page, from ``benchmarks/results``.

``{results}`` is a table of a study with one row for each case and one column for each candidate:
``name → heading``. A name with ``*`` selects the best of the matching candidates. ``{number}`` is
one number, and ``{picture}`` is a picture of a study.
A number that is not in the results raises an error, so that the page has only measured numbers.
"""

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective, SphinxRole

from benchmarks.published.rows import Result, newest

_RATES = {"fraction", "call fraction", "efficiency", "GCUPS", "GCUPS in a row", "times"}
"""Values of which more is better. Of all others less is better."""


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("results", Table)
    app.add_directive("picture", Picture)
    app.add_role("number", Number())
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def shown(value: float | None) -> str:
    """Format a number with at most three digits, the precision of the clocks."""
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.1g}"
    return f"{float(digits):.5f}".rstrip("0").rstrip(".") if "e" in digits else digits


def _pairs(text: str) -> list[tuple[str, str]]:
    """Parse ``name → heading; name`` into pairs of a name and its heading."""
    pairs = [[part.strip() for part in pair.split(" → ", 1)] for pair in text.split(";")]
    return [(pair[0], pair[-1]) for pair in pairs]


class Table(SphinxDirective):
    """Table of a study; ``cases`` is a regular expression whose groups, if any, are shown."""

    required_arguments = 1
    has_content = False
    option_spec = {  # noqa: RUF012
        "value": _pairs,
        "cases": directives.unchanged,
        "candidates": _pairs,
    }

    def run(self) -> list[nodes.Node]:
        try:
            result = newest(self.arguments[0])
            self.env.note_dependency(str(result.path))
            return self._table(result)
        except LookupError as error:
            raise self.error(str(error)) from None

    def _table(self, result: Result) -> list[nodes.Node]:
        pattern = re.compile(self.options.get("cases", "(.*)"))
        cases = dict.fromkeys(row.case for row in result.rows if pattern.fullmatch(row.case))
        columns = self._columns(result, set(cases))
        rows = {case: [_cell(result, case, *names) for _, *names in columns] for case in cases}
        rows = {case: row for case, row in rows.items() if any(row)}
        for (heading, *_), *cells in zip(columns, *rows.values(), strict=True):
            if not any(cells):
                raise LookupError(f"{result.path.name} has no number for the column {heading!r}")
        headings = ["", *(heading for heading, *_ in columns)]
        body = [[_name(pattern, case), *map(shown, row)] for case, row in rows.items()]
        return [_caption(result), _build_table(headings, body)]

    def _columns(self, result: Result, cases: set[str]) -> list[tuple[str, str, str]]:
        """Return the heading, the candidates and the value of each column."""
        values = self.options.get("value", [("fraction", "fraction")])
        names = dict.fromkeys(row.candidate for row in result.rows if row.case in cases)
        candidates = self.options.get("candidates", [(name, name) for name in names])
        return [
            (
                " ".join(filter(None, (name, value_name if len(values) > 1 else ""))) or value_name,
                candidate,
                value,
            )
            for candidate, name in candidates
            for value, value_name in values
        ]


def _cell(result: Result, case: str, pattern: str, value: str) -> float | None:
    """Return the best of the matching candidates: each peer with its best settings."""
    best = max if value in _RATES else min
    numbers = [
        row.numbers[value]
        for row in result.rows
        if row.case == case and value in row.numbers and fnmatchcase(row.candidate, pattern)
    ]
    return best(numbers, default=None)


def _name(pattern: re.Pattern[str], case: str) -> str:
    match = pattern.fullmatch(case)
    assert match is not None
    return " ".join(filter(None, match.groups())) if match.groups() else case


def _caption(result: Result) -> nodes.paragraph:
    words = f" on {result.machine}" if result.machine else ""
    note = f" {result.note}" if result.note else ""
    parts = nodes.literal(text=result.path.stem), nodes.Text(f"{words}.{note}")
    return nodes.paragraph("", "", *parts, classes=["source"])


def _build_table(headings: list[str], body: list[list[str]]) -> nodes.container:
    group = nodes.tgroup(cols=len(headings))
    group += [nodes.colspec(colwidth=1) for _ in headings]
    group += nodes.thead("", _build_row(headings))
    group += nodes.tbody("", *(_build_row(cells) for cells in body))
    table = nodes.table("", group, classes=["results"])
    return nodes.container("", table, classes=["wide"])


def _build_row(cells: list[str]) -> nodes.row:
    entries = [nodes.entry("", nodes.paragraph(text=cell)) for cell in cells]
    return nodes.row("", *entries)


class Picture(SphinxDirective):
    """Picture of the newest result of a study; the content is its description."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        try:
            path = newest(self.arguments[0]).path.with_suffix(".png")
        except LookupError as error:
            raise self.error(str(error)) from None
        uri = os.path.relpath(path, Path(self.env.doc2path(self.env.docname)).parent)
        return [nodes.image(uri=uri, alt=" ".join(self.content))]


class Number(SphinxRole):
    """``{number}`study | case | candidate | value```; a value may have a factor: ``ms × 1000``."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            study, case, candidate, wanted = (part.strip() for part in self.text.split("|"))
            value, _, factor = wanted.partition(" × ")
            result = newest(study)
            number = result.number(case, candidate, value) * float(factor or 1)
        except (LookupError, ValueError) as error:
            message = self.inliner.reporter.error(f"number: {error}", line=self.lineno)
            return [], [message]
        self.env.note_dependency(str(result.path))
        return [nodes.Text(shown(number))], []
