"""Backends: the machines that a chunk is computed on, found by the type of its arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..algebra.transfer_map import TransferMap
from ..arrays.chunk import Chunk
from ..arrays.kinds import is_on_gpu
from ..families.filters.cascade import Cascade
from . import cpu

Arrays = tuple[Any, ...]
Summarise = Callable[[], Any]


@dataclass(frozen=True)
class Backend:
    """What placement asks of a backend.

    Attributes
    ----------
    device_of : callable, ``(arrays) -> context manager``
        Makes the device that the arrays are on the current one.
    empty : callable, ``(shape, dtype) -> array``
        Memory for results, on the current device.
    precompute : callable, ``(transfer_map, chunk) -> (() -> summary)``
        Launches the reduction of every row to one map; a call of what is returned waits for it.
        The summary is in host memory.
    determine : callable, ``(transfer_map, chunk, entry, results) -> None``
        Writes the states after every step, from an entry in host memory or on the device.
    precompute_filter : callable, ``(cascade, chunk) -> (() -> CascadeSummary)``
        The same of the states after a chunk that begins with states of 0.
    determine_filter : callable, ``(cascade, chunk, entry, result) -> exit``
        Writes the outputs of every step, from an entry in host memory or on the device; the
        states after the chunk.
    """

    device_of: Callable[[Iterable[Any]], AbstractContextManager[Any]]
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any]
    precompute: Callable[[TransferMap, Chunk], Summarise]
    determine: Callable[[TransferMap, Chunk, Arrays, Arrays], None]
    precompute_filter: Callable[[Cascade, Chunk], Summarise]
    determine_filter: Callable[[Cascade, Chunk, Any, Any], Any]


def _precompute(transfer_map: TransferMap, chunk: Chunk) -> Summarise:
    summary = cpu.precompute(transfer_map, chunk)
    return lambda: summary


def _precompute_filter(cascade: Cascade, chunk: Chunk) -> Summarise:
    from .cpu.filters import phases as filters

    summary = filters.precompute_filter(cascade, chunk)
    return lambda: summary


def _determine_filter(cascade: Cascade, chunk: Chunk, entry: Any, result: Any) -> Any:
    from .cpu.filters import phases as filters

    return filters.determine_filter(cascade, chunk, entry, result).exit


CPU = Backend(
    lambda arrays: nullcontext(),
    np.empty,
    _precompute,
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
    from .cuda.filters import phases as filters

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
