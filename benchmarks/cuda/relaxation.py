"""Successive over-relaxation on one GPU: checked, then timed against the floor of memory traffic.

The floor of a sweep is one reading of the grid and of the right-hand side, if there is one, and one
writing. Several sweeps of one reading may take less than the floor: fractions above 1.

A plain kernel for every diagonal of the grid does the same sweep, point by point in the same
order. Red-black sweeps with CuPy are another method: the same equation, other numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import cupy
import numpy as np

import mgrec

from ..harness.clock import Call
from .fractions import Row, Trial, run, timed

OMEGA = 1.5

DIAGONAL = cupy.RawKernel(
    r"""
extern "C" __global__ void diagonal(
    float* x, int rows, int columns, int diagonal, float keep, float weight) {
  const int first = max(1, diagonal - (columns - 2));
  const int i = first + blockIdx.x * blockDim.x + threadIdx.x, j = diagonal - i;
  if (i > rows - 2 || j < 1) return;
  float* at = x + (long long)i * columns + j;
  const float around = at[-columns] + at[-1] + at[columns] + at[1];
  at[0] = keep * at[0] + weight * around;
}""",
    "diagonal",
    ("-fmad=false",),
)


@dataclass(frozen=True)
class Case:
    """Grids of one shape, and how they are swept."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "f4"
    sweeps: int = 1
    has_rhs: bool = False


LARGE = (2**14, 2**14)
CASES = [
    *(Case(f"16,384 x 16,384 f32, {n} sweeps", LARGE, sweeps=n) for n in (1, 2, 4, 8, 16, 64)),
    *(Case(f"16,384 x 16,384 f64, {n} sweeps", LARGE, "f8", n) for n in (1, 4, 16)),
    *(Case(f"16,384 x 16,384 f32, rhs, {n} sweeps", LARGE, "f4", n, True) for n in (1, 4, 16)),
    Case("16,383 x 16,383 f32, 1 sweep", (2**14 - 1, 2**14 - 1)),
    Case("4,096 x 4,096 f32, 1 sweep", (2**12, 2**12)),
    Case("4,096 x 4,096 f32, 16 sweeps", (2**12, 2**12), sweeps=16),
    Case("1,024 x 1,024 f32, 96 sweeps", (2**10, 2**10), sweeps=96),
    Case("262,144 x 1,024 f32, 1 sweep", (2**18, 2**10)),
    Case("1,024 x 262,144 f32, 1 sweep", (2**10, 2**18)),
    Case("200 of 1,024 x 1,024 f32, 4 sweeps", (200, 2**10, 2**10), sweeps=4),
    Case("10,000 of 64 x 64 f32, 1 sweep", (10_000, 64, 64)),
    Case("10,000 of 64 x 64 f32, 16 sweeps", (10_000, 64, 64), sweeps=16),
]


def by_diagonals(x: Any, out: Any, sweeps: int) -> None:
    """A launch for every diagonal of every sweep."""
    cupy.copyto(out, x)
    rows, columns = out.shape
    weights = np.float32(1 - OMEGA), np.float32(OMEGA / 4)
    for _ in range(sweeps):
        for number in range(2, rows + columns - 3):
            count = min(number - 1, rows - 2, columns - 2, rows + columns - 3 - number)
            DIAGONAL((-(-count // 128),), (128,), (out, rows, columns, number, *weights))


def by_colours(x: Any, out: Any, sweeps: int) -> None:
    """Red-black sweeps: every second point at once, then the others."""
    cupy.copyto(out, x)
    for _ in range(sweeps):
        for colour in (0, 1):
            for row in (1, 2):
                first = 1 + (row + 1 + colour) % 2
                inner = out[..., row:-1:2, first:-1:2]
                around = out[..., row - 1 : -2 : 2, first:-1:2] + out[..., row + 1 :: 2, first:-1:2]
                around += out[..., row:-1:2, first - 1 : -2 : 2]
                around += out[..., row:-1:2, first + 1 :: 2]
                inner *= 1 - OMEGA
                inner += OMEGA / 4 * around


PEERS = {"a kernel a diagonal": by_diagonals, "red-black by CuPy (another method)": by_colours}


def is_same(case: Case, x: Any, rhs: Any, out: Any) -> bool:
    """Whether a result has the bits of the loop in host memory; the first grids alone."""
    some = slice(0, 100) if x.ndim > 2 else slice(None)
    side = None if rhs is None else rhs[some].get()
    wanted = mgrec.sor(x[some].get(), side, omega=OMEGA, sweeps=case.sweeps)
    return bool((out[some].get() == wanted).all())


def build(case: Case) -> Trial:
    rng = cupy.random.default_rng(len(case.name))
    x = rng.standard_normal(case.shape, dtype=case.dtype)
    rhs = rng.standard_normal(case.shape, dtype=case.dtype) if case.has_rhs else None
    out = cupy.empty_like(x)
    out.view(cupy.uint8)[...] = 0xFE
    call = partial(mgrec.sor, x, rhs, omega=OMEGA, sweeps=case.sweeps, out=out)
    builds: dict[str, Callable[[], Call]] = {"mgrec": lambda: call}
    if len(case.shape) == 2 and case.dtype == "f4" and not case.has_rhs and case.sweeps < 9:
        for name, other in PEERS.items():
            builds[name] = partial(partial, other, x, out, case.sweeps)

    def check(row: Row) -> Row:
        about = {"sweep ms": row["in a row ms"] / case.sweeps}
        if row["candidate"] == "mgrec":
            about["is same"] = is_same(case, x, rhs, out)
        return about

    words = 3 if case.has_rhs else 2
    return Trial(lambda bandwidth: case.sweeps * words * x.nbytes / bandwidth, builds, check)


if __name__ == "__main__":
    run("cuda_relaxation", __doc__, CASES, timed(build), lambda row: not row.get("is same", True))
