"""Systems of linear equations along an axis, whose rows contain few neighbouring unknowns.

The equations of chunks in the unknowns at their ends form a system: a two-sided recurrence.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np

from ..core.arrays.chunk import Chunk, as_result, is_uncopied, lay_out
from ..core.backends import CPU, Backend
from ..core.contract.kernels import CacheMiss, Kernels, PreparedSolver, Summarise
from ..core.contract.recurrence import AlongAxis, Arrays, ChunkInputs, Shape, TwoSided
from .errors import SingularSystemError, check_operands, is_all_finite, name_singular_system

Launch = Callable[[Any, Any], Any]
_ALIGNED = 16  # numbers: kernels for aligned rows serve both ends
# Rows at each end of a chunk that are reduced: END_ROWS with those that precede them for alignment, and
# 1/_CHUNK_RATIO of its rows. Short chunks of fast decay need _FEW_ROWS, if that is 1/_SHORT_RATIO of them.
END_ROWS, _MIN_ROWS, _CHUNK_RATIO, _FEW_ROWS, _SHORT_RATIO = 1024, 32, 64, 64, 8


@dataclass(frozen=True)
class InterfaceRows:
    """The rows of a chunk after its inner unknowns are eliminated.

    A chunk of n tridiagonal rows, ``dl[i]·x[i-1] + d[i]·x[i] + du[i]·x[i+1] = b[i]`` for i = 0 … n-1,
    has the unknowns x[-1] … x[n]. Eliminating x[1] … x[n-2] leaves, for r = 0 and 1::

        rows[r, 0]·x[-1] + rows[r, 1]·x[0] + rows[r, 2]·x[n-1] + rows[r, 3]·x[n] = rows[r, 4]

    With l diagonals below the main one and u above, l + u rows contain the *interface* before the
    chunk, x[-l] … x[u-1], and that after it, x[n-l] … x[n+u-1]. A chunk of less than l + u rows has
    unknowns in both, and rows that say so, such as ``x[0] - x[n-1] = 0``.

    `rows`, array (outer, inner, l + u, 2·(l + u) + 1): coefficients of the interface before and of
      the interface after, and the right-hand side. nan if the chunk's operands contain nan or inf.
      0 if its inner columns depend on each other, so that the system is singular.
    `starts`, `shape`: start of the chunk and its shape, for messages.
    """

    rows: np.ndarray
    starts: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()


def rows_at_ends(steps: int) -> int:
    """Return how many rows at each end of a chunk are reduced; 0 if the chunk is too short."""
    few = min(_FEW_ROWS, steps // _SHORT_RATIO)
    rows = min(END_ROWS - _ALIGNED, max(steps // _CHUNK_RATIO, few))
    return rows if rows >= _MIN_ROWS else 0


def start_of_end(steps: int, rows: int) -> int:
    """Return the first of the last rows of a chunk."""
    return (steps - rows) // _ALIGNED * _ALIGNED


def rows_between(
    system: AlongAxis, inputs: ChunkInputs, shape: Shape, start: int, stop: int
) -> tuple[ChunkInputs, Shape]:
    """Return the inputs and the shape of some steps of a chunk."""
    axis = system.axis
    blocks = []
    for block, varying in zip(inputs.blocks, system.varying, strict=True):
        block_axis = axis - len(shape) + block.ndim
        is_sliced = block_axis >= 0 and varying[block_axis]
        window = (slice(None),) * block_axis + (slice(start, stop),)
        blocks.append(block[window] if is_sliced else block)
    starts = (*inputs.starts[:axis], inputs.starts[axis] + start, *inputs.starts[axis + 1 :])
    part_shape = (*shape[:axis], stop - start, *shape[axis + 1 :])
    return replace(inputs, blocks=tuple(blocks), starts=starts), part_shape


def strides_of(array: Any, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the strides of an operand (outer, steps, inner, ...) in steps; 0 along a broadcast axis.

    The outer parts may be apart in memory; each of them is contiguous.
    """
    outer, steps, inner = array.shape[:3]
    apart = array.strides[0] // (array.itemsize * prod(array.shape[3:])) if outer > 1 else steps * inner
    return apart * (outer == shape[0]), inner * (steps == shape[1]), int(inner == shape[2])


def prepared(solve: Callable[..., bool]) -> PreparedSolver:
    """Return a prepared solver from a function that returns whether all operands are finite.

    It raises CacheMiss if they are not, or if a system is singular: the call that follows names it.
    """

    def solve_or_miss(*arguments: Any) -> None:
        try:
            is_finite = solve(*arguments)
        except SingularSystemError as error:
            raise CacheMiss from error
        if not is_finite:
            raise CacheMiss

    return solve_or_miss


