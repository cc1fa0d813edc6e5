"""precompute and determine for one chunk of CuPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ...phases.affine import AffineSummary, affine
from ...phases.chunk import Chunk
from ...phases.kinds import is_on_gpu
from ...phases.summary import ComposedMaps
from ...phases.transfer_map import TransferMap
from .affine_summary import summarise_affine
from .determine import prepare
from .precompute import precompute as compose_rows

Arrays = tuple[Any, ...]


def device_of(arrays: Iterable[Any]) -> AbstractContextManager[Any]:
    """Make the device of the first CuPy array the current one."""
    return next(array for array in arrays if is_on_gpu(array)).device


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Memory of CuPy's pool on the current device."""
    import cupy

    return cupy.empty(shape, dtype)


def precompute(transfer_map: TransferMap, chunk: Chunk) -> AffineSummary | ComposedMaps:
    """Reduce every row of a chunk to one map, in host memory.

    Parameters
    ----------
    transfer_map : TransferMap
    chunk : Chunk
        Of CuPy arrays on the current device, and host scalars.
    """
    chunk = chunk.map_arrays(_on_device, chunk.shape)
    if transfer_map == affine and chunk.dtype.kind in "fc":
        return summarise_affine(chunk)
    return compose_rows(transfer_map, chunk)


def determine_by(method: str) -> Callable[[TransferMap, Chunk, Arrays, Arrays], None]:
    """The determination by the kernels of a method."""
    return _by_p_scheme if method == "p-scheme" else _in_a_single_pass


def _in_a_single_pass(
    transfer_map: TransferMap, chunk: Chunk, entry: Arrays, results: Arrays
) -> None:
    if results[0].size:
        chunk = chunk.map_arrays(_on_device, chunk.shape)
        prepare(transfer_map, chunk, _entry(entry, chunk), results)()


def _by_p_scheme(transfer_map: TransferMap, chunk: Chunk, entry: Arrays, results: Arrays) -> None:
    from . import p_scheme

    if results[0].size:
        chunk = chunk.map_arrays(_on_device, chunk.shape)
        computed = p_scheme.determine(transfer_map, chunk, _entry(entry, chunk))
        for result, states in zip(results, computed, strict=True):
            result[...] = states


def _entry(entry: Arrays, chunk: Chunk) -> Arrays:
    import cupy

    return tuple(cupy.ascontiguousarray(cupy.asarray(part, chunk.dtype)) for part in entry)


def _on_device(array: Any) -> Any:
    import cupy

    if is_on_gpu(array):
        return array
    if array.size > 1:
        raise TypeError(f"operands must be CuPy arrays or scalars; got a {type(array).__name__}")
    return cupy.asarray(array)
