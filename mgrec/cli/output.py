"""An output gets its name when it is complete, or never."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    target = _target(path)
    if not target.parent.is_dir():
        raise BadInput(f"the folder of {path} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise BadInput(f"the folder of {path} must be writable")
    is_file, is_folder = target.is_file(), target.is_dir()
    if (target.exists() or target.is_symlink()) and not (is_file or is_folder):
        raise BadInput(f"{path} is neither a file nor a folder: remove it first")
    if (is_file or is_folder) and not overwrite:
        raise _exists(path)
    if (is_file or is_folder) and is_folder != (path.suffix == ".zarr"):
        raise BadInput(f"{path} is {'a folder' if is_folder else 'a file'}: remove it first")
    if path.is_dir() and not _is_array(path):
        raise BadInput(f"{path} is not a zarr array, or holds more than one: remove it first")


def _target(path: Path) -> Path:
    """Return where a path leads: links stay, and what they lead to is written or replaced."""
    return Path(os.path.realpath(path))


def _exists(path: Place) -> BadInput:
    return BadInput(f"{path} exists: pass --overwrite to replace it")


def _check_remote(place: Remote, overwrite: bool) -> None:
    if place.suffix != ".zarr":
        raise BadInput(f"{place} must end in .zarr: other files cannot be written there in parts")
    if place.exists() and not overwrite:
        raise _exists(place)
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
def in_place_when_complete(path: Place, overwrite: bool = True) -> Iterator[Any]:
    """Yield the temporary path of an empty file, or for .zarr an empty folder, that the body fills.

    It gets the name `path` if the body succeeds, and is removed if the body raises anything. What
    replaces a file has its mode, and its owner where permitted; meanwhile others cannot read it.
    A URL has no other name meanwhile: most object stores cannot rename.

    Raises
    ------
    BadInput
        Not `overwrite`, and `path` exists at the end.
    """
    if isinstance(path, Remote):
        with _removed_unless_complete(path):
            yield path
        return
    target = _target(path)
    part = _beside(target, f"part{path.suffix}")
    try:
        part.mkdir() if path.suffix == ".zarr" else part.touch()
        if target.exists():
            part.chmod(0o700 if part.is_dir() else 0o600)
        yield part
        _flush(part)
        # A signal that comes now comes too late.
        with signals.held_back():
            _move(part, target, overwrite)
    except BaseException:
        with signals.held_back():
            _remove(part)
        raise


def _beside(path: Path, suffix: str) -> Path:
    """Return a hidden path in the same folder; names may have 255 bytes."""
    return path.with_name(f".{path.stem[:40]}.{uuid4().hex[:8]}.{suffix}")


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


def _move(part: Path, path: Path, overwrite: bool) -> None:
    """Rename a complete part; of two that may not replace each other the second fails."""
    if not overwrite:
        try:
            _take_name(part, path)
        except OSError as error:
            if path.exists():
                raise _exists(path) from error
            raise
        return
    if path.exists():
        _make_like(part, path)
    if not path.is_dir():
        os.replace(part, path)
        return
    # A folder that is not empty cannot be replaced: it is renamed first.
    aside = _beside(path, f"old{path.suffix}")
    os.rename(path, aside)
    try:
        os.rename(part, path)
    except BaseException:
        os.rename(aside, path)
        raise
    _remove(aside)


def _take_name(part: Path, path: Path) -> None:
    """Rename a part, or raise OSError if there is a file, or a folder that is not empty."""
    if part.is_dir():
        os.rename(part, path)
        return
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        path.touch(exist_ok=False)
        os.replace(part, path)
    else:
        part.unlink()


def _make_like(part: Path, path: Path) -> None:
    """Give a part the owner, where permitted, and the mode of what it replaces."""
    old = path.stat()
    for owner in ((-1, old.st_gid), (old.st_uid, -1)):
        with suppress(PermissionError):
            os.chown(part, *owner)
    part.chmod(stat.S_IMODE(old.st_mode))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
