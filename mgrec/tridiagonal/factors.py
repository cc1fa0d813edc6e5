"""The factors of the tridiagonal matrices of one chunk in host memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..engines import CPU
from .finite import check_operands, is_all_finite
from .singular import named


@dataclass(frozen=True)
class Factors:
    """The factors of a chunk's matrices.

    Attributes
    ----------
    diagonals : three arrays
        dl, d and du, for what is solved anew.
    shape : tuple of int
        Of the chunk of the broadcast diagonals.
    own : Factored, or None
        None where factors overflow or are singular but for rounding.
    """

    diagonals: Arrays
    shape: Shape
    own: Any

    def __sizeof__(self) -> int:
        return sum(each.nbytes for each in (*self.diagonals, self.own) if each is not None)


def factor_chunk(system: Any, inputs: ChunkInputs, shape: Shape) -> Factors:
    """The factors of a chunk of whole systems, whose b is a constant."""
    # Copies: a diagonal that is overwritten later changes nothing.
    diagonals = tuple(block.copy() for block in inputs.blocks[:3])
    if system.check_finite:
        check_operands(system, inputs, shape)
    if system.is_periodic or 0 in shape:
        return Factors(diagonals, shape, None)
    from .cpu.factor import matrices

    layout = prod(shape[: system.axis]), shape[system.axis], prod(shape[system.axis + 1 :])
    full = (
        np.array(np.broadcast_to(diagonal, shape).reshape(layout), order="C")
        for diagonal in diagonals
    )
    try:
        with named(system, inputs.starts, shape), np.errstate(all="ignore"):
            own = matrices.factored(*full)
    except np.linalg.LinAlgError:
        # Rounding makes the last pivot of a nearly singular matrix 0 in one order of the
        # unknowns and not in another: Dorr's is such a one. What solves anew decides.
        system.determine(CPU, inputs, shape, None)
        return Factors(diagonals, shape, None)
    return Factors(diagonals, shape, own if own.is_finite else None)


def solve_chunk(
    factors: Factors,
    of: Shape,
    axis: int,
    shape: Shape,
    b: np.ndarray,
    threads: int = 1,
    out: Arrays = (),
) -> Any:
    """x of this shape, or None where it is to be solved anew; `of` as in `solve`."""
    from .cpu.factor import matrices

    layout = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    if factors.own is None or not matrices.is_worth(layout[0] * layout[2], threads):
        return None
    x = out[0] if out else np.empty(shape, b.dtype)
    outer, inner = _index(of[:axis], shape[:axis]), _index(of[axis + 1 :], shape[axis + 1 :])
    sides = np.ascontiguousarray(b if b.shape == shape else np.broadcast_to(b, shape))
    with np.errstate(all="ignore"):
        arrays = sides.reshape(layout), x.reshape(layout)
        matrices.solve(factors.own, outer, inner, *arrays, threads)
    # What holds nan or inf, or overflows, is that of a solve.
    return x if is_all_finite(x) else None


def _index(own: Shape, shape: Shape) -> np.ndarray:
    """The index, in C order, in an array that broadcasts to a shape, of each place of it."""
    index = np.arange(prod(own), dtype=np.int64)
    if own == shape:
        return index
    index = index.reshape(own)
    return np.ascontiguousarray(np.broadcast_to(index, shape)).reshape(-1)
