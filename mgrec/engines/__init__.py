"""Backends: the device that computes a chunk, chosen by the type of its arrays."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..core.arrays.array_types import is_on_gpu
from ..core.contract.kernels import Backend, Kernels

__all__ = ["CPU", "CPU_THREADS", "backend_of", "kernels_of"]

_DEVICES = {"cpu": "host memory", "cuda": "a GPU"}
_PACKAGE = __package__.partition(".")[0]


@cache
def kernels_of(engine: str, family: str, method: str = "auto") -> Kernels:
    """Return ``kernels(method)`` of the module ``phases`` in the family's folder of an engine.

    `family` is a folder of this package, such as "scans" or "grids.table". On a CPU, the method
    "threads" divides a call among all threads; any other runs on the caller's thread.
    """
    folder = f"{_PACKAGE}.{family}.{engine}"
    if find_spec(folder) is None:
        raise NotImplementedError(
            f"there are no kernels of {family} for arrays on {_DEVICES.get(engine, engine)} yet: "
            f"move the arrays to host memory with cupy.asnumpy"
        )
    kernels: Kernels = import_module(f"{folder}.phases").kernels(method)
    return kernels


CPU = Backend(lambda arrays: nullcontext(), np.empty, partial(kernels_of, "cpu"))
"""One thread a call: each thread of a worker has its own chunks."""
CPU_THREADS = Backend(CPU.device_of, np.empty, partial(kernels_of, "cpu", method="threads"))
"""All threads of this process, for one call on a whole array."""


def backend_of(arrays: Iterable[Any], method: str = "auto", host: Backend = CPU) -> Backend:
    """Return the backend for chunks of these arrays: a GPU's kernels of a method, or `host`."""
    return _gpu(method) if any(map(is_on_gpu, arrays)) else host


@cache
def _gpu(method: str) -> Backend:
    from . import cuda

    kernels = partial(kernels_of, "cuda", method=method)
    return Backend(cuda.device_of, cuda.empty, kernels, broadcasts_state=True, fetch=cuda.fetch)
