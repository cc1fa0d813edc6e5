"""Backends: the machines that a chunk is computed on, found by the type of its arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from ..arrays.kinds import is_on_gpu
from . import cpu
from .registry import Kernels, Summarise, kernels_of

__all__ = ["CPU", "Backend", "Kernels", "Summarise", "backend_of", "cpu", "to_host"]


@dataclass(frozen=True)
class Backend:
    """What placement asks of a backend.

    Attributes
    ----------
    device_of : callable, ``(arrays) -> context manager``
        Makes the device that the arrays are on the current one.
    empty : callable, ``(shape, dtype) -> array``
        Memory for results, on the current device.
    kernels : callable, ``(family) -> Kernels``
    """

    device_of: Callable[[Iterable[Any]], AbstractContextManager[Any]]
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any]
    kernels: Callable[[str], Kernels]


CPU = Backend(lambda arrays: nullcontext(), np.empty, partial(kernels_of, "cpu"))


def backend_of(arrays: Iterable[Any], method: str = "auto") -> Backend:
    """The backend for chunks of these arrays, with the kernels of a method."""
    return _gpu(method) if any(map(is_on_gpu, arrays)) else CPU


@cache
def _gpu(method: str) -> Backend:
    from . import cuda

    return Backend(cuda.device_of, cuda.empty, partial(kernels_of, "cuda", method=method))


def to_host(array: Any) -> np.ndarray:
    """The array in host memory: entries are host arrays, wherever the chunks are."""
    return np.asarray(array.get() if is_on_gpu(array) else array)
