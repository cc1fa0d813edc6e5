"""``{notebook}``: the cells of a notebook as text and code, which the tests run."""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("notebook", Notebook)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Notebook(SphinxDirective):
    """Its path is relative to the page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = Path(self.get_source_info()[0]).parent / self.arguments[0]
        self.env.note_dependency(str(path.resolve()))
        lines: list[str] = []
        for cell in json.loads(path.read_text())["cells"]:
            source = "".join(cell["source"])
            is_code = cell["cell_type"] == "code"
            lines += [*(["```python", source, "```"] if is_code else [_lowered(source)]), ""]
        text = "\n".join(lines).splitlines()
        return self.parse_text_to_nodes(
            StringList(text, source=str(path)), allow_section_headings=True
        )


def _lowered(source: str) -> str:
    """Headings one level down; that of the notebook is the page's."""
    return "\n".join(line for line in source.splitlines() if not line.startswith("# "))
