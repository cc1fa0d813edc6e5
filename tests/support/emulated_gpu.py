"""A GPU that is emulated: CuPy's arrays are NumPy's, and g++ compiles the CUDA kernels.

With ``--emulated`` tests marked gpu run on it. All streams are one, and an element of an array is a
scalar of NumPy.
"""

from __future__ import annotations

import ctypes
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostCompiler, run_on_host

from mgrec.core.backends import Backend
from mgrec.engines.cuda.backend import CudaBackend
from mgrec.engines.cuda.device import Device

# Few multiprocessors, since a block is a thread here.
DEVICE = Device(90, 4, 227 * 1024)


class EmulatedArray(DeviceArray):
    """An array of CuPy, which may also be made from an address."""

    def __new__(
        cls, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None
    ) -> EmulatedArray:
        if memptr is None:
            return np.empty(shape, dtype).view(cls)
        size = np.dtype(dtype).itemsize
        if strides is None:
            size *= prod(shape)
        else:
            size += sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        memory = (ctypes.c_char * size).from_address(memptr.ptr)
        return np.ndarray.__new__(cls, shape, dtype, memory, 0, strides)

    def __array_ufunc__(
        self, function: Any, method: str, *operands: Any, out: Any = (), **options: Any
    ) -> Any:
        if out:
            options["out"] = tuple(map(_as_host, out))
        with np.errstate(all="ignore"):  # CuPy does not warn
            results = getattr(function, method)(*map(_as_host, operands), **options)
        if out:
            return out[0] if len(out) == 1 else out
        if isinstance(results, tuple):
            return tuple(np.asarray(result).view(EmulatedArray) for result in results)
        return np.asarray(results).view(EmulatedArray)

    def set(self, values: Any) -> None:
        self[...] = values

    def astype(self, *arguments: Any, **options: Any) -> Any:
        with np.errstate(all="ignore"):
            return super().astype(*arguments, **options)


def _as_host(array: Any) -> Any:
    return array.view(np.ndarray) if isinstance(array, EmulatedArray) else array


EmulatedArray.__module__ = "cupy"


def _on_device(function: Any) -> Any:
    """Return a function whose results are in the memory of the device."""
    return lambda *given, **options: np.asarray(function(*given, **options)).view(EmulatedArray)


class _Random:
    def __init__(self, seed: Any = None) -> None:
        self._generator = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        return _on_device(getattr(self._generator, name))


def emulate(folder: Path) -> None:
    """Let CUDA code of this process run here from now on; keep compiled kernels in a folder."""
    patch = pytest.MonkeyPatch()
    run_on_host(patch, HostCompiler(folder), DEVICE, EmulatedArray)
    import cupy

    cupy.ndarray, cupy.__version__ = EmulatedArray, "14"
    cupy.asnumpy = lambda array: np.array(array)
    cupy.is_available = lambda: True
    for name in ("arange", "ones", "full_like", "empty_like", "zeros_like", "ones_like", "where"):
        setattr(cupy, name, _on_device(getattr(np, name)))
    cupy.random = SimpleNamespace(default_rng=_Random)
    cuda = cupy.cuda
    cuda.is_available = lambda: True
    cuda.UnownedMemory = lambda address, size, owner, device: SimpleNamespace(
        ptr=address, owner=owner
    )
    cuda.MemoryPointer = lambda memory, offset: SimpleNamespace(ptr=memory.ptr + offset)
    cuda.runtime.getDeviceCount = lambda: 1
    cuda.runtime.setDevice = lambda number: None
    cuda.runtime.pointerGetAttributes = lambda address: SimpleNamespace(device=0)
    cuda.runtime.CUDARuntimeError = RuntimeError
    patch.setattr(CudaBackend, "multiply_shifted", Backend.multiply_shifted)
