"""Clocks of the device: events around a call, and the bandwidth of a copy."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from ..harness.machine import describe_commit
from ..harness.records import write

REPEATS = 15
_FLUSH = """
extern "C" __global__ void flush(const float4* x, long long count, float* out) {
  float sum = 0;
  for (int pass = 0; pass < 3; ++pass)
    for (long long i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256)
      sum += x[i].x + x[i].y + x[i].z + x[i].w;
  if (sum < 0) *out = sum;
}
"""


def median_time(run: Callable[[], Any]) -> float:
    """Return seconds of one call on the device."""
    for _ in range(3):
        run()
    return float(np.median([device_clock(run, 1) for _ in range(REPEATS)]))


def device_clock(run: Callable[[], Any], count: int) -> float:
    """Seconds of one call between two events on the current stream."""
    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    for _ in range(count):
        run()
    stop.record()
    stop.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, stop) / 1e3 / count)


def host_clock(run: Callable[[], Any], count: int) -> float:
    """Seconds of one call from idle device to idle device: what a caller waits for."""
    device = cupy.cuda.Device()
    device.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        run()
    device.synchronize()
    return (time.perf_counter() - start) / count


@cache
def _flush_parts() -> tuple[Any, Any, Any]:
    kernel = cupy.RawKernel(_FLUSH, "flush")
    return kernel, cupy.ones(2**27, cupy.float32), cupy.empty(1, cupy.float32)


def flush_cache() -> None:
    """Read 512 MB three times: operands leave the cache, no dirty lines stay.

    That takes the device about 0.5 ms, in which the host queues the events and the call between
    them: what is timed is the device's work, not the host's.
    """
    kernel, space, out = _flush_parts()
    kernel((1056,), (256,), (space, np.int64(space.size // 4), out))


def queued_time(run: Callable[[], Any], count: int = 40) -> float:
    """Return seconds of one call among many in the device's queue."""
    blocker = cupy.zeros(2**31, cupy.uint8)
    run()
    for _ in range(6):  # about 8 ms, while the host queues the calls
        blocker += cupy.uint8(1)
    return device_clock(run, count)


def copy_bandwidth() -> float:
    """Bytes read and written a second by a copy of 1 GiB on the device."""
    source = cupy.zeros(2**30, cupy.uint8)
    source[:] = 7
    target = cupy.empty_like(source)
    size = source.nbytes
    seconds = median_time(lambda: target.data.copy_from_device_async(source.data, size))
    return 2 * size / seconds


def store(record: dict[str, Any], out: Path | None) -> None:
    """Write a record into a folder, under the name of its study, GPU and day; or into a file."""
    if out is None:
        return
    if out.suffix != ".json":
        study, gpu = str(record["study"]).replace("_", "-"), record["machine"]["gpu"]
        out = out / f"{study}-{short_name(gpu)}-{record['date']}.json"
    write(record, out)
    print(out)


def short_name(gpu: str) -> str:
    """ "NVIDIA H100 80GB HBM3" is an h100."""
    words = [word for word in gpu.lower().split() if word not in ("nvidia", "tesla", "geforce")]
    return re.sub(r"[^a-z0-9]+", "-", words[0] if words else "gpu").strip("-")


def record_of(study: str, gpu: str, bandwidth: float, rows: Any, **more: Any) -> dict[str, Any]:
    """The record of a study of one GPU."""
    return {
        "study": study,
        "machine": {"gpu": gpu},
        "versions": {"cupy": cupy.__version__, "python": platform.python_version()},
        "commit": describe_commit(),
        "date": date.today().isoformat(),
        "copy_bandwidth_bytes_per_second": bandwidth,
        **more,
        "rows": rows,
    }
