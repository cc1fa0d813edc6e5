"""Tridiagonal systems on one GPU: checked, then timed against the floor of memory traffic.

The floor is one reading of dl, d, du and b and one writing of x at the bandwidth of a
device-to-device copy measured in the same run; *fraction* is floor time over measured time: of
the public call alone, and of each of 20 calls in a row. cuSPARSE, JAX and mgrec's other methods
solve the same systems in the same run.

usage: python -m benchmarks.cuda.tridiagonal [CASE ...] [--out FILE]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import cupy
import numpy as np

import mgrec

from . import cusparse
from .clock import device_clock, host_clock
from .fractions import Call, Clock, fractions
from .fractions import run as study

# JAX would take three quarters of the memory.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


@dataclass(frozen=True)
class Case:
    """Systems of one shape; `is_dominant` where elimination needs no pivoting."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    axis: int = 0
    is_dominant: bool = False


CASES = [
    Case("one of 2^25 f32, random", (2**25,), "f4"),
    Case("one of 2^25 f32, dominant", (2**25,), "f4", is_dominant=True),
    Case("one of 2^28 f32, random", (2**28,), "f4"),
    Case("one of 2^28 f32, dominant", (2**28,), "f4", is_dominant=True),
    Case("one of 2^24 f64, random", (2**24,), "f8"),
    Case("one of 2^27 f64, random", (2**27,), "f8"),
    Case("one of 2^27 f64, dominant", (2**27,), "f8", is_dominant=True),
    Case("25,000 of 4,095 f32, random", (25_000, 4095), "f4", 1),
    Case("25,000 of 4,095 f32, dominant", (25_000, 4095), "f4", 1, True),
    Case("12,500 of 4,095 f64, dominant", (12_500, 4095), "f8", 1, True),
    Case("25,000 of 4,095 f32, interleaved, dominant", (4095, 25_000), "f4", 0, True),
    Case("12,500 of 4,095 f64, interleaved, dominant", (4095, 12_500), "f8", 0, True),
    Case("10^6 of 64 f32, random", (10**6, 64), "f4", 1),
    Case("10^6 of 64 f32, dominant", (10**6, 64), "f4", 1, True),
    Case("250 of 400,000 f32, interleaved, dominant", (400_000, 250), "f4", 0, True),
    Case("1,000 of 64 f32, dominant", (1000, 64), "f4", 1, True),
]


def build(case: Case, seed: int) -> list[Any]:
    """dl, d, du and b."""
    rng = cupy.random.default_rng(seed)
    dl, d, du, b = (rng.standard_normal(case.shape, dtype=case.dtype) for _ in range(4))
    if case.is_dominant:
        cupy.clip(dl, -2, 2, out=dl)
        cupy.clip(du, -2, 2, out=du)
        d.fill(4.5)
    return [dl, d, du, b]


def residual(case: Case, operands: list[Any], x: Any) -> float:
    """The largest residual of a row, relative to the largest sum of a row's terms."""
    dl, d, du, b, x = (cupy.moveaxis(part, case.axis, -1) for part in (*operands, x))
    rest, size = d * x - b, abs(d * x) + abs(b)
    rest[..., 1:] += dl[..., 1:] * x[..., :-1]
    size[..., 1:] += abs(dl[..., 1:] * x[..., :-1])
    rest[..., :-1] += du[..., :-1] * x[..., 1:]
    size[..., :-1] += abs(du[..., :-1] * x[..., 1:])
    return float(abs(rest).max() / size.max())


def peers(case: Case, operands: list[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """cuSPARSE's solvers for a layout; they write to `operands`, which are copies."""
    if len(case.shape) == 1:
        yield "cuSPARSE gtsv2", cusparse.gtsv2(*operands)
        if case.is_dominant:
            yield "cuSPARSE gtsv2_nopivot", cusparse.gtsv2(*operands, pivots=False)
    elif case.axis == 1:
        yield "cuSPARSE gtsv2StridedBatch", cusparse.strided_batch(*operands)
    else:
        for algorithm in range(3):
            name = f"cuSPARSE gtsvInterleavedBatch {algorithm}"
            yield name, cusparse.interleaved_batch(*operands, algorithm)


def own_methods(case: Case, operands: list[Any], out: Any) -> Iterator[tuple[str, Call]]:
    """Those that do not pivot. One system by "thomas" would be one thread's for seconds."""
    if not case.is_dominant:
        return
    for method in ("thomas", "cyclic-reduction", "pcr", "p-scheme"):
        is_long = len(case.shape) == 1
        if is_long if method == "thomas" else not is_long and method == "p-scheme":
            continue
        options = {} if method == "p-scheme" else {"out": out}
        solve = partial(mgrec.solve_tridiagonal, *operands, axis=case.axis, method=method)
        yield f"mgrec {method}", partial(solve, **options)


def jax_solve(case: Case, operands: list[Any]) -> Call:
    """jax.lax.linalg.tridiagonal_solve, compiled; to be timed by the host."""
    import jax

    jax.config.update("jax_enable_x64", True)
    # Its last axes are the rows and the right-hand sides.
    *diagonals, b = (jax.dlpack.from_dlpack(part) for part in operands)
    solve = jax.jit(jax.lax.linalg.tridiagonal_solve)
    b = b[..., None]
    return lambda: solve(*diagonals, b).block_until_ready()


def measure(case: Case, bandwidth: float) -> Iterator[dict[str, Any]]:
    operands = build(case, len(case.name))
    out = cupy.full(case.shape, np.nan, case.dtype)
    # Before anything is measured: what is copied for the peers, and for the residual.
    mgrec.solve_tridiagonal(*operands, axis=case.axis, out=out)
    about: dict[str, Any] = {"case": case.name}
    if out.size <= 2**27:
        about["residual"] = residual(case, operands, out)
    candidates: list[tuple[str, Call, Clock]] = [
        (
            "mgrec",
            partial(mgrec.solve_tridiagonal, *operands, axis=case.axis, out=out),
            device_clock,
        )
    ]
    if out.size < 2**27:
        copies = [part.copy() for part in operands]
        found = [*own_methods(case, operands, out), *peers(case, copies)]
        candidates += [(name, run, device_clock) for name, run in found]
        if case.axis == len(case.shape) - 1:
            name = "JAX tridiagonal_solve, the host's clock"
            candidates.append((name, jax_solve(case, operands), host_clock))
    floor = 5 * out.nbytes / bandwidth
    for name, run, clock in candidates:
        yield about | {"solver": name} | fractions(run, floor, clock)


if __name__ == "__main__":
    study("cuda_tridiagonal", __doc__, CASES, measure, lambda row: row.get("residual", 0.0) > 1e-5)
