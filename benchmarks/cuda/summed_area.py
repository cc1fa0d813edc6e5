"""Summed-area tables on one GPU: checked, then timed against the floor of memory traffic.

The floor is one reading of the images and one writing of the tables. Cumulative sums along one
axis, then the other, by CuPy and PyTorch solve the same in the same run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import cupy

import mgrec

from ..harness.clock import Call
from .fractions import Row, Trial, run, timed
from .packages import as_torch


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


def draw(case: Case) -> Any:
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


def difference(x: Any, table: Any, dtype: str) -> float:
    """The largest, relative to the number beside it: x is not below 0. The first images alone."""
    if x.ndim > 2:
        x, table = x[:100], table[:100]
    wanted = by_cupy(x, dtype)
    if table.dtype.kind in "iu":
        return float((table != wanted).any())
    # CuPy adds up one number after the other in places.
    return float((abs(table - wanted) / (abs(wanted) + 1e-30)).max())


def build(case: Case) -> Trial:
    x = draw(case)
    out = cupy.empty(case.shape, case.summed)
    out.view(cupy.uint8)[...] = 0xFE
    builds = {
        "mgrec": lambda: partial(mgrec.summed_area_table, x, dtype=case.summed, out=out),
        "cupy.cumsum twice": lambda: partial(by_cupy, x, case.summed),
        "torch.cumsum twice": lambda: by_torch(x, case.summed),
    }

    def check(row: Row) -> Row:
        is_own = row["candidate"] == "mgrec"
        return {"difference": difference(x, out, case.summed)} if is_own else {}

    return Trial(lambda bandwidth: (x.nbytes + out.nbytes) / bandwidth, builds, check)


if __name__ == "__main__":
    run("cuda_summed_area", __doc__, CASES, timed(build), lambda row: row.get("difference", 0) > 1e-3)
