"""The current device: its properties, arrays on it, and memory that launches share."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np

from ...core.backends import CPU, backend_of

MULTIPROCESSORS = 132
"""Number of multiprocessors of the GPU for which tile sizes were chosen."""
SCRATCH_IS_SHARED = "its kernels share memory that is of one call alone"
"""Why a graph cannot repeat a call: the memory of :func:`scratch` is reused after the call."""
_MAX_CACHED_SCRATCH = 1 << 25
_MAX_CACHED_WORDS = 10 << 20

_local = threading.local()


@dataclass(frozen=True)
class Device:
    """A GPU: ten times its compute capability, and the largest shared memory of a block."""

    capability: int
    multiprocessors: int
    shared_bytes: int

    @property
    def has_bulk_copies(self) -> bool:
        """Whether a copy engine moves contiguous bytes between global and shared memory."""
        return self.capability >= 90

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


def is_capturing() -> bool:
    """Return whether the current stream is being captured into a CUDA graph."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and bool(cupy.cuda.get_current_stream().is_capturing())


def raise_if_capturing(what: str, why: str) -> None:
    """Raise RuntimeError if the current stream is being captured into a CUDA graph."""
    if is_capturing():
        raise RuntimeError(
            f"{what} cannot be captured into a CUDA graph, since {why}; call it outside of the capture"
        )


def on_device(array: Any) -> Any:
    """Return an operand of a chunk on the current device."""
    import cupy

    if backend_of(array) is not CPU:
        return array
    if array.size == 1:
        device = cupy.cuda.runtime.getDevice()
        return _scalar(array.tobytes(), array.dtype, device).reshape(array.shape)
    return cupy.asarray(array)


@lru_cache(maxsize=256)
def _scalar(value: bytes, dtype: np.dtype[Any], device: int) -> Any:
    """Return a scalar on the device, which all calls share: kernels only read it.

    A copy at every call took about 30 microseconds. The wait makes the scalar valid on all streams.
    """
    import cupy

    array = cupy.asarray(np.frombuffer(value, dtype))
    cupy.cuda.get_current_stream().synchronize()
    return array


def free_memory() -> int:
    """Return how many bytes of the current GPU are free, those in CuPy's pool included."""
    import cupy

    free, _ = cupy.cuda.runtime.memGetInfo()
    return int(free) + int(cupy.get_default_memory_pool().free_bytes())


def fetch(array: Any) -> Callable[[], np.ndarray]:
    """Start a copy of an array to the host; the returned function waits for the copy.

    ``array.get()`` would wait for all work that was launched before. An array in host memory is
    not copied.
    """
    if backend_of(array) is CPU:
        return lambda: array
    from cupyx import empty_pinned

    host = empty_pinned(array.shape, array.dtype)
    array.get(out=host, blocking=False)
    return after_launches(host)


def after_launches(host: np.ndarray) -> Callable[[], np.ndarray]:
    """Return a function that waits for all that was launched before, and returns an array."""
    import cupy

    unused = unused_events()
    launched = unused.pop() if unused else cupy.cuda.Event(disable_timing=True)
    launched.record()
    pending = [launched]

    def wait() -> np.ndarray:
        while pending:
            launched.synchronize()
            unused.append(pending.pop())
        return host

    return wait


def current_stream() -> int:
    """Return the address of the current stream."""
    import cupy

    return int(cupy.cuda.get_current_stream().ptr)


def unused_events() -> list[Any]:
    """Return events of this thread and device for reuse: a new one in every call takes 20 us."""
    import cupy

    events: dict[int, list[Any]] = _local.__dict__.setdefault("events", {})
    return events.setdefault(cupy.cuda.runtime.getDevice(), [])


def array_at(
    address: int, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None = None
) -> Any:
    """Return an array at an address of the current device; the caller keeps the memory alive."""
    import cupy

    size = prod(shape) * dtype.itemsize
    memory = cupy.cuda.UnownedMemory(address, size, None, cupy.cuda.runtime.getDevice())
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0), strides)


def pack_words(words: list[int] | np.ndarray) -> np.ndarray:
    """Return words of 64 bits as one struct, which a kernel takes by value."""
    return np.array(words, np.int64).view(f"V{8 * len(words)}")


def scratch(size: int) -> Any:
    """Return `size` bytes on the current device, valid until the next call on the same stream."""
    import cupy

    if size > _MAX_CACHED_SCRATCH:
        return cupy.empty(size, cupy.uint8)
    cached: dict[Any, Any] = _local.__dict__.setdefault("scratch", {})
    key = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
    memory = cached.get(key)
    if memory is None or memory.size < size:
        memory = cached[key] = cupy.empty(size, cupy.uint8)
    return memory


class _Descriptors:
    """The look-ahead's memory of one stream, whose launches follow each other.

    The epoch distinguishes their descriptors.
    """

    size, epoch = 0, 0
    space: Any = None

    def reserve(self, size: int) -> tuple[Any, int]:
        import cupy

        if size > self.size or self.epoch == 2**24 - 1:
            self.size, self.epoch = max(size, self.size), 0
            self.space = cupy.zeros(self.size, cupy.uint64)
        self.epoch += 1
        return self.space, self.epoch


def reserve_descriptors(size: int) -> tuple[Any, np.uint32]:
    """Return `size` 64-bit words of look-ahead memory for the current stream, and their epoch."""
    import cupy

    space, epoch = reserve_words(size, cupy.cuda.get_current_stream())
    return space, np.uint32(epoch)


def reserve_words(size: int, stream: Any) -> tuple[Any, int]:
    """Return `size` 64-bit words for a launch on a stream, and their epoch.

    Up to 80 MB are cached for the next launch. A graph would repeat the launch with the same epoch,
    and find the descriptors of its last launch: raise RuntimeError if the stream is being captured.
    """
    import cupy

    if stream.is_capturing():
        raise RuntimeError(
            "a recurrence over few long rows, a table of a wide or tall image, and a loop over a "
            "grid cannot be captured into a CUDA graph, since every launch needs a number of its "
            "own; solve it outside the capture"
        )
    if size > _MAX_CACHED_WORDS:
        return cupy.zeros(size, cupy.uint64), 1
    key = (cupy.cuda.runtime.getDevice(), stream.ptr)
    cached: dict[tuple[int, int], _Descriptors] = _local.__dict__.setdefault("descriptors", {})
    return cached.setdefault(key, _Descriptors()).reserve(size)
