"""Replace a line ``{headline}`` by the numbers of the README, with links to the report."""

import re
from typing import Any

_LINE = re.compile(r"^\{headline\}$", re.MULTILINE)
_LINK = re.compile(r"\[([^]]+)\]\(benchmarks/results/([^)]+)\.json\)")


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _insert)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _insert(app: Any, name: str, source: list[str]) -> None:
    if not _LINE.search(source[0]):
        return
    from benchmarks.published import readme
    from benchmarks.published.rows import newest

    numbers = _LINK.sub(r'<a href="report.html#\2">\1</a>', readme.numbers())
    for study in readme.STUDIES:
        app.env.note_dependency(str(newest(study).path))
    source[0] = _LINE.sub(lambda _: numbers, source[0])
