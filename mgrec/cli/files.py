"""Arrays in .npy files and zarr stores, and output files that appear when they are complete."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import dask.array as da
import numpy as np

from . import signals
from .failure import BadInput
from .machine import require

# A worker stores several chunks at a time, in addition to a group of 64 MiB.
CHUNK_BYTES = 32 << 20
# numba compiles for no more axes, and NumPy broadcasts no more.
MOST_AXES = 32


@dataclass(frozen=True)
class NpyFile:
    """An array in a .npy file, which each access opens: workers receive a path, not data.

    Contiguous parts are read and written in one piece. Through a memory map each page of 4 KiB
    faults: reading took 2.5 times as long, writing 7 times. `path` is absolute, since workers have
    their own directories; the array starts `offset` bytes into the file.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    order: Literal["C", "F"] = "C"
    chunks: None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        part, start = self._part(index, "r")
        if start is None:
            return np.array(part)
        return np.fromfile(self.path, self.dtype, part.size, offset=start).reshape(part.shape)

    def __setitem__(self, index: Any, block: np.ndarray) -> None:
        part, start = self._part(index, "r+")
        if start is None:
            part[...] = block
            return
        with open(self.path, "r+b", buffering=0) as file:
            file.seek(start)
            np.broadcast_to(block, part.shape).astype(self.dtype, copy=False).tofile(file)

    def _part(self, index: Any, mode: Any) -> tuple[Any, int | None]:
        """Return a part of the memory map, and its offset if it is contiguous in the file."""
        # Parsing the header (np.load) is not thread-safe before Python 3.11.8 and 3.12.2
        # (gh-106905).
        mapped = np.memmap(self.path, self.dtype, mode, self.offset, self.shape, self.order)
        part = mapped[index]
        if not isinstance(part, np.memmap) or part.size == 0 or not part.flags.c_contiguous:
            return part, None
        return part, self.offset + part.ctypes.data - mapped.ctypes.data


def open_array(source: str) -> Any:
    """Open an operand: a .npy file, a zarr store, a member of a store, or the URL of one."""
    path = Path(source).resolve()
    is_zarr = "://" in source or any(part.endswith(".zarr") for part in Path(source).parts)
    if not is_zarr and path.suffix != ".npy":
        raise BadInput(f"{source} is neither a number nor a .npy file nor a .zarr store")
    if is_zarr:
        require("zarr", "zarr", source)
    if "://" not in source and not path.exists():
        raise BadInput(f"{source} does not exist")
    try:
        array = _open_zarr(source) if is_zarr else _open_npy(str(path))
        if len(array.shape) > MOST_AXES:
            raise ValueError(f"it must have at most {MOST_AXES} axes; got {len(array.shape)}")
    except Exception as error:  # damaged files, and each package that opens a URL
        raise BadInput(f"{source} cannot be read as an array: {error}") from error
    return array


def _open_npy(path: str) -> NpyFile:
    mapped = np.lib.format.open_memmap(path, mode="r")
    order: Literal["C", "F"] = "C" if mapped.flags.c_contiguous else "F"
    return NpyFile(path, mapped.shape, mapped.dtype, mapped.offset, order)


def _open_zarr(source: str) -> Any:
    import zarr

    opened = zarr.open(source if "://" in source else os.path.abspath(source), mode="r")
    if isinstance(opened, zarr.Group):
        names = ", ".join(sorted(opened.array_keys())) or "no arrays"
        raise ValueError(f"it is a group of {names}: name one of them, as in {source}/NAME")
    if 0 in opened.chunks and 0 not in opened.shape:
        raise ValueError(f"its chunks must not be empty; got {opened.chunks}")
    return opened


