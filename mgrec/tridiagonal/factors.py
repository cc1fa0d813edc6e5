"""The factors of the tridiagonal matrices of one chunk in host memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..core.backends import CPU
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape
from .errors import check_operands, is_all_finite, name_singular_system


@dataclass(frozen=True)
class Factors:
    """The factors of a chunk's matrices.

    `lu` is None if the factors overflow, or if the matrices are singular except for rounding. The
    diagonals are for right-hand sides that are solved without the factors.
    """

    diagonals: Arrays
    shape: Shape  # of the chunk of the broadcast diagonals
    lu: Any

    def __sizeof__(self) -> int:
        return sum(part.nbytes for part in (*self.diagonals, self.lu) if part is not None)


def factor_chunk(system: Any, inputs: ChunkInputs, shape: Shape) -> Factors:
    """Return the factors of a chunk of whole systems, whose b is a constant."""
    # Copies: a diagonal that is overwritten later has no effect.
    diagonals = tuple(block.copy() for block in inputs.blocks[:3])
    if system.check_finite:
        check_operands(system, inputs, shape)
    if system.is_periodic or 0 in shape:
        return Factors(diagonals, shape, None)
    from .cpu.factor import factor_matrices

    layout = _layout(shape, system.axis)
    full_diagonals = (
        np.array(np.broadcast_to(diagonal, shape).reshape(layout), order="C") for diagonal in diagonals
    )
    try:
        with name_singular_system(system, inputs.starts, shape), np.errstate(all="ignore"):
            lu = factor_matrices(*full_diagonals)
    except np.linalg.LinAlgError:
        # Rounding makes the last pivot of a nearly singular matrix 0 in one order of the
        # unknowns and not in another, as with Dorr's matrix. The solver's order decides.
        system.determine(CPU, inputs, shape, None)
        return Factors(diagonals, shape, None)
    return Factors(diagonals, shape, lu if lu.is_finite else None)


def solve_chunk(
    factors: Factors,
    factor_shape: Shape,
    axis: int,
    shape: Shape,
    b: np.ndarray,
    threads: int = 1,
    out: Arrays = (),
) -> Any:
    """Return x of this shape, or None if the chunk has to be solved without the factors.

    `factor_shape` is the shape of the matrices, with as many axes as `shape`.
    """
    from .cpu.factor import is_faster, solve_factored

    layout = _layout(shape, axis)
    if factors.lu is None or not is_faster(layout[0] * layout[2], threads):
        return None
    x = out[0] if out else np.empty(shape, b.dtype)
    outer = _broadcast_index(factor_shape[:axis], shape[:axis])
    inner = _broadcast_index(factor_shape[axis + 1 :], shape[axis + 1 :])
    rhs = np.ascontiguousarray(b if b.shape == shape else np.broadcast_to(b, shape))
    with np.errstate(all="ignore"):
        arrays = rhs.reshape(layout), x.reshape(layout)
        solve_factored(factors.lu, outer, inner, *arrays, threads)
    # The solver handles systems that contain nan or inf, or overflow.
    return x if is_all_finite(x) else None


def _layout(shape: Shape, axis: int) -> tuple[int, int, int]:
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def _broadcast_index(factor_shape: Shape, shape: Shape) -> np.ndarray:
    """Return, for each element of a shape, the flat index into an array that broadcasts to it."""
    index = np.arange(prod(factor_shape), dtype=np.int64)
    if factor_shape == shape:
        return index
    index = index.reshape(factor_shape)
    return np.ascontiguousarray(np.broadcast_to(index, shape)).reshape(-1)
