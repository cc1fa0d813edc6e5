"""Backends: where a chunk is computed, chosen by the type of its arrays."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

import numpy as np

from ..core.arrays.kinds import is_on_gpu
from ..core.contract.kernels import Backend
from .registry import kernels_of

__all__ = ["CPU", "CPU_THREADS", "backend_of"]

CPU = Backend(lambda arrays: nullcontext(), np.empty, partial(kernels_of, "cpu"))
"""One thread a call: the threads of a worker have chunks of their own."""
CPU_THREADS = Backend(CPU.device_of, np.empty, partial(kernels_of, "cpu", method="threads"))
"""All threads of this process, for one call on a whole array."""


def backend_of(arrays: Iterable[Any], method: str = "auto", host: Backend = CPU) -> Backend:
    """The backend for chunks of these arrays: a GPU's kernels of a method, or `host`."""
    return _gpu(method) if any(map(is_on_gpu, arrays)) else host


@cache
def _gpu(method: str) -> Backend:
    from . import cuda

    kernels = partial(kernels_of, "cuda", method=method)
    return Backend(cuda.device_of, cuda.empty, kernels, broadcasts_state=True, fetch=cuda.fetch)