def lazy(array: Any, lengths: dict[int, int]) -> da.Array:
    """Return an array in a file as a Dask array in chunks of about 32 MiB.

    `lengths` are chunk lengths by negative axis. Other lengths are multiples of those of a store.
    """
    ndim = len(array.shape)
    wanted = tuple(lengths.get(axis - ndim, "auto") for axis in range(ndim))
    chunks: Any = (-1,) * ndim
    if 0 not in array.shape:
        chunks = da.core.normalize_chunks(
            wanted, array.shape, CHUNK_BYTES, array.dtype, previous_chunks=array.chunks
        )
    meta = np.empty((0,) * ndim, array.dtype)
    return da.from_array(array, chunks, name=False, meta=meta, inline_array=True)


def create(path: Path, w: da.Array) -> Any:
    """Create the file of a result in regular chunks, and reserve the disk space of a .npy file.

    Without the space, a chunk written through the page cache would kill the worker with SIGBUS.
    """
    if path.suffix == ".zarr":
        import zarr

        return zarr.create_array(str(path), shape=w.shape, dtype=w.dtype, chunks=w.chunksize)
    with path.open("wb") as file:
        header = {"descr": w.dtype.str, "fortran_order": False, "shape": w.shape}
        np.lib.format.write_array_header_1_0(file, header)
        offset = file.tell()
        file.flush()
        size = offset + w.size * w.dtype.itemsize
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                os.ftruncate(file.fileno(), size)
        except OSError as error:
            message = f"{path.parent} has no room for {size:,} bytes"
            raise OSError(error.errno, error.strerror, message) from error
    return NpyFile(str(path), w.shape, w.dtype, offset)


def check_output(path: Path, overwrite: bool) -> None:
    """Raise BadInput unless `path` can be written."""
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
    """Return the path behind links: links stay, and their target is written or replaced."""
    return Path(os.path.realpath(path))


def _exists(path: Path) -> BadInput:
    return BadInput(f"{path} exists: pass --overwrite to replace it")


def _is_array(folder: Path) -> bool:
    """Return whether a folder stores one array, since replacing it removes everything in it."""
    import zarr

    try:
        return isinstance(zarr.open(str(folder), mode="r"), zarr.Array)
    except (OSError, ValueError, KeyError):
        return False


@contextmanager
def replaced_when_complete(path: Path, overwrite: bool = True) -> Iterator[Path]:
    """Yield the path of an empty temporary file, or folder for .zarr, that the body fills.

    It is renamed to `path` if the body succeeds, and removed otherwise. It gets the mode, and if
    permitted the owner, of the file that it replaces; until then other users cannot read it.

    Raise BadInput if `path` exists at the end, and `overwrite` is false.
    """
    target = _target(path)
    part = _beside(target, f"part{path.suffix}")
    try:
        part.mkdir() if path.suffix == ".zarr" else part.touch()
        if target.exists():
            part.chmod(0o700 if part.is_dir() else 0o600)
        yield part
        # A power cut after the rename must not leave an empty file.
        for file in filter(Path.is_file, (part, *part.rglob("*"))):
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        # A signal that arrives now is too late.
        with signals.deferred():
            _replace(part, target) if overwrite else _take_name(part, target)
    except BaseException:
        with signals.deferred():
            _remove(part)
        raise


def _beside(path: Path, suffix: str) -> Path:
    """Return a hidden path in the same folder; names may have 255 bytes."""
    return path.with_name(f".{path.stem[:40]}.{uuid4().hex[:8]}.{suffix}")


def _replace(part: Path, path: Path) -> None:
    """Rename a part to `path`, with the mode and, if permitted, the owner of the old file."""
    if path.exists():
        old = path.stat()
        for owner in ((-1, old.st_gid), (old.st_uid, -1)):
            with suppress(PermissionError):
                os.chown(part, *owner)
        part.chmod(stat.S_IMODE(old.st_mode))
    if not path.is_dir():
        os.replace(part, path)
        return
    # A folder that is not empty cannot be replaced: rename it first.
    aside = _beside(path, f"old{path.suffix}")
    os.rename(path, aside)
    try:
        os.rename(part, path)
    except BaseException:
        os.rename(aside, path)
        raise
    _remove(aside)


def _take_name(part: Path, path: Path) -> None:
    """Rename a part; raise BadInput if another process has created `path` meanwhile."""
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
