"""Turn a line ``<!-- search: moving average, EMA -->`` into entries of the index.

The search puts a page with such an entry before all pages that only contain its words.
"""

import re
from typing import Any

_LINE = re.compile(r"^<!-- search: (.+) -->$", re.MULTILINE)


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _insert)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def keywords(text: str) -> list[str]:
    """Return the words of all such lines of a page."""
    return [word for line in _LINE.findall(text) for word in line.split(", ")]


def _insert(app: Any, name: str, source: list[str]) -> None:
    entries = ", ".join(f"! {word}" for word in keywords(source[0]))
    source[0] = _LINE.sub(f"```{{index}} {entries}\n```", source[0])
