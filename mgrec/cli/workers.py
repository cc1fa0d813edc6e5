"""Which worker it is that lacks a file or a package."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager

from distributed import get_worker


@contextmanager
def told(path: str) -> Iterator[None]:
    """Name the worker, and what it lacks, in errors of opening a file."""
    try:
        yield
    except ModuleNotFoundError as error:
        wanted = f"{_here()} lacks the package {error.name}, which {path} needs: install it there"
        raise ModuleNotFoundError(wanted, name=error.name) from None
    except (FileNotFoundError, PermissionError) as error:
        what = "may not open" if isinstance(error, PermissionError) else "does not see"
        raise type(error)(
            f"{_here()} {what} {path}: files must lie on a file system that every worker sees, "
            f"under one path"
        ) from None


def _here() -> str:
    try:
        return f"worker {get_worker().address} on {platform.node()}"
    except ValueError:
        return f"this process on {platform.node()}"
