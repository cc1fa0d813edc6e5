"""Tridiagonal systems on one GPU: checked, then timed against the floor of memory traffic.

The floor is one reading of dl, d, du and b and one writing of x. cuSPARSE, JAX and mgrec's other
methods solve the same systems in the same run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import cupy
import numpy as np

import mgrec

from ..harness.clock import Call, Clock, host_clock
from . import cusparse
from .fractions import Row, Trial, run, timed

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


def draw(case: Case) -> list[Any]:
    """dl, d, du and b."""
    rng = cupy.random.default_rng(len(case.name))
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


def peers(case: Case, operands: list[Any]) -> dict[str, Callable[[], Call]]:
    """cuSPARSE's solvers for a layout; they write to `operands`, which are copies."""
    if len(case.shape) == 1:
        found = {"gtsv2": partial(cusparse.gtsv2, *operands)}
        if case.is_dominant:
            found["gtsv2_nopivot"] = partial(cusparse.gtsv2, *operands, pivots=False)
    elif case.axis == 1:
        found = {"gtsv2StridedBatch": partial(cusparse.strided_batch, *operands)}
    else:
        found = {
            f"gtsvInterleavedBatch {algorithm}": partial(cusparse.interleaved_batch, *operands, algorithm)
            for algorithm in range(3)
        }
    return {f"cuSPARSE {name}": build for name, build in found.items()}


def own_methods(case: Case, operands: list[Any], out: Any) -> dict[str, Callable[[], Call]]:
    """Those that do not pivot. One system by "thomas" would be one thread's for seconds."""
    others = ("p-scheme",) if len(case.shape) == 1 else ("thomas",)
    methods = ("thomas", "cyclic-reduction", "pcr", "p-scheme") if case.is_dominant else ()
    solve = partial(mgrec.solve_tridiagonal, *operands, axis=case.axis)
    return {
        f"mgrec {method}": partial(
            partial, solve, method=method, **({} if method == "p-scheme" else {"out": out})
        )
        for method in methods
        if method in ("cyclic-reduction", "pcr", *others)
    }


def jax_solve(operands: list[Any]) -> tuple[Call, Clock]:
    """jax.lax.linalg.tridiagonal_solve, compiled; it has streams of its own."""
    import jax

    jax.config.update("jax_enable_x64", True)
    # Its last axes are the rows and the right-hand sides.
    *diagonals, b = (jax.dlpack.from_dlpack(part) for part in operands)
    solve = jax.jit(jax.lax.linalg.tridiagonal_solve)
    b = b[..., None]
    return lambda: solve(*diagonals, b).block_until_ready(), host_clock


def build(case: Case) -> Trial:
    operands, out = draw(case), cupy.full(case.shape, np.nan, case.dtype)
    solve = partial(mgrec.solve_tridiagonal, *operands, axis=case.axis, out=out)
    # Before anything is measured: what is copied for the peers, and for the residual.
    solve()
    about = {"residual": residual(case, operands, out)} if out.size <= 2**27 else {}
    builds: dict[str, Any] = {"mgrec": lambda: solve}
    if out.size < 2**27:
        copies = [part.copy() for part in operands]
        builds |= own_methods(case, operands, out) | peers(case, copies)
        if case.axis == len(case.shape) - 1:
            builds["JAX tridiagonal_solve, the host's clock"] = partial(jax_solve, operands)

    def check(row: Row) -> Row:
        return about

    return Trial(lambda bandwidth: 5 * out.nbytes / bandwidth, builds, check, "solver")


if __name__ == "__main__":
    run("cuda_tridiagonal", __doc__, CASES, timed(build), lambda row: row.get("residual", 0) > 1e-5)
