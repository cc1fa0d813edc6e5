"""An output gets its name when it is complete, or never."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from . import signals
from .failure import BadInput


def check_output(path: Path, overwrite: bool) -> None:
    """Raise BadInput unless `path` can be written to."""
    target = _target(path)
    if any(parent.suffix == ".zarr" for parent in path.parents):
        raise BadInput(f"{path} must be a store of its own, not a member of another")
    if not target.parent.is_dir():
        raise BadInput(f"the folder of {path} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise BadInput(f"the folder of {path} must be writable")
    if not os.path.lexists(target):
        return
    is_folder = target.is_dir()
    if not is_folder and not target.is_file():
        raise BadInput(f"{path} is neither a file nor a folder: remove it first")
    if not overwrite:
        raise _exists(path)
    if is_folder != (path.suffix == ".zarr"):
        raise BadInput(f"{path} is {'a folder' if is_folder else 'a file'}: remove it first")
    if is_folder and not _is_array(target):
        raise BadInput(f"{path} is not a zarr array, or holds more than one: remove it first")


def _target(path: Path) -> Path:
    """Return where a path leads: links stay, and what they lead to is written or replaced."""
    return Path(os.path.realpath(path))


def _exists(path: Path) -> BadInput:
    return BadInput(f"{path} exists: pass --overwrite to replace it")


def _is_array(folder: Path) -> bool:
    """Return whether a folder is the store of one array: to replace it removes all in it."""
    import zarr

    try:
        return isinstance(zarr.open(str(folder), mode="r"), zarr.Array)
    except (OSError, ValueError, KeyError):
        return False


@contextmanager
def in_place_when_complete(path: Path, overwrite: bool = True) -> Iterator[Path]:
    """Yield the temporary path of an empty file, or for .zarr an empty folder, that the body fills.

    It gets the name `path` if the body succeeds, and is removed if the body raises anything. What
    replaces a file has its mode, and its owner where permitted; meanwhile others cannot read it.

    Raises
    ------
    BadInput
        Not `overwrite`, and `path` exists at the end.
    """
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
            _replace(part, target) if overwrite else _take_name(part, target)
    except BaseException:
        with signals.held_back():
            _remove(part)
        raise


def _beside(path: Path, suffix: str) -> Path:
    """Return a hidden path in the same folder; names may have 255 bytes."""
    return path.with_name(f".{path.stem[:40]}.{uuid4().hex[:8]}.{suffix}")


def _flush(part: Path) -> None:
    """Write to the disk before the move: a power cut must not leave an empty file."""
    for path in (part, *part.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _replace(part: Path, path: Path) -> None:
    """Rename a complete part, with the owner, where permitted, and the mode of what it replaces."""
    if path.exists():
        old = path.stat()
        for owner in ((-1, old.st_gid), (old.st_uid, -1)):
            with suppress(PermissionError):
                os.chown(part, *owner)
        part.chmod(stat.S_IMODE(old.st_mode))
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
    """Rename a complete part; of two that may not replace each other the second fails."""
    try:
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
    except OSError as error:
        raise (_exists(path) if path.exists() else error) from None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
