"""Replace a line ``{notebook}`path``` by the cells of that notebook, which the tests run."""

import json
import re
from pathlib import Path
from typing import Any

_LINE = re.compile(r"^\{notebook\}`(.+)`$", re.MULTILINE)


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _insert)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _insert(app: Any, name: str, source: list[str]) -> None:
    def cells_of(match: re.Match[str]) -> str:
        path = (Path(app.srcdir) / name).parent / match[1]
        app.env.note_dependency(str(path.resolve()))
        return "\n\n".join(_as_markdown(cell) for cell in json.loads(path.read_text())["cells"])

    source[0] = _LINE.sub(cells_of, source[0])


def _as_markdown(cell: dict[str, Any]) -> str:
    """Return a cell without the title of the notebook, because the page has a title."""
    text = "".join(cell["source"])
    if cell["cell_type"] == "code":
        return f"```python\n{text}\n```"
    return "\n".join(line for line in text.splitlines() if not line.startswith("# "))
