"""Times of calls, by the clock of the host or of a GPU, and the bandwidth of a copy on a GPU.

CuPy is imported by the functions that need it: studies without a GPU have none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

import numpy as np

# One sample lasts at least this long: shorter calls are made several times.
SAMPLE = 2e-3
REPEATS = 15
Call = Callable[[], Any]
# Seconds of one call, from this many.
Clock = Callable[[Call, int], float]
_FLUSH = """
extern "C" __global__ void flush(const float4* x, long long count, float* out) {
  float sum = 0;
  for (int pass = 0; pass < 3; ++pass)
    for (long long i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256)
      sum += x[i].x + x[i].y + x[i].z + x[i].w;
  if (sum < 0) *out = sum;
}
"""


@dataclass(frozen=True)
class Times:
    """Seconds of one call, one a repetition."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    def summary(self) -> dict[str, Any]:
        extremes = {"min": min(self.seconds), "max": max(self.seconds)}
        return {"repetitions": len(self.seconds), "median": self.median, **extremes}


def count_calls(call: Call) -> int:
    """Calls that make one sample; the first call may compile."""
    call()
    return max(1, round(SAMPLE / max(sample(call, 1), 1e-7)))


def sample(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def seconds_on_rank(
    group: Any, call: Call, count: int, repetitions: int, synchronise: Call = lambda: None
) -> list[float]:
    """Seconds of a call on a rank, each one of `count` that follow each other, after as many."""
    seconds = []
    for _ in range(repetitions + 1):
        synchronise()
        group.all_gather_bytes(b"")  # ranks begin together
        start = time.perf_counter()
        for _ in range(count):
            result = None  # its memory is that of the next one
            result = call()
        synchronise()
        seconds.append((time.perf_counter() - start) / count)
        del result
    return seconds[1:]


def of_slowest(ranks: Iterable[Sequence[float]]) -> Times:
    """Times of all ranks together."""
    return Times(tuple(map(max, zip(*ranks, strict=True))))


def host_clock(call: Call, count: int) -> float:
    """Seconds of one call from idle device to idle device: what a caller waits for."""
    import cupy

    device = cupy.cuda.Device()

    def calls() -> None:
        for _ in range(count):
            call()
        device.synchronize()

    device.synchronize()
    return sample(calls, 1) / count


def device_clock(call: Call, count: int) -> float:
    """Seconds of one call between two events on the current stream."""
    import cupy

    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    for _ in range(count):
        call()
    stop.record()
    stop.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, stop) / 1e3 / count)


def median_time(call: Call) -> float:
    """Return seconds of one call on the device."""
    for _ in range(3):
        call()
    return median(device_clock(call, 1) for _ in range(REPEATS))


def queued_time(call: Call, count: int = 40) -> float:
    """Return seconds of one call among many in the device's queue."""
    import cupy

    blocker = cupy.zeros(2**31, cupy.uint8)
    call()
    for _ in range(6):  # about 8 ms, while the host queues the calls
        blocker += cupy.uint8(1)
    return device_clock(call, count)


@cache
def _flush_parts() -> tuple[Any, Any, Any]:
    import cupy

    kernel = cupy.RawKernel(_FLUSH, "flush")
    return kernel, cupy.ones(2**27, cupy.float32), cupy.empty(1, cupy.float32)


def flush_cache() -> None:
    """Read 512 MB three times: operands leave the cache, no dirty lines stay.

    That takes the device about 0.5 ms, in which the host queues the events and the call between
    them: what is timed is the device's work, not the host's.
    """
    kernel, space, out = _flush_parts()
    kernel((1056,), (256,), (space, np.int64(space.size // 4), out))


def copy_bandwidth() -> float:
    """Bytes read and written a second by a copy of 1 GiB on the device."""
    import cupy

    source = cupy.zeros(2**30, cupy.uint8)
    source[:] = 7
    target = cupy.empty_like(source)
    size = source.nbytes
    seconds = median_time(lambda: target.data.copy_from_device_async(source.data, size))
    return 2 * size / seconds
