"""An output gets its name when it is complete, or never."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from . import signals
from .failure import BadInput
from .places import Place, Remote, kind_of


def check_output(path: Place, overwrite: bool) -> None:
    """Raise unless `path` can be written to."""
    if kind_of(path) != path.suffix:
        raise BadInput(f"{path} must be a store of its own: none is written into a group")
    if isinstance(path, Remote):
        _check_remote(path, overwrite)
        return
    if not path.parent.is_dir():
        raise BadInput(f"the folder of {path} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise BadInput(f"the folder of {path} must be writable")
    if path.exists() and not overwrite:
        raise BadInput(f"{path} exists: pass --overwrite to replace it")
    if path.exists() and path.is_dir() != (path.suffix == ".zarr"):
        raise BadInput(f"{path} is {'a folder' if path.is_dir() else 'a file'}: remove it first")
    if path.is_dir() and not _is_array(path):
        raise BadInput(f"{path} is not a zarr array, or holds more than one: remove it first")


def _check_remote(place: Remote, overwrite: bool) -> None:
    if place.suffix != ".zarr":
        raise BadInput(f"{place} must end in .zarr: other files cannot be written there in parts")
    if place.exists() and not overwrite:
        raise BadInput(f"{place} exists: pass --overwrite to replace it")
    if place.exists() and not _is_array(place):
        raise BadInput(f"{place} is not a zarr array, or holds more than one: remove it first")


def _is_array(folder: Place) -> bool:
    """Whether a folder is the store of one array: to replace it removes all in it."""
    import zarr

    try:
        return isinstance(zarr.open(str(folder), mode="r"), zarr.Array)
    except (OSError, ValueError, KeyError):
        return False


@contextmanager
def in_place_when_complete(path: Place) -> Iterator[Any]:
    """Yield a temporary path, where the body creates a file or a folder.

    It replaces `path` if the body succeeds, and is removed if the body raises anything. A URL has
    no other name meanwhile: most object stores cannot rename.
    """
    if isinstance(path, Remote):
        with _removed_unless_complete(path):
            yield path
        return
    path = path.absolute()
    part = path.with_name(f".{path.stem}.{uuid4().hex[:8]}.part{path.suffix}")
    try:
        yield part
        _flush(part)
        # A signal that comes now comes too late.
        with signals.held_back():
            _move(part, path)
    except BaseException:
        with signals.held_back():
            _remove(part)
        raise


@contextmanager
def _removed_unless_complete(place: Remote) -> Iterator[None]:
    place.remove()
    try:
        yield
    except BaseException:
        with signals.held_back():
            place.remove()
        raise


def _flush(part: Path) -> None:
    """Write to the disk before the move: a power cut must not leave an empty file."""
    for path in [part, *part.rglob("*")] if part.is_dir() else [part]:
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _move(part: Path, path: Path) -> None:
    if not path.is_dir():
        os.replace(part, path)
        return
    # A folder that is not empty cannot be replaced: it is renamed first.
    aside = path.with_name(f".{path.stem}.{uuid4().hex[:8]}.old{path.suffix}")
    os.rename(path, aside)
    try:
        os.rename(part, path)
    except BaseException:
        os.rename(aside, path)
        raise
    _remove(aside)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
