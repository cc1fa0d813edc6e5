"""Write the report of all stored results to ``report.html``."""

from pathlib import Path
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Any, error: Exception | None) -> None:
    from benchmarks.published.report import render

    if error is None and app.builder.format == "html":
        Path(app.outdir, "report.html").write_text(render())
