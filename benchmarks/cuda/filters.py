"""Filters on one GPU: checked against SciPy, then timed against the floor of memory traffic.

The floor is one reading of x and one writing of y, each in its own dtype, at the bandwidth of
a device-to-device copy measured in the same run; *fraction* is floor time over measured time: of
the kernels, while others wait in the queue, and of a call on an idle device, which waits 0.1 ms
for Python. cupyx.scipy.signal, which needs 50 times as long, filters shorter signals in the same
run.

usage: python -m benchmarks.cuda.filters [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from scipy import signal

import mgrec.signal
from mgrec.core.arrays.chunk import Chunk, canonical_shape
from mgrec.filters.cascade import Cascade
from mgrec.filters.cuda.phases import determine_filter

from .clock import copy_bandwidth, median_time, queued_time, record_of, store

Filter = tuple[str, tuple[Any, ...]]
FILTERS: dict[str, Filter] = {
    "order 1, 0.1": ("lfilter", tuple(signal.butter(1, 0.1))),
    "order 2, 0.1": ("lfilter", tuple(signal.butter(2, 0.1))),
    "order 4, 0.1": ("lfilter", tuple(signal.butter(4, 0.1))),
    "order 8, 0.2": ("lfilter", tuple(signal.butter(8, 0.2))),
    "8 sections, 0.2": ("sosfilt", (signal.butter(16, 0.2, output="sos"),)),
    "33 taps": ("lfilter", (signal.firwin(33, 0.2), [1.0])),
    "order 2, 0.001, long memory": ("lfilter", tuple(signal.butter(2, 0.001))),
    "notch at 1e-4, long memory": ("lfilter", tuple(signal.iirnotch(2e-4, 30))),
}
NARROW = ["order 2, 0.1", "order 8, 0.2", "8 sections, 0.2"]
# Filter, shape, dtype of x, axis, dtype of the coefficients and the results.
CASES = [
    *((name, (1 << 28,), "f4", 0, "f4") for name in FILTERS),
    *((name, (1 << 27,), "f8", 0, "f8") for name in FILTERS),
    *((name, (1 << 28,), dtype, 0, "f8") for dtype in ("f4", "i2") for name in NARROW),
    ("order 2, 0.1", (64, 1 << 22), "f4", 1, "f4"),
    ("order 2, 0.1", (1 << 22, 64), "f4", 0, "f4"),
    ("8 sections, 0.2", (1 << 22, 64), "f4", 0, "f4"),
    ("order 2, 0.1", (1 << 24,), "f4", 0, "f4"),
]
PEERS = [
    ("order 1, 0.1", 26),
    ("order 2, 0.1", 26),
    ("order 8, 0.2", 24),
    ("8 sections, 0.2", 24),
]
CHECKED = 1 << 16


def apply(library: Any, name: str, x: Any, kind: str, axis: int = 0, **options: Any) -> Any:
    function, coefficients = FILTERS[name]
    # The result has the dtype of the coefficients, where they are wider than x.
    given = [np.asarray(part, kind) for part in coefficients]
    return getattr(library, function)(*given, x, axis=axis, **options)


def samples(shape: tuple[int, ...], dtype: str) -> Any:
    x = cupy.random.default_rng(1).random(shape, "f4" if dtype == "i2" else dtype)
    x -= 0.5
    return (x * 60_000).astype(dtype) if dtype == "i2" else x


def kernels(name: str, x: Any, y: Any, axis: int) -> Any:
    """The launches of a filter without the public function."""
    function, coefficients = FILTERS[name]
    given = [np.asarray(part, y.dtype) for part in coefficients]
    is_sections = function == "sosfilt"
    cascade = Cascade.of_sections(*given) if is_sections else Cascade.of_polynomials(*given)
    layout = canonical_shape(x.shape, axis)
    chunk = Chunk((x.reshape(layout),), layout, y.dtype)
    return lambda: determine_filter(cascade, chunk, None, y.reshape(layout))


def deviation(name: str, x: Any, y: Any, axis: int) -> float:
    """Largest deviation of a few rows from SciPy's in float64, relative to the largest output."""
    if x.ndim == 2:
        x, y = (part[3] if axis else part[:, 3] for part in (x, y))
    source, got = x[:CHECKED].get(), y[:CHECKED].get()
    function, coefficients = FILTERS[name]
    given = [np.asarray(part, y.dtype).astype(float) for part in coefficients]
    wanted = getattr(signal, function)(*given, source.astype(float))
    return float(np.abs(got - wanted).max() / np.abs(wanted).max())


def measure(case: Any, bandwidth: float) -> dict[str, Any]:
    name, shape, dtype, axis, kind = case
    row: dict[str, Any] = {"filter": name, "shape": list(shape), "dtype": kind, "axis": axis}
    row |= {"x dtype": dtype} if dtype != kind else {}
    try:
        x = samples(shape, dtype)
        y = cupy.full(shape, cupy.nan, kind)
        apply(mgrec.signal, name, x, kind, axis, out=y)
        row["deviation"] = deviation(name, x, y, axis)
        again = cupy.full_like(y, cupy.nan)
        apply(mgrec.signal, name, x, kind, axis, out=again)
        row["same"] = bool((y == again).all())
        del again
        floor = (x.nbytes + y.nbytes) / bandwidth
        seconds = queued_time(kernels(name, x, y, axis), 20)
        row |= {"ms": seconds * 1e3, "fraction": floor / seconds}
        call = median_time(lambda: apply(mgrec.signal, name, x, kind, axis, out=y))
        row |= {"call ms": call * 1e3, "call fraction": floor / call}
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {str(error)[:300]}"
    return row


def measure_peers() -> Iterator[dict[str, Any]]:
    from cupyx.scipy import signal as cupyx

    for name, power in PEERS:
        x = cupy.random.default_rng(2).random(1 << power, "f4") - np.float32(0.5)
        y = cupy.empty_like(x)
        function, coefficients = FILTERS[name]
        given = [cupy.asarray(part, "f4") for part in coefficients]
        theirs = median_time(lambda: getattr(cupyx, function)(*given, x))  # noqa: B023
        ours = median_time(lambda: apply(mgrec.signal, name, x, "f4", out=y))  # noqa: B023
        yield {
            "filter": name, "samples": 1 << power, "dtype": "f4", "cupyx ms": theirs * 1e3,
            "mgrec ms": ours * 1e3, "times": theirs / ours,
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of the result, or its file")
    arguments = parser.parse_args()
    bandwidth = copy_bandwidth()
    gpu = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    print(f"{gpu}, CuPy {cupy.__version__}, copy {bandwidth / 1e12:.3f} TB/s")
    rows: list[dict[str, Any]] = []
    measured = (measure(case, bandwidth) for case in CASES)
    for row in chain(measured, measure_peers()):
        rows.append(row)
        print(" ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}"
                       for k, v in row.items()), flush=True)  # fmt: skip
        cupy.get_default_memory_pool().free_all_blocks()
    store(record_of("cuda_filters", gpu, bandwidth, rows), arguments.out)
    sys.exit(any("error" in row or not row.get("same", True) for row in rows))


if __name__ == "__main__":
    main()
