"""Summed-area tables on one GPU: checked, then timed against the floor of memory traffic.

The floor is one reading of the images and one writing of the tables at the bandwidth of a
device-to-device copy measured in the same run; *fraction* is floor time over measured time: of
the public call alone, and of each of 20 calls in a row. Cumulative sums along one axis, then the
other, by CuPy and PyTorch solve the same in the same run.

usage: python -m benchmarks.cuda.summed_area [CASE ...] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import numpy as np

import mgrec

from ..harness.records import write
from .clock import copy_bandwidth, device_clock, record_of
from .packages import as_torch

IN_A_ROW = 20
SLOW = 0.02
"""Seconds."""
Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """Images of one shape, and the dtype of their sums."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    summed: str


CASES = [
    Case("16,384 x 16,384 f32", (2**14, 2**14), "f4", "f4"),
    Case("16,384 x 16,384 u8 to i32", (2**14, 2**14), "u1", "i4"),
    Case("16,384 x 16,384 u8 to u64", (2**14, 2**14), "u1", "u8"),
    Case("16,384 x 16,384 f64", (2**14, 2**14), "f8", "f8"),
    Case("16,383 x 16,383 f32", (2**14 - 1, 2**14 - 1), "f4", "f4"),
    Case("16,383 x 16,383 u8 to i32", (2**14 - 1, 2**14 - 1), "u1", "i4"),
    Case("10,000 x 10,000 f32", (10_000, 10_000), "f4", "f4"),
    Case("20,000 x 20,000 f32", (20_000, 20_000), "f4", "f4"),
    Case("4,096 x 4,096 f32", (2**12, 2**12), "f4", "f4"),
    Case("4,096 x 4,096 u8 to i32", (2**12, 2**12), "u1", "i4"),
    Case("32,768 x 1,024 f32", (2**15, 2**10), "f4", "f4"),
    Case("1,024 x 32,768 f32", (2**10, 2**15), "f4", "f4"),
    Case("10,000 of 64 x 64 f32", (10_000, 64, 64), "f4", "f4"),
    Case("10,000 of 64 x 64 u8 to i32", (10_000, 64, 64), "u1", "i4"),
    Case("1,000,000 of 8 x 8 f32", (10**6, 8, 8), "f4", "f4"),
    Case("200 of 1,080 x 1,920 u8 to i32", (200, 1080, 1920), "u1", "i4"),
    Case("10^7 x 3 f32", (10**7, 3), "f4", "f4"),
    Case("16 x 10^7 f32", (16, 10**7), "f4", "f4"),
]


def build(case: Case) -> Any:
    rng = cupy.random.default_rng(len(case.name))
    if case.dtype == "u1":
        return rng.integers(0, 256, case.shape, dtype="u1")
    return rng.random(case.shape, dtype=case.dtype)


def by_cupy(x: Any, dtype: str) -> Any:
    return cupy.cumsum(cupy.cumsum(x, -1, dtype), -2, dtype)


def by_torch(x: Any, dtype: str) -> Call:
    import torch

    kinds = {"f4": torch.float32, "f8": torch.float64, "i4": torch.int32, "u8": torch.int64}
    (tensor,) = as_torch(x)
    return lambda: tensor.cumsum(-1, dtype=kinds[dtype]).cumsum(-2)


def candidates(case: Case, x: Any, out: Any) -> Iterator[tuple[str, Call]]:
    yield "mgrec", partial(mgrec.summed_area_table, x, dtype=case.summed, out=out)
    yield "cupy.cumsum twice", partial(by_cupy, x, case.summed)
    try:
        yield "torch.cumsum twice", by_torch(x, case.summed)
    except ImportError as error:
        print(f"torch: {error}", file=sys.stderr)


def difference(x: Any, table: Any, dtype: str) -> float:
    """The largest, relative to the number beside it: x is not below 0. The first images alone."""
    if x.ndim > 2:
        x, table = x[:100], table[:100]
    wanted = by_cupy(x, dtype)
    if table.dtype.kind in "iu":
        return float((table != wanted).any())
    # CuPy adds up one number after the other in places.
    return float((abs(table - wanted) / (abs(wanted) + 1e-30)).max())


def times(run: Call) -> tuple[float, float]:
    """Seconds of one call, and of each in a row; slow ones are called less often."""
    run()
    first = device_clock(run, 1)
    count, repeats = (IN_A_ROW, 3) if first < SLOW else (2, 1)
    alone = float(np.median([device_clock(run, 1) for _ in range(7 if first < SLOW else 1)]))
    return alone, float(np.median([device_clock(run, count) for _ in range(repeats)]))


def measure(case: Case, bandwidth: float) -> Iterator[dict[str, Any]]:
    x = build(case)
    out = cupy.empty(case.shape, case.summed)
    out.view(cupy.uint8)[...] = 0xFE
    floor = (x.nbytes + out.nbytes) / bandwidth
    for name, run in candidates(case, x, out):
        alone, row = times(run)
        about = {"difference": difference(x, out, case.summed)} if name == "mgrec" else {}
        yield {
            "case": case.name, "candidate": name, "alone ms": alone * 1e3,
            "fraction alone": floor / alone, "in a row ms": row * 1e3, "fraction": floor / row,
            **about,
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    bandwidth = copy_bandwidth()
    gpu = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    print(f"{gpu}, CuPy {cupy.__version__}, copy {bandwidth / 1e12:.3f} TB/s")
    rows: list[dict[str, Any]] = []
    for case in CASES:
        if arguments.cases and not any(word in case.name for word in arguments.cases):
            continue
        for row in measure(case, bandwidth):
            rows.append(row)
            print(" ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}"
                           for k, v in row.items()), flush=True)  # fmt: skip
        cupy.get_default_memory_pool().free_all_blocks()
    if arguments.out:
        write(record_of("cuda_summed_area", gpu, bandwidth, rows), arguments.out)
    sys.exit(any(row.get("difference", 0.0) > 1e-3 for row in rows))


if __name__ == "__main__":
    main()
