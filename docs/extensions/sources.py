"""Pages of source code without links back.

viewcode remembers one public module a file of code: of classes that functions return, which are
documented by their own module, it makes links to places that are not there.
"""

import re
from typing import Any

_BACK = re.compile(r'<a class="viewcode-back".*?</a>')


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", _without_links_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _without_links_back(
    _app: Any, name: str, _template: str, page: dict[str, Any], _tree: Any
) -> None:
    if name.startswith("_modules/"):
        page["body"] = _BACK.sub("", page["body"])
