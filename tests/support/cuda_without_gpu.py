"""CuPy without a GPU: memory of this machine, and launches that are noted alone."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_on_host import DeviceArray, numpy_as_cupy, poisoned

from mgrec import engines as backends
from mgrec.core.contract.kernels import Backend
from mgrec.engines import kernels_of
from mgrec.engines.cuda import compilation, device, launches
from mgrec.engines.cuda.device import Device


class Recorder:
    """Stands in for ``compile_kernel``: kernels tell what they are launched with.

    Attributes
    ----------
    launched : list of tuple
        Kernel, blocks, threads, the bytes of every argument, shared memory, and whether blocks
        wait for each other.
    """

    def __init__(self) -> None:
        self.launched: list[tuple[Any, ...]] = []
        self.sizes: dict[str, list[int]] = {}

    def __call__(self, text: str, name: str, shared: int = 0, *, is_fused: bool = True) -> Any:
        def call(blocks: int, threads: int, given: Any, shared: int, waits: bool = True) -> None:
            self._note(text, name, blocks, threads, list(map(bytes_of, given)), shared, waits)

        def launch(
            pointers: int, stream: int, blocks: int, threads: int, shared: int, waits: bool
        ) -> None:
            assert stream == 77
            sizes = self.sizes[text + name]
            places = (ctypes.c_void_p * len(sizes)).from_address(pointers)
            given = [ctypes.string_at(k, n) for k, n in zip(places, sizes, strict=True)]
            self._note(text, name, blocks, threads, given, shared, waits)

        call.launch = launch  # type: ignore[attr-defined]
        return call

    def _note(self, text: str, name: str, *rest: Any) -> None:
        self.sizes[text + name] = [len(argument) for argument in rest[2]]
        self.launched.append((name, *rest))

    def of(self, call: Callable[[], Any]) -> list[tuple[Any, ...]]:
        """What a call launches, but for the numbers of launches."""
        del self.launched[:]
        call()
        return [
            (*head, given[:-1] if len(given[-1]) == 4 else given, *rest)
            for *head, given, rest in ((*one[:3], one[3], one[4:]) for one in self.launched)
        ]


def bytes_of(argument: Any) -> bytes:
    if isinstance(argument, DeviceArray):
        return int(argument.data.ptr).to_bytes(8, "little")
    return bytes(np.asarray(argument).tobytes())


def empty(shape: Any, dtype: Any) -> Any:
    return poisoned(shape, dtype).view(DeviceArray)


def on_device(array: Any) -> Any:
    return np.array(array, order="C").view(DeviceArray)


def backend(method: str) -> Backend:
    kernels = partial(kernels_of, "cuda", method=method)
    return Backend(lambda arrays: DeviceArray.device, empty, kernels, broadcasts_state=True)


def without_gpu(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Let public calls of arrays of a device launch what is noted alone."""
    cupy, found = numpy_as_cupy(), Recorder()
    stream = SimpleNamespace(ptr=77, is_capturing=lambda: False, synchronize=lambda: None)
    cupy.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        runtime=SimpleNamespace(getDevice=lambda: 0), get_current_stream=lambda: stream
    )
    cupy.empty, cupy.uint64, cupy.uint8 = empty, np.uint64, np.uint8  # type: ignore[attr-defined]
    cupy.zeros = lambda n, dtype: np.zeros(n, dtype).view(DeviceArray)  # type: ignore
    cupy.asarray = lambda x, *dtype: x if isinstance(x, DeviceArray) else on_device(x)  # type: ignore
    cupy.ascontiguousarray = cupy.asarray  # type: ignore[attr-defined]
    cupy.broadcast_to = partial(np.broadcast_to, subok=True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(launches, "compile_kernel", found)
    for module in (compilation, device):
        monkeypatch.setattr(module, "_local", SimpleNamespace())
    monkeypatch.setattr(Device, "current", staticmethod(lambda: Device(90, 132, 227 * 1024)))
    monkeypatch.setattr(backends, "_gpu", backend)
    return found
