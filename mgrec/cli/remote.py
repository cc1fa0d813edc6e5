"""Arrays in .npy files behind URLs, of which only the rows that are asked for are read."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .places import Remote


def header(place: Remote) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """The shape, whether it is in Fortran's order, the dtype, and where the numbers begin."""
    place.filesystem()
    import fsspec

    formats = np.lib.format
    with fsspec.open(place.url, "rb") as file:
        is_first = formats.read_magic(file) == (1, 0)
        read = formats.read_array_header_1_0 if is_first else formats.read_array_header_2_0
        return *read(file), file.tell()


def read(stored: Any, index: Any) -> np.ndarray:
    """A part of the array: all of the rows that it is in, along the slowest axis, are read."""
    import fsspec

    is_c = stored.order == "C"
    parts = index if isinstance(index, tuple) else (index,)
    if parts == (Ellipsis,):
        parts = (slice(None),) * stored.ndim
    shape, parts = (stored.shape, parts) if is_c else (stored.shape[::-1], parts[::-1])
    start, stop, _ = parts[0].indices(shape[0]) if shape else (0, 1, 1)
    row = prod(shape[1:]) * stored.dtype.itemsize
    with fsspec.open(stored.path, "rb") as file:
        file.seek(stored.offset + start * row)
        held = file.read((stop - start) * row)
    if len(held) < (stop - start) * row:
        raise OSError(f"{stored.path} has become shorter since it was opened")
    rows = np.frombuffer(held, stored.dtype).reshape((stop - start, *shape[1:]) if shape else ())
    part = rows[(slice(None), *parts[1:])] if shape else rows
    return np.array(part if is_c else part.T)
