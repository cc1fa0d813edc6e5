"""Arrays in files: read and written chunk by chunk, by whichever worker has the chunk."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import dask.array as da
import numpy as np
from dask.base import tokenize

from . import hints, mapped, members, remote, workers
from .failure import BadInput
from .places import Place, Remote, kind_of

# A worker holds several of these at a time, beside a group of 64 MiB.
CHUNK_BYTES = 32 << 20
KINDS = (".npy", ".zarr")


@dataclass(frozen=True)
class Stored:
    """An array in a .npy file or a .zarr store, which every access opens anew.

    A worker gets a path instead of data, and only a chunk is in memory.

    Attributes
    ----------
    path : str
        Absolute: workers have their own directories.
    shape : tuple of int
    dtype : numpy.dtype
    chunks : tuple of int, optional
        Of the store; None for .npy.
    offset : int, optional
        Of a .npy file: where its numbers begin, in bytes.
    order : {"C", "F"}
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None = None
    offset: int | None = None
    order: Literal["C", "F"] = "C"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        with workers.told(self.path):
            if self.offset is None:
                return np.asarray(_open_zarr(self.path, "r")[index])
            if "://" in self.path:
                return remote.read(self, index)
            return mapped.read(self._mapped("r"), index)

    def __setitem__(self, index: Any, block: np.ndarray) -> None:
        with workers.told(self.path):
            if self.offset is None:
                _open_zarr(self.path, "r+")[index] = block
            else:
                mapped.write(self._mapped("r+"), index, block)

    def _mapped(self, mode: Any) -> Any:
        # np.load parses the header, which fails now and then where threads do it at once
        # (Python before 3.11.8 and 3.12.2, gh-106905).
        return np.memmap(self.path, self.dtype, mode, self.offset or 0, self.shape, self.order)


def _open_zarr(path: str, mode: Any) -> Any:
    import zarr

    return zarr.open_array(path, mode=mode)


def check_kind(place: Place) -> None:
    """Raise unless a path names a kind of file that can be read and written here."""
    kind = kind_of(place)
    if kind not in KINDS:
        raise BadInput(f"{place} must end in .npy or .zarr, or name an array of a .zarr store")
    if kind == ".zarr" and importlib.util.find_spec("zarr") is None:
        raise BadInput(f"{place} needs zarr: {hints.install('zarr')}")


def find(place: Place) -> Stored:
    """Open an input."""
    check_kind(place)
    if not place.exists():
        raise BadInput(f"{place} does not exist{members.instead(place)}")
    absolute = str(place.resolve()) if isinstance(place, Path) else str(place)
    try:
        if kind_of(place) == ".zarr":
            return _found_in_zarr(place, absolute)
        if isinstance(place, Remote):
            shape, is_fortran, dtype, offset = remote.header(place)
            check_numbers(place, dtype)
            return Stored(absolute, shape, dtype, None, offset, "F" if is_fortran else "C")
        array = np.lib.format.open_memmap(absolute, mode="r")
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{place} cannot be read as an array: {error}") from error
    check_numbers(place, np.dtype(array.dtype))
    order: Literal["C", "F"] = "C" if array.flags.c_contiguous else "F"
    return Stored(absolute, tuple(array.shape), array.dtype, None, array.offset, order)


def _found_in_zarr(place: Place, absolute: str) -> Stored:
    import zarr

    found = zarr.open(absolute, mode="r")
    if isinstance(found, zarr.Group):
        name = members.only_one(place, found)
        absolute, found = f"{absolute.rstrip('/')}/{name}", found[name]
    check_numbers(place, np.dtype(found.dtype))
    return Stored(absolute, tuple(found.shape), np.dtype(found.dtype), found.chunks)


def check_numbers(place: Place, dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "iufc":
        raise BadInput(f"{place} must hold numbers; its dtype is {dtype}")


def create(path: Place, shape: tuple[int, ...], dtype: np.dtype[Any], chunks: Any) -> Stored:
    """A new array; disk space of a .npy file is reserved.

    Else a chunk written through the page cache to a full disk would kill the worker with SIGBUS.
    """
    if path.suffix == ".npy" and isinstance(path, Path):
        with path.open("wb") as file:
            header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            offset = file.tell()
            size = offset + int(np.prod(shape, dtype=object)) * dtype.itemsize
            file.flush()
            reserve(file.fileno(), size, path)
        return Stored(str(path), shape, dtype, None, offset)
    import zarr

    whole = tuple(max(1, lengths[0]) for lengths in chunks)
    zarr.create_array(str(path), shape=shape, dtype=dtype, chunks=whole)
    return Stored(str(path), shape, dtype)


def reserve(descriptor: int, size: int, path: Path) -> None:
    """Reserve the disk space of an empty file; `path` is for the message."""
    if not hasattr(os, "posix_fallocate"):
        os.ftruncate(descriptor, size)
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        place = f"{path.parent} has no room for {size:,} bytes"
        raise OSError(error.errno, error.strerror, place) from error


def chunks_for(
    shape: tuple[int, ...], axis: int, steps: int | None, inputs: Sequence[Stored]
) -> tuple[tuple[int, ...], ...]:
    """Chunks of about 32 MiB: of `steps` along the axis if given, else as an input is stored."""
    largest = max(inputs, key=lambda stored: stored.dtype.itemsize)
    stored = next((i.chunks for i in inputs if i.chunks and i.shape == shape), None)
    return cut(shape, {} if steps is None else {axis: steps}, largest.dtype, stored)


def cut(
    shape: tuple[int, ...], wanted: dict[int, int], dtype: np.dtype[Any], stored: Any
) -> tuple[tuple[int, ...], ...]:
    """Chunks of about 32 MiB, of a wanted length along some axes; like those that are stored."""
    if 0 in shape:
        return tuple((length,) for length in shape)
    lengths: list[Any] = ["auto"] * len(shape)
    for axis, length in wanted.items():
        lengths[axis] = length
    chunks: tuple[tuple[int, ...], ...] = da.core.normalize_chunks(
        tuple(lengths), shape, limit=CHUNK_BYTES, dtype=dtype, previous_chunks=stored
    )
    return chunks


def lazy(stored: Stored, chunks: tuple[tuple[int, ...], ...], shape: tuple[int, ...]) -> da.Array:
    """A Dask array of a file, cut like a result of `shape` that it broadcasts to."""
    offset = len(shape) - stored.ndim
    own = tuple(
        chunks[offset + k] if length == shape[offset + k] else (length,)
        for k, length in enumerate(stored.shape)
    )
    return da.from_array(
        stored,
        chunks=own,
        name=f"load-{tokenize(stored, _written_at(stored.path), own)}",
        meta=np.empty((0,) * stored.ndim, stored.dtype),
        inline_array=True,
        asarray=False,
    )


def _written_at(path: str) -> Any:
    """What tells another version of a file, where the file system does."""
    return None if "://" in path else os.stat(path).st_mtime_ns