@dataclass(frozen=True, kw_only=True)
class LinearSystem(TwoSided):
    """Systems of linear equations along an axis.

    The summary of a chunk is its :class:`InterfaceRows`. Its carry-in is the values of the unknowns in
    these, (outer, inner, 2·(l + u)).

    `is_periodic`: whether the coefficients outside of the matrix are those of unknowns at the other
      end. Otherwise they are ignored.
    """

    pivoting_methods: ClassVar[tuple[str, ...]]
    length: int
    rhs_axis: int | None = None
    check_finite: bool = False
    is_periodic: bool = False

    def of_length(self, steps: int) -> Any:
        return replace(self, length=steps)

    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> None:
        return None

    @abstractmethod
    def ends(self, inputs: ChunkInputs, shape: Shape) -> Any:
        """Return what kernels need to know of the matrix, apart from the operands of a chunk."""

    @abstractmethod
    def outside(self, inputs: ChunkInputs, shape: Shape, number: int) -> tuple[int, int]:
        """Return how many first and last entries of a block lie outside of the matrix."""

    @abstractmethod
    def rows_at_ends(self, shape: Shape) -> int:
        """Return how many rows at each end of a chunk may be reduced in place of all; 0 for none."""

    @abstractmethod
    def join_ends(self, first: np.ndarray, last: np.ndarray) -> np.ndarray | None:
        """Return the interface rows of a chunk from those of its first and of its last rows.

        None unless the unknowns between them have no effect.
        """

    def precompute(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Summarise:
        kernels = backend.kernels(self.family)

        def launch(inputs: ChunkInputs, shape: Shape) -> Summarise:
            return kernels.precompute(self.ends(inputs, shape), self._chunk(inputs, shape))

        # The ends alone do not show whether the rows between contain nan, which has to reach other
        # chunks; with check_finite `determine` raises.
        count = self.rows_at_ends(shape) if self.check_finite else 0
        wait_for_ends = self._launch_ends(kernels, launch, inputs, shape, count) if count else None
        wait_for_all = None if wait_for_ends else launch(inputs, shape)

        def wait_for_rows() -> InterfaceRows:
            rows = wait_for_ends() if wait_for_ends else None
            if rows is None:
                rows = (wait_for_all or launch(inputs, shape))().rows
                if self.check_finite and not is_all_finite(rows):
                    check_operands(self, inputs, shape)
            return InterfaceRows(rows, inputs.starts, shape)

        return wait_for_rows

    def _launch_ends(
        self, kernels: Kernels, launch: Launch, inputs: ChunkInputs, shape: Shape, rows: int
    ) -> Summarise:
        """Launch the reduction of a chunk's first and last rows only.

        If rows are dominant, the first rows of a chunk determine its first unknowns up to the rounding
        error, independent of unknowns far away; likewise for the last rows. The chunk is then read
        once, by `determine`. The truncated form of Spike (Polizzi and Sameh 2006) assumes this decay.
        Here `join_ends` checks the coefficients; if they have not decayed, all rows are reduced.

        ``launch(inputs, shape) -> summarise`` launches the reduction of a part of the chunk.
        """
        steps = shape[self.axis]
        first = launch(*rows_between(self, inputs, shape, 0, rows))
        last = launch(*rows_between(self, inputs, shape, start_of_end(steps, rows), steps))
        return lambda: self.join_ends(first().rows, last().rows)

    def propagate(self, kernels: Kernels, summaries: Sequence[Any], carry_in: Any) -> list[Any]:
        with name_singular_system(self, summaries[0].starts, summaries[0].shape):
            carry_ins: list[Any] = kernels.propagate(self, summaries)
        return carry_ins

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, None]:
        if self.is_periodic and carry_in is None:
            summary = self.precompute(backend, inputs, shape)()
            (carry_in,) = self.propagate(CPU.kernels(self.family), [summary], None)
        launch = partial(partial, backend.kernels(self.family).determine)
        return self._launch(launch, backend, inputs, shape, carry_in, out)(), None

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        prepare, chunk = backend.kernels(self.family).prepare_solver, self._chunk(inputs, shape)
        # A prepared solver neither closes a period nor names a pivot of a method that does not pivot.
        if prepare is None or self.is_periodic or self.method not in self.pivoting_methods:
            return None
        if not all(map(is_uncopied, chunk.operands, inputs.blocks)):
            return None
        return prepare(self.ends(inputs, shape), chunk, None, self._as_chunk(results[0], chunk, shape))

    def _launch(
        self,
        launch: Callable[..., Callable[[], Any]],
        backend: Backend,
        inputs: ChunkInputs,
        shape: Shape,
        carry_in: Any,
        out: Arrays = (),
    ) -> Callable[[], Arrays]:
        """Launch `determine` of kernels; the returned function waits, and returns the result."""
        chunk = self._chunk(inputs, shape)
        result = out[0] if out else backend.empty(shape, self.dtype)
        wait = launch(self.ends(inputs, shape), chunk, carry_in, self._as_chunk(result, chunk, shape))

        def finish() -> Arrays:
            with name_singular_system(self, inputs.starts, shape):
                is_finite = wait()
            if self.check_finite and not is_finite:
                check_operands(self, inputs, shape)
            return (as_result(result, shape, self.result_dtype),)

        return finish

    def _as_chunk(self, result: Any, chunk: Chunk, shape: Shape) -> Any:
        return result.reshape(*chunk.shape, *shape[len(shape) - self.number_axes :])

    def _chunk(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        return lay_out(self, inputs.blocks, shape, inputs.starts[self.axis])
