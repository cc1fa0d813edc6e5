"""Backends: the machines that a chunk is computed on, found by the type of its arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..phases.cascade import Cascade
from ..phases.cascade_summary import CascadeSummary
from ..phases.chunk import Chunk
from ..phases.kinds import is_on_gpu
from ..phases.transfer_map import TransferMap
from . import cpu

Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Backend:
    """What placement asks of a backend.

    Attributes
    ----------
    device_of : callable, ``(arrays) -> context manager``
        Makes the device that the arrays are on the current one.
    empty : callable, ``(shape, dtype) -> array``
        Memory for results, on the current device.
    precompute : callable, ``(transfer_map, chunk) -> summary``
        Every row reduced to one map, in host memory.
    determine : callable, ``(transfer_map, chunk, entry, results) -> None``
        Writes the states after every step, from an entry in host memory or on the device.
    precompute_filter : callable, ``(cascade, chunk) -> CascadeSummary``
        The states after a chunk that begins with states of 0, in host memory.
    determine_filter : callable, ``(cascade, chunk, entry, result) -> exit``
        Writes the outputs of every step, from an entry in host memory or on the device; the
        states after the chunk.
    """

    device_of: Callable[[Iterable[Any]], AbstractContextManager[Any]]
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any]
    precompute: Callable[[TransferMap, Chunk], Any]
    determine: Callable[[TransferMap, Chunk, Arrays, Arrays], None]
    precompute_filter: Callable[[Cascade, Chunk], CascadeSummary]
    determine_filter: Callable[[Cascade, Chunk, Any, Any], Any]


def _precompute_filter(cascade: Cascade, chunk: Chunk) -> CascadeSummary:
    from .cpu import filters

    return filters.precompute_filter(cascade, chunk)


def _determine_filter(cascade: Cascade, chunk: Chunk, entry: Any, result: Any) -> Any:
    from .cpu import filters

    return filters.determine_filter(cascade, chunk, entry, result).exit


CPU = Backend(
    lambda arrays: nullcontext(),
    np.empty,
    cpu.precompute,
    cpu.determine,
    _precompute_filter,
    _determine_filter,
)


def backend_of(arrays: Iterable[Any], method: str = "auto") -> Backend:
    """The backend for chunks of these arrays, with the kernels of a method."""
    return _gpu(method) if any(map(is_on_gpu, arrays)) else CPU


@cache
def _gpu(method: str) -> Backend:
    from . import cuda
    from .cuda import filters

    return Backend(
        cuda.device_of,
        cuda.empty,
        cuda.precompute,
        cuda.determine_by(method),
        filters.precompute_filter,
        filters.determine_filter,
    )


def to_host(array: Any) -> np.ndarray:
    """The array in host memory: entries are host arrays, wherever the chunks are."""
    return np.asarray(array.get() if is_on_gpu(array) else array)
