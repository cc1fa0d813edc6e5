"""Banded systems as a two-sided recurrence: the equations of chunks in their interfaces form a system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan, prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core.arrays.chunk import Chunk, canonical_shape, lay_out_array
from ..core.backends import Backend
from ..core.contract.kernels import PreparedSolver
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..tridiagonal.errors import NAMES
from ..tridiagonal.systems import LinearSystem, rows_at_ends

MAX_WIDTH = 8
"""Largest number of unknowns before or after a chunk that its rows contain."""
_MOST_SYSTEMS, _MOST_CONDITION = 64, 1e4
"""Most systems, and largest condition number, of equations at the ends of chunks that NumPy solves."""


class BandedEnds(NamedTuple):
    """The widths of a matrix, and the rows of the system before and after a chunk.

    A step of a chunk has `block` rows, with the coefficients of `lower` + `upper` + `block` unknowns. These
    begin `lower` unknowns before the step.
    """

    lower: int
    upper: int
    around: tuple[int, int]
    is_whole: bool
    block: int = 1


def are_rows_contiguous(array: Any) -> bool:
    """Return whether all rows along the last axis are contiguous, and equally far apart."""
    pairs = zip(array.strides[:-2], array.strides[1:-1], array.shape[1:-1], strict=True)
    return array.strides[-1] == array.itemsize and all(outer == inner * size for outer, inner, size in pairs)


def join_ends(first: np.ndarray, last: np.ndarray, lower: int) -> np.ndarray | None:
    """Return the equations of a chunk from those of its first and of its last rows, as in `rows`.

    Those of the first rows give the unknowns of these that rows before the chunk contain, if the unknowns
    after the first rows have no effect; likewise those of the last rows. None if they have, if the equations
    nearly depend on each other, or if they contain nan or inf.
    """
    wide = first.shape[-2]
    rows = np.zeros_like(first)
    # Columns: of the unknowns at the chunk's end and outside of it, of those that are far and beyond.
    before, after = np.arange(lower), np.arange(wide + lower, 2 * wide)
    at_start, at_end = np.arange(lower, wide), np.arange(wide, wide + lower)
    ends = (first, at_start, before, at_end, after), (last, at_end, after, at_start, before)
    number = 0
    for equations, near, outside, far, beyond in ends:
        known = equations[..., [*outside, *beyond, -1]]
        unknown = equations[..., [*near, *far]]
        identity = np.broadcast_to(np.eye(wide, dtype=rows.dtype), unknown.shape)
        try:
            with np.errstate(all="ignore"):
                solved = np.linalg.solve(unknown, np.concatenate([known, identity], -1))
                size = abs(unknown).sum(-1).max(-1) * abs(solved[..., -wide:]).sum(-1).max(-1)
        except np.linalg.LinAlgError:
            return None
        solved = solved[..., : near.size, : known.shape[-1]]
        effect = abs(solved[..., outside.size : -1]).max(initial=0.0)
        if not (effect <= np.finfo(rows.dtype).eps / 16 and (size < _MOST_CONDITION).all()):
            return None
        among = slice(number, number + near.size)
        rows[..., among, near] = np.eye(near.size)
        rows[..., among, outside] = solved[..., : outside.size]
        rows[..., among, -1] = solved[..., -1]
        number += near.size
    return rows


@dataclass(frozen=True, kw_only=True)
class BandedSystem(LinearSystem):
    """The systems Σ_k diagonal_k[i]·x[i+k] = b[i] along an axis, k = -lower … upper.

    The operands are the diagonals, of which entry i belongs to row i, and b.

    `lower`, `upper`: number of diagonals below and above the main one.
    `block`: rows of a step, whose coefficients begin with the same unknown.
    """

    family: ClassVar[str] = "banded"
    methods: ClassVar[tuple[str, ...]] = ("auto",)
    pivoting_methods: ClassVar[tuple[str, ...]] = methods
    lower: int
    upper: int
    block: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the operands, for messages; the entries of diagonals are counted by rows."""
        return *(f"diagonal {k} of ab" for k in range(-self.lower, self.upper + 1)), "b"

    @property
    def indexed_by(self) -> str:
        return "a banded system"

    def example_value(self, number: int) -> float:
        return 4.0 if number == self.lower else 0.25

    def outside(self, inputs: ChunkInputs, shape: Shape, number: int) -> tuple[int, int]:
        """Return how many first and last entries of a block lie outside of the matrix."""
        if number > self.lower + self.upper:
            return 0, 0
        (before, after), offset = self.ends(inputs, shape).around, number - self.lower
        return max(-offset - before, 0), max(offset - after, 0)

    def rows_at_ends(self, shape: Shape) -> int:
        systems = prod(shape[: self.axis]) * prod(shape[self.axis + 1 :])
        return rows_at_ends(shape[self.axis]) if systems <= _MOST_SYSTEMS * self.block else 0

    def join_ends(self, first: np.ndarray, last: np.ndarray) -> np.ndarray | None:
        return join_ends(first, last, self.lower)

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        solve = super().prepare_solver(backend, inputs, shape, initial, results)
        diagonals = inputs.blocks[:-1]
        if solve is None or not all(diagonal.ndim for diagonal in diagonals):
            return None
        # Bytes from the start of `ab`, whose parts the diagonals are unless they are copies.
        size, pairs = self.dtype.itemsize, enumerate(range(-self.lower, self.upper + 1))
        offsets = [((self.lower + self.upper - row) * self.length + k) * size for row, k in pairs]
        starts = {backend.address(x) - offset for x, offset in zip(diagonals, offsets, strict=True)}
        if len(starts) > 1:
            return None

        def solve_views(operands: Sequence[Any], results: Sequence[Any]) -> Any:
            ab, b = operands
            start = ab if isinstance(ab, int) else backend.address(ab)
            return solve([*[start + offset for offset in offsets], b], results)

        return solve_views

    def _chunk(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        layout = canonical_shape(shape, self.axis)

        def lay_out(array: Any) -> Any:
            # Diagonals of several matrices are views, whose rows are as far apart as matrices.
            is_last = self.axis == len(shape) - 1
            if is_last and array.shape == shape and are_rows_contiguous(array):
                return array.reshape(layout)
            return lay_out_array(array, shape, self.axis, layout)

        return Chunk(tuple(map(lay_out, inputs.blocks)), layout, self.dtype)

    def ends(self, inputs: ChunkInputs, shape: Shape) -> BandedEnds:
        """Return the widths, and the rows of the system before and after a chunk."""
        if self.is_periodic:
            return BandedEnds(self.lower, self.upper, (MAX_WIDTH, MAX_WIDTH), False, self.block)
        before = inputs.starts[self.axis]
        after = self.length - before - shape[self.axis]
        around = min(before * self.block, MAX_WIDTH), min(after * self.block, MAX_WIDTH)
        return BandedEnds(self.lower, self.upper, around, around == (0, 0), self.block)


@dataclass(frozen=True, kw_only=True)
class BlockTridiagonalSystem(BandedSystem):
    """The systems dl_i·x_{i-1} + d_i·x_i + du_i·x_{i+1} = b_i along an axis, for blocks of k × k.

    A step has k rows, and `lower` and `upper` are k. Operands (..., n, k²) and b have the numbers of a
    step as their last axis, and chunks are those of :class:`mgrec.core.contract.scan.ElementChain`.
    """

    number_axes: ClassVar[int] = 1

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES

    @property
    def indexed_by(self) -> str:
        return "a block tridiagonal system"

    def example_value(self, number: int) -> float:
        # A block of equal numbers would be singular; nan is not.
        return nan

    def for_warm_up(self) -> BlockTridiagonalSystem:
        return replace(self, check_finite=False)

    def outside(self, inputs: ChunkInputs, shape: Shape, number: int) -> tuple[int, int]:
        before, after = self.ends(inputs, shape).around
        return int(number == 0 and not before), int(number == 2 and not after)

    def shape(self, inputs: ChunkInputs) -> Shape:
        return (*super().shape(inputs)[:-1], self.block)

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        return LinearSystem.prepare_solver(self, backend, inputs, shape, initial, results)

    def _chunk(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        layout = canonical_shape(shape[:-1], self.axis)
        operands = [
            lay_out_array(array, shape[:-1], self.axis, layout, array.shape[-1:]) for array in inputs.blocks
        ]
        return Chunk(tuple(operands), layout, self.dtype)
