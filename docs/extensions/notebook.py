"""Replace a line ``{notebook}`path``` by the cells of that notebook, and by what they show.

The cells run here, on the processors of a machine without GPUs.
"""

import ast
import io
import json
import re
from base64 import b64encode
from contextlib import redirect_stderr, redirect_stdout
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
        return "\n\n".join(as_markdown(json.loads(path.read_text())["cells"]))

    source[0] = _LINE.sub(cells_of, source[0])


def as_markdown(cells: list[dict[str, Any]]) -> list[str]:
    """Return the cells as Markdown, without the title of the notebook: the page has a title."""
    import matplotlib as mpl

    mpl.use("agg")
    scope: dict[str, Any] = {"__name__": "__main__"}
    parts = []
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            parts += [f"```python\n{text}\n```", *_shown(text, scope)]
        else:
            parts.append("\n".join(x for x in text.splitlines() if not x.startswith("# ")))
    return parts


def _shown(code: str, scope: dict[str, Any]) -> list[str]:
    """Run a cell; return what it prints, the value of its last line and its figures."""
    from matplotlib import pyplot as plt

    tree, value, printed = ast.parse(code), None, io.StringIO()
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        exec(compile(tree, "<notebook>", "exec"), scope)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<notebook>", "eval"), scope)
    text = printed.getvalue() + ("" if value is None else repr(value))
    parts = [f"```text\n{text.rstrip()}\n```"] if text.strip() else []
    for number in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, format="png", dpi=110)
        data = b64encode(picture.getvalue()).decode()
        parts.append(f"![What the cell above draws](data:image/png;base64,{data})")
    plt.close("all")
    return parts
