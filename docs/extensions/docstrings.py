"""Prepare docstrings for Sphinx: escape formulas, and move citations out of summaries."""

import re
from itertools import groupby
from typing import Any

_CODE = re.compile(r"(``.*?``)")
_RELATION = re.compile(r" [=≤<] ")
_CITED = re.compile(r"\s*(\[\d+\]_)")


def setup(app: Any) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.autodoc")
    # Before numpydoc (500), which renames citations; and after it.
    app.connect("autodoc-process-docstring", _cite_below, priority=400)
    app.connect("autodoc-process-docstring", _escape_formulas, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _cite_below(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Move citations from the summary, which tables of contents show, into a line below it."""
    end = lines.index("") if "" in lines else len(lines)
    cited = _CITED.findall(" ".join(lines[:end]))
    if cited:
        summary = [_CITED.sub("", line) for line in lines[:end]]
        lines[:end] = [*summary, "", f"See {', '.join(cited)}."]


def _escape_formulas(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    """Keep the lines of formulas apart, and escape ``|s_i|``, which is not a substitution."""
    blocks = [
        [*block] for _, block in groupby(lines, key=lambda line: bool(line.strip()))
    ]  # blocks of text alternate with blocks of empty lines
    lines[:] = [line for block in blocks for line in _as_read(block)]


def _as_read(block: list[str]) -> list[str]:
    if block[0].lstrip().startswith(">>>"):
        return block
    block = [_escaped(line) for line in block]
    # Sphinx would join the lines of a block quote of equations to one sentence.
    if all(line.startswith("    ") and _RELATION.search(line) for line in block):
        return [f"    | {line[4:]}" for line in block]
    return block


def _escaped(line: str) -> str:
    parts = _CODE.split(line)
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    return "".join(parts)
