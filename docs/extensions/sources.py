"""Remove the links from pages of source code back to the reference.

viewcode stores one public module for each file. For a class that another module documents, its link
has no target.
"""

import re
from typing import Any

_BACK = re.compile(r'<a class="viewcode-back".*?</a>')


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", _without_links_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _without_links_back(_app: Any, name: str, _template: str, page: dict[str, Any], _tree: Any) -> None:
    if name.startswith("_modules/"):
        page["body"] = _BACK.sub("", page["body"])
