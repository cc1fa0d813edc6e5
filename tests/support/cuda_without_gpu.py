"""CuPy without a GPU: memory of this machine, and launches that are noted alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import dask.array as da
import numpy as np
import pytest
from cuda_on_host import DeviceArray, forget_launches, pretend_cupy

from mgrec.engines.cuda import compilation, launches
from mgrec.engines.cuda import device as device_module
from mgrec.engines.cuda.backend import CudaBackend
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
        self.solved: list[Any] = []

    def __call__(self, text: str, name: str, shared: int = 0, *, is_fused: bool = True) -> Any:
        def call(blocks: int, threads: int, given: Any, shared: int, waits: bool = True) -> None:
            self._note(text, name, blocks, threads, list(map(bytes_of, given)), shared, waits)

        def launch(pointers: int, stream: int, blocks: int, threads: int, shared: int, waits: bool) -> None:
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


def on_device(array: Any) -> Any:
    return np.array(array, order="C").view(DeviceArray)


def without_gpu(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Let public calls of arrays of a device launch what is noted alone."""
    found = Recorder()
    pretend_cupy(monkeypatch)
    monkeypatch.setattr(launches, "compile_kernel", found)
    for module in (compilation, device_module):
        monkeypatch.setattr(module, "_local", SimpleNamespace())
    monkeypatch.setattr(Device, "current", staticmethod(lambda: Device(90, 132, 227 * 1024)))
    monkeypatch.setattr(CudaBackend, "fetch", lambda self, array: lambda: array)
    return found


class Programs:
    """Stands in for ``compile_kernel``: notes programs, and launches nothing.

    Attributes
    ----------
    texts : dict of str to int
        Programs, and the largest shared memory that a block of their kernels asks for.
    """

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def __call__(self, text: str, name: str, shared: int = 0, *, is_fused: bool = True) -> Any:
        self.texts[text] = max(shared, self.texts.get(text, 0))

        def launch(*arguments: Any) -> None:
            pass

        launch.launch = launch  # type: ignore[attr-defined]
        return launch


def programs_of(monkeypatch: pytest.MonkeyPatch, device: Device, *calls: Callable[[], Any]) -> dict[str, int]:
    """Return the programs that public calls launch on a device; results are undefined."""
    found = Programs()
    pretend_cupy(monkeypatch)
    monkeypatch.setattr(launches, "compile_kernel", found)
    monkeypatch.setattr(device_module, "_local", SimpleNamespace())
    monkeypatch.setattr(Device, "current", staticmethod(lambda: device))
    forget_launches()
    for call in calls:
        result = call()
        for part in result if isinstance(result, tuple) else (result,):
            if isinstance(part, da.Array):
                part.compute(scheduler="sync")
    forget_launches()
    return found.texts
