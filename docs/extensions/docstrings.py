"""Formulas of docstrings as they stand: ``|s_i|`` is an absolute value, not a substitution."""

import re
from typing import Any

# Code, in double backticks, and what begins a table or an example keeps its bars.
_CODE = re.compile(r"(``.*?``)")


def setup(app: Any) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", _escape, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _escape(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    """Escape bars and the asterisks of ``*arrays``, outside of code and examples."""
    lines[:] = [line if line.lstrip().startswith(">>>") else _escaped(line) for line in lines]


def _escaped(line: str) -> str:
    parts = _CODE.split(line)
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    return "".join(parts)
