"""``--report``: what the workers did and when, as a page for a browser."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client, performance_report

from . import hints
from .failure import BadInput
from .output import check_output, in_place_when_complete

HELP = "An HTML page that shows what the workers did and when (needs bokeh)."


def check_report(path: Path | None) -> None:
    """Raise unless a report can be written to `path`, or none is wanted."""
    if path is None:
        return
    check_output(path, overwrite=True)
    if importlib.util.find_spec("bokeh") is None:
        raise BadInput(f"--report needs bokeh: {hints.install('report')}")


@contextmanager
def reported(path: Path | None, client: Client) -> Iterator[None]:
    """Write Dask's performance report of what is computed, or fails, inside, if one is wanted.

    A report that cannot be finished leaves no file.
    """
    if path is None:
        yield
        return
    failed = None
    with (
        in_place_when_complete(path) as part,
        client.as_current(),
        performance_report(filename=str(part)),
    ):
        try:
            yield
        except BaseException as error:
            failed = error
    if failed is not None:
        raise failed
