"""Compiled kernels, devices and the look-ahead's memory; the only owner of CuPy's modules."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from .cubins import OPTIONS, UNFUSED, compiled

_local = threading.local()


@dataclass(frozen=True)
class Device:
    """What a launch must know of a GPU.

    Attributes
    ----------
    capability : int
        Compute capability times ten.
    multiprocessors : int
    shared_bytes : int
        Most shared memory a block may ask for.
    """

    capability: int
    multiprocessors: int
    shared_bytes: int

    @staticmethod
    def current() -> Device:
        import cupy

        return _device(cupy.cuda.runtime.getDevice())


@cache
def _device(number: int) -> Device:
    import cupy

    device = cupy.cuda.Device(number)
    attributes = device.attributes
    return Device(
        int(device.compute_capability),
        attributes["MultiProcessorCount"],
        attributes["MaxSharedMemoryPerBlockOptin"],
    )


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel.

    Blocks of a look-ahead wait for each other, so all must be resident at once
    or none: the launch is cooperative.
    """

    function: Any

    def __call__(
        self, blocks: int, threads: int, arguments: Any, shared_bytes: int, cooperative: bool = True
    ) -> None:
        self.function(
            (blocks,), (threads,), arguments, shared_bytes, enable_cooperative_groups=cooperative
        )

    def launch(
        self, pointers: int, stream: int, blocks: int, threads: int, shared_bytes: int,
        cooperative: bool,
    ) -> None:  # fmt: skip
        """The same on a stream, by the address of the pointers to all arguments.

        CuPy's own call takes 2 microseconds more, most of them to look at every argument.
        """
        try:
            driver = _local.driver
        except AttributeError:
            driver = _local.driver = _own_driver()
        ptr = self.function.ptr
        if cooperative:
            driver.launchCooperativeKernel(
                ptr, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, pointers
            )
        else:
            driver.launchKernel(ptr, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, pointers, 0)


def _own_driver() -> Any:
    """The driver, once the context of the current device is that of this thread too."""
    import cupy

    cupy.cuda.runtime.setDevice(cupy.cuda.runtime.getDevice())
    return cupy.cuda.driver


def compile_kernel(text: str, name: str, shared_bytes: int = 0, *, is_fused: bool = True) -> Kernel:
    """Compile a program with NVRTC for the current device, or load it from disk.

    Parameters
    ----------
    text, name : str
    shared_bytes : int
        Dynamic shared memory of a block.
    is_fused : bool
        Round s·w + t once; twice, as a plain loop on the host does, where it is False.
    """
    import cupy

    return _compile(text, name, shared_bytes, is_fused, cupy.cuda.runtime.getDevice())


# A program that falls out is unloaded once no launch holds it.
@lru_cache(maxsize=1024)
def _compile(text: str, name: str, shared_bytes: int, is_fused: bool, device: int) -> Kernel:
    import cupy

    # A RawModule reads a file, which a machine without a writable folder has not, and is never
    # unloaded.
    module = cupy.cuda.function.Module()
    module.load(compiled(text, OPTIONS if is_fused else UNFUSED))
    function = module.get_function(name)
    if shared_bytes:  # 48 KB, less what the kernel declares itself, need no permission
        attribute = cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        cupy.cuda.driver.funcSetAttribute(function.ptr, attribute, shared_bytes)
    return Kernel(function)


class _Descriptors:
    """Memory of one stream's look-ahead, reused by every launch on it.

    Launches on one stream follow each other, so they can share it; the epoch
    tells their descriptors apart.
    """

    def __init__(self) -> None:
        self.units = 0
        self.epoch = 0
        self.space: Any = None

    def reserve(self, units: int) -> tuple[Any, int]:
        import cupy

        if units > self.units or self.epoch == 2**24 - 1:
            self.units, self.epoch = max(units, self.units), 0
            self.space = cupy.zeros(self.units, cupy.uint64)
        self.epoch += 1
        return self.space, self.epoch


_MOST_KEPT = 10 << 20


def descriptors(units: int) -> tuple[Any, np.uint32]:
    """Memory for `units` 64-bit words on the current device and stream, and its epoch.

    It is kept for the next launch up to 80 MB; more is of this launch alone.

    Raises
    ------
    RuntimeError
        The stream is being captured: a graph would launch with one epoch again and again,
        and find the spans of its last launch.
    """
    import cupy

    space, epoch = reserve_words(units, cupy.cuda.get_current_stream())
    return space, np.uint32(epoch)


def reserve_words(units: int, stream: Any) -> tuple[Any, int]:
    """The same of a stream."""
    import cupy

    if stream.is_capturing():
        raise RuntimeError(
            "a recurrence over few long rows, a table of a wide or tall image, and a loop over a "
            "grid cannot be captured into a CUDA graph, since every launch needs a number of its "
            "own; solve it outside the capture"
        )
    if units > _MOST_KEPT:
        return cupy.zeros(units, cupy.uint64), 1
    key = (cupy.cuda.runtime.getDevice(), stream.ptr)
    known: dict[tuple[int, int], _Descriptors] = _local.__dict__.setdefault("known", {})
    return known.setdefault(key, _Descriptors()).reserve(units)
