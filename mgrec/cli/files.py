"""Arrays in .npy files and zarr stores, read and written chunk by chunk by the workers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import dask.array as da
import numpy as np

from .failure import BadInput
from .machine import require

# A worker holds several of these at a time, in addition to a group of 64 MiB.
CHUNK_BYTES = 32 << 20


@dataclass(frozen=True)
class NpyFile:
    """An array in a .npy file, which every access opens: a worker gets a path instead of data.

    Parts that are contiguous in the file are read and written in one piece. Through a memory map
    every page of 4 KiB faults: reading took 2.5 times as long, writing 7 times.

    Attributes
    ----------
    path : str
        Absolute: workers have their own directories.
    shape : tuple of int
    dtype : numpy.dtype
    offset : int
        Where the numbers begin, in bytes.
    order : {"C", "F"}
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
        # np.load parses the header, which fails now and then where threads do it at once
        # (Python before 3.11.8 and 3.12.2, gh-106905).
        mapped = np.memmap(self.path, self.dtype, mode, self.offset, self.shape, self.order)
        part = mapped[index]
        if not isinstance(part, np.memmap) or part.size == 0 or not part.flags.c_contiguous:
            return part, None
        return part, self.offset + part.ctypes.data - mapped.ctypes.data


def open_array(source: str) -> Any:
    """Open an array that is an operand: a .npy file, a zarr store, a member of one or its URL."""
    path = Path(source).resolve()
    is_zarr = "://" in source or any(part.endswith(".zarr") for part in Path(source).parts)
    if not is_zarr and path.suffix != ".npy":
        raise BadInput(f"{source} is no number, no .npy file and no .zarr store")
    if is_zarr:
        require("zarr", "zarr", source)
    if "://" not in source and not path.exists():
        raise BadInput(f"{source} does not exist")
    try:
        return _open_zarr(source) if is_zarr else _open_npy(str(path))
    except Exception as error:  # of damaged files, and of each package that opens a URL
        raise BadInput(f"{source} cannot be read as an array: {error}") from error


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
    return opened


def create(path: Path, w: da.Array) -> Any:
    """Create the file of a result in regular chunks; disk space of a .npy file is reserved.

    Else a chunk written through the page cache to a full disk would kill the worker with SIGBUS.
    """
    if path.suffix == ".zarr":
        import zarr

        return zarr.create_array(str(path), shape=w.shape, dtype=w.dtype, chunks=w.chunksize)
    with path.open("wb") as file:
        header = {"descr": w.dtype.str, "fortran_order": False, "shape": w.shape}
        np.lib.format.write_array_header_1_0(file, header)
        offset = file.tell()
        file.flush()
        _reserve(file.fileno(), offset + w.size * w.dtype.itemsize, path)
    return NpyFile(str(path), w.shape, w.dtype, offset)


def _reserve(descriptor: int, size: int, path: Path) -> None:
    if not hasattr(os, "posix_fallocate"):
        os.ftruncate(descriptor, size)
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        message = f"{path.parent} has no room for {size:,} bytes"
        raise OSError(error.errno, error.strerror, message) from error


def lazy(array: Any, lengths: dict[int, int]) -> da.Array:
    """Return an array in a file as a Dask array in chunks of about 32 MiB.

    `lengths` are those of chunks along some axes, which are negative; along others they are
    multiples of those in a zarr store.
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
