"""Banded and block tridiagonal systems on one GPU: checked, then timed against the floor of memory traffic.

The floor is one reading of all operands and one writing of x. Dominant systems need no pivots; those
with rows exchanged do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import cupy
import numpy as np

import mgrec

from .fractions import Row, Trial, run, timed


@dataclass(frozen=True)
class Case:
    """Systems of a shape with `lower` and `upper` diagonals, or with blocks of `block` numbers a side."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    widths: tuple[int, int] = (2, 2)
    block: int = 0
    needs_pivots: bool = False


CASES = [
    Case("five diagonals, one of 2^24 f32", (2**24,), "f4"),
    Case("five diagonals, one of 2^26 f32", (2**26,), "f4"),
    Case("five diagonals, one of 2^25 f64", (2**25,), "f8"),
    Case("five diagonals, one of 2^24 f32, pivots", (2**24,), "f4", needs_pivots=True),
    Case("five diagonals, 100,000 of 256 f32", (100_000, 256), "f4"),
    Case("three diagonals, one of 2^26 f32", (2**26,), "f4", (1, 1)),
    Case("1 and 3 diagonals, one of 2^25 f32", (2**25,), "f4", (1, 3)),
    Case("nine diagonals, one of 2^25 f32", (2**25,), "f4", (4, 4)),
    Case("nine diagonals, one of 2^24 f64", (2**24,), "f8", (4, 4)),
    Case("blocks of 2, one of 2^23 f32", (2**23,), "f4", block=2),
    Case("blocks of 2, one of 2^22 f64", (2**22,), "f8", block=2),
    Case("blocks of 2, one of 2^22 f32, pivots", (2**22,), "f4", block=2, needs_pivots=True),
    Case("blocks of 4, one of 2^21 f32", (2**21,), "f4", block=4),
    Case("blocks of 8, one of 2^19 f64", (2**19,), "f8", block=8),
]


def draw(case: Case) -> list[Any]:
    """ab and b, or dl, d, du and b."""
    rng = cupy.random.default_rng(len(case.name))

    def numbers(*shape: int) -> Any:
        return 2 * rng.random(shape, dtype=case.dtype) - 1

    if k := case.block:
        main = 3 * k * cupy.eye(k, dtype=case.dtype)
        d = numbers(*case.shape, k, k) + (main[::-1] if case.needs_pivots else main)
        return [numbers(*case.shape, k, k), d, numbers(*case.shape, k, k), numbers(*case.shape, k)]
    lower, upper = case.widths
    ab = numbers(*case.shape[:-1], lower + upper + 1, case.shape[-1])
    if not case.needs_pivots:
        ab[..., upper, :] += 1.5 * (lower + upper + 1)
    return [ab, numbers(*case.shape)]


def residual(case: Case, operands: list[Any], x: Any) -> float:
    """The largest residual of a row, relative to the largest sum of a row's terms."""
    *matrix, b = operands
    rest, size = -b, abs(b)
    if case.block:
        for step, blocks in zip((-1, 0, 1), matrix, strict=True):
            rows, columns = _kept(-step), _kept(step)
            product = blocks[rows] * x[columns][:, None, :]
            rest[rows] += product.sum(-1)
            size[rows] += abs(product).sum(-1)
    else:
        for step in range(-case.widths[0], case.widths[1] + 1):
            rows, columns = _kept(-step), _kept(step)
            product = matrix[0][..., case.widths[1] - step, columns] * x[..., columns]
            rest[..., rows] += product
            size[..., rows] += abs(product)
    return float(abs(rest).max() / size.max())


def _kept(step: int) -> slice:
    return slice(max(step, 0), min(step, 0) or None)


def build(case: Case) -> Trial:
    operands = draw(case)
    out = cupy.full(operands[-1].shape, np.nan, case.dtype)
    if case.block:
        solve = partial(mgrec.solve_block_tridiagonal, *operands, out=out)
    else:
        solve = partial(mgrec.solve_banded, case.widths, *operands, out=out)
    solve()
    about = {"residual": residual(case, operands, out)}

    def check(row: Row) -> Row:
        return about

    moved = out.nbytes + sum(part.nbytes for part in operands)
    return Trial(lambda bandwidth: moved / bandwidth, {"mgrec": lambda: solve}, check, "solver")


if __name__ == "__main__":
    run("cuda_banded", __doc__, CASES, timed(build), lambda row: row.get("residual", 0) > 1e-5)
