"""Tridiagonal systems as a two-sided recurrence: the interface rows of chunks form a system.

The interface rows of a chunk are its summary, in the unknowns at and next to its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from ..core.arrays.chunk import Chunk, as_result, is_uncopied, lay_out
from ..core.backends import Backend
from ..core.contract.kernels import Kernels, PreparedSolver, ShardSolver, Summarise
from ..core.contract.recurrence import AlongAxis, Arrays, ChunkInputs, Shape, TwoSided
from .errors import NAMES, SingularSystemError, check_operands, is_all_finite, name_singular_system

Launch = Callable[[Any, Any], Any]
_ALIGNED = 16  # numbers: kernels for aligned rows serve both ends
# Rows at each end of a chunk that `summarise_ends` reduces: at most 1/_CHUNK_RATIO of its rows, and
# END_ROWS with those that precede them for alignment.
END_ROWS, _MIN_ROWS, _CHUNK_RATIO = 1024, 32, 64


class Ends(NamedTuple):
    """The ends of its systems that a chunk contains, and the method of solution.

    The dl of the first row of a system, and the du of the last row, are not read.
    """

    has_first: bool
    has_last: bool
    method: str = "auto"


@dataclass(frozen=True)
class InterfaceRows:
    """The rows of a chunk after its inner unknowns are eliminated.

    A chunk of n rows, ``dl[i]·x[i-1] + d[i]·x[i] + du[i]·x[i+1] = b[i]`` for i = 0 … n-1, has
    the unknowns x[-1] … x[n]. Eliminating x[1] … x[n-2] leaves, for r = 0 and 1::

        rows[r, 0]·x[-1] + rows[r, 1]·x[0] + rows[r, 2]·x[n-1] + rows[r, 3]·x[n] = rows[r, 4]

    A chunk of one row counts its unknown twice: the second row is ``x[0] - x[n-1] = 0``.

    Attributes
    ----------
    rows : array (2, 5, outer, inner)
        Axis 1: the coefficients of x before the chunk, of its first x, of its last x and of the
        x after it, and the right-hand side. nan if the chunk's operands contain nan or inf. 0 if
        its inner columns depend on each other, so that the system is singular.
    starts, shape : tuple of int
        Start of the chunk and its shape, for messages.
    """

    rows: np.ndarray
    starts: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()


def rows_at_ends(steps: int) -> int:
    """Return how many rows at each end of a chunk are reduced; 0 if the chunk is too short."""
    rows = min(END_ROWS - _ALIGNED, steps // _CHUNK_RATIO)
    return rows if rows >= _MIN_ROWS else 0


def start_of_end(steps: int, rows: int) -> int:
    """Return the first of the last rows of a chunk."""
    return (steps - rows) // _ALIGNED * _ALIGNED


def summarise_ends(
    system: TridiagonalSystem, launch: Launch, inputs: ChunkInputs, shape: Shape, rows: int
) -> Summarise:
    """Launch the reduction of a chunk's first and last rows only.

    If rows are dominant, the first rows of a chunk determine its first unknown up to the rounding
    error, independent of unknowns far away; likewise for the last rows. The chunk is then read
    once, by `determine`. The truncated form of Spike (Polizzi and Sameh 2006) assumes this decay.
    Here the coefficients are checked; if they have not decayed, all rows are reduced.

    ``launch(inputs, shape) -> summarise`` launches the reduction of a part of the chunk. The
    returned function waits, and returns the rows (2, 5, outer, inner), or None if the coefficients
    have not decayed, or if these rows contain nan or inf.
    """
    steps = shape[system.axis]
    start = start_of_end(steps, rows)
    first = launch(*rows_between(system, inputs, shape, 0, rows))
    last = launch(*rows_between(system, inputs, shape, start, steps))
    return lambda: join_interface_rows(first().rows, last().rows)


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


def join_interface_rows(first: np.ndarray, last: np.ndarray) -> np.ndarray | None:
    """Return the interface rows of a chunk from those of its first and of its last rows.

    At each end the far inner unknown is eliminated. None unless the coefficients of the unknowns
    beyond it have decayed in all systems, or if the two rows of an end nearly depend on each other,
    or are too small to decide.
    """
    from .cpu.partitions import join_ends

    rows = np.empty_like(first, order="C")
    return rows if join_ends(first, last, rows, *decay_limits(first.dtype)) else None


def decay_limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the largest negligible coefficient of a far unknown, and the least size of a row.

    The first is an eighth of the rounding error.
    """
    limits = np.finfo(dtype)
    return limits.eps / 16, np.sqrt(limits.tiny)


def solve_periodic_ends(rows: np.ndarray) -> np.ndarray:
    """Return the unknowns at and next to the ends of periodic systems.

    The unknown before the first row is the last one, and the unknown after the last row the first
    one. The interface rows are therefore two equations for the two ends. The formula of Sherman
    and Morrison would split a matrix off that may be singular although the system is not.

    The result (4, outer, inner) has the x before the system, its first x, its last x and the x
    after it. Raise SingularSystemError if a system is singular.
    """
    first, last, rhs = rows[:, 1] + rows[:, 3], rows[:, 0] + rows[:, 2], rows[:, 4]
    size = np.maximum(abs(first), abs(last))
    limit = np.finfo(size.dtype).maxexp - 2
    scale = np.ldexp(np.ones_like(size), np.clip(-np.frexp(size)[1], -limit, limit))
    first, last, rhs = first * scale, last * scale, rhs * scale
    # Complete pivoting: rows may be exchanged, and the two unknowns.
    is_last_larger = abs(last).max(0) > abs(first).max(0)
    leading = np.where(is_last_larger, last, first)
    other = np.where(is_last_larger, first, last)
    is_swapped = abs(leading[1]) > abs(leading[0])
    leading, other, rhs = (np.where(is_swapped, part[::-1], part) for part in (leading, other, rhs))
    with np.errstate(all="ignore"):
        factor = leading[1] / leading[0]
        pivot = other[1] - factor * other[0]
        second = (rhs[1] - factor * rhs[0]) / pivot
        one = (rhs[0] - other[0] * second) / leading[0]
    # A leading coefficient of 0 makes the second pivot nan, which does not come from an operand.
    is_singular = leading[0] == 0
    is_singular |= pivot == 0
    if is_singular.any():
        raise SingularSystemError(int(is_singular.argmax()))
    x = np.where(is_last_larger, second, one)
    y = np.where(is_last_larger, one, second)
    return np.stack([y, x, y, x])


@dataclass(frozen=True)
class TridiagonalKernels(Kernels):
    """The phases of tridiagonal systems, and kernels that no other family has.

    Attributes
    ----------
    finds_nan : bool
        `determine` returns whether all operands are finite, for every method.
    launch_determine : callable, optional
        Launch `determine`; the returned function waits, and returns what `determine` returns.
    precompute_ends : callable, optional, ``(algebra, chunk, rows) -> (() -> summary) or None``
        Launch the summaries of the first and of the last rows of a chunk of one outer row, as those
        of two outer rows. None if the device cannot.
    differentiate : callable, optional, ``(shape, dtype, device, addresses, results) -> bool``
        Write the gradients of real contiguous systems along the last axis, and return whether that
        succeeded. Addresses are those of the gradient of x, of x, dl, d and du; results those of
        the gradients of dl, d, du and b.
    """

    finds_nan: bool = False
    launch_determine: Callable[..., Callable[[], Any]] | None = None
    precompute_ends: Callable[[Any, Chunk, int], Summarise | None] | None = None
    differentiate: Callable[..., bool] | None = None


def kernels_of(backend: Backend) -> TridiagonalKernels:
    """Return the kernels of tridiagonal systems on a backend."""
    return cast(TridiagonalKernels, backend.kernels("tridiagonal"))


@dataclass(frozen=True, kw_only=True)
class TridiagonalSystem(TwoSided):
    """The systems dl_i·x_{i-1} + d_i·x_i + du_i·x_{i+1} = b_i along an axis.

    The summary of a chunk is its two interface rows: equations in its first and last unknown and
    their neighbours outside the chunk. Its carry-in is the values of these four unknowns.

    Attributes
    ----------
    length : int
        Number of unknowns of a system.
    rhs_axis : int, optional
        The axis of right-hand sides of the same matrices.
    check_finite : bool
        Whether nan and inf in operands are errors.
    is_periodic : bool
        Whether the first entry of dl is the coefficient of the last unknown, and the last entry
        of du that of the first. Otherwise these entries are ignored.
    """

    family: ClassVar[str] = "tridiagonal"
    names: ClassVar[tuple[str, ...]] = NAMES
    methods: ClassVar[tuple[str, ...]] = (
        "auto",
        "partition",
        "thomas",
        "cyclic-reduction",
        "pcr",
        "p-scheme",
    )
    host_methods: ClassVar[tuple[str, ...]] = methods
    # Methods that pivot. Their kernels have all phases, for several chunks and periodic systems,
    # and fill a system that contains nan or inf with nan. Without pivoting an infinite pivot may
    # leave no trace.
    pivoting_methods: ClassVar[tuple[str, ...]] = ("auto", "partition")
    length: int
    rhs_axis: int | None = None
    check_finite: bool = False
    is_periodic: bool = False

    @property
    def indexed_by(self) -> str:
        return "a tridiagonal system"

    def of_length(self, steps: int) -> TridiagonalSystem:
        return replace(self, length=steps)

    def example_value(self, number: int) -> float:
        return 2.0 if number == 1 else 0.5

    def check_chunks(self, chunks: Sequence[Sequence[Any]]) -> None:
        count = len(chunks[self.axis])
        if self.method not in self.pivoting_methods and count > 1:
            raise ValueError(
                f"method {self.method!r} must have whole systems in a chunk; got {count} chunks "
                f"along axis {self.axis}: call rechunk({{{self.axis}: -1}}) on the operands, or "
                f"take method 'partition'"
            )

    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> None:
        return None

    def precompute(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Summarise:
        kernels = kernels_of(backend)

        def launch(inputs: ChunkInputs, shape: Shape) -> Summarise:
            return kernels.precompute(self.ends(inputs, shape), self._chunk(inputs, shape))

        # The ends alone do not show whether the rows between contain nan, which has to reach other
        # chunks; with check_finite `determine` raises.
        wait_for_ends = None
        if self.method == "auto" and self.check_finite:
            wait_for_ends = self._launch_ends(kernels, launch, inputs, shape)
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
        self, kernels: TridiagonalKernels, launch: Launch, inputs: ChunkInputs, shape: Shape
    ) -> Summarise | None:
        """Launch the reduction of a chunk's ends, both at once where kernels can do that."""
        steps = shape[self.axis]
        count = rows_at_ends(steps)
        if not count:
            return None
        is_one_row = prod(shape[: self.axis]) == 1
        is_in_place = all(block.flags.c_contiguous for block in inputs.blocks)
        wait = None
        if kernels.precompute_ends is not None and is_one_row and is_in_place:
            ends, chunk = self.ends(inputs, shape), self._chunk(inputs, shape)
            wait = kernels.precompute_ends(ends, chunk, steps - start_of_end(steps, count))
        if wait is None:
            return summarise_ends(self, launch, inputs, shape, count)

        def joined() -> Any:
            both = wait().rows
            return join_interface_rows(both[:, :, :1], both[:, :, 1:])

        return joined

    def propagate(self, kernels: Kernels, summaries: Sequence[Any], carry_in: Any) -> list[Any]:
        with name_singular_system(self, summaries[0].starts, summaries[0].shape):
            carry_ins: list[Any] = kernels.propagate(summaries, self.is_periodic)
        return carry_ins

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, None]:
        chunk, ends = self._chunk(inputs, shape), self.ends(inputs, shape)
        kernels = kernels_of(backend)
        is_checked = not self.check_finite
        if not (is_checked or kernels.finds_nan or self.method in self.pivoting_methods):
            check_operands(self, inputs, shape)
            is_checked = True
        result = out[0] if out else backend.empty(shape, self.dtype)
        with name_singular_system(self, inputs.starts, shape):
            if self.is_periodic and carry_in is None:
                rows = self.precompute(backend, inputs, shape)().rows
                carry_in = solve_periodic_ends(rows)
            is_finite = kernels.determine(ends, chunk, carry_in, result.reshape(chunk.shape))
        return self._checked(inputs, shape, result, is_checked or is_finite), None

    def launch_determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any
    ) -> Callable[[], Arrays]:
        launch = kernels_of(backend).launch_determine
        if launch is None or carry_in is None:
            return super().launch_determine(backend, inputs, shape, carry_in)
        chunk, result = self._chunk(inputs, shape), backend.empty(shape, self.dtype)
        wait = launch(self.ends(inputs, shape), chunk, carry_in, result.reshape(chunk.shape))

        def finish() -> Arrays:
            with name_singular_system(self, inputs.starts, shape):
                is_finite = wait()
            return self._checked(inputs, shape, result, is_finite or not self.check_finite)

        return finish

    def _checked(self, inputs: ChunkInputs, shape: Shape, result: Any, is_finite: bool | None) -> Arrays:
        """Return a result; raise ValueError if operands are not finite (None: if it is not)."""
        if not (is_all_finite(result) if is_finite is None else is_finite):
            check_operands(self, inputs, shape)
        return (as_result(result, shape, self.result_dtype),)

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        prepare = backend.kernels(self.family).prepare_solver
        # A prepared solver neither closes a period nor finds nan by the other methods.
        if prepare is None or self.is_periodic or self.method not in self.pivoting_methods:
            return None
        chunk = self._chunk(inputs, shape)
        if not all(map(is_uncopied, chunk.operands, inputs.blocks)):
            return None
        return prepare(self.ends(inputs, shape), chunk, None, results[0].reshape(chunk.shape))

    @property
    def has_shards(self) -> bool:
        return True

    def prepare_shard(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> ShardSolver | None:
        prepare, count = backend.kernels(self.family).prepare_shard, rows_at_ends(shape[self.axis])
        # As `precompute`: the ends alone do not show whether other rows contain nan.
        is_read_once = self.method == "auto" and self.check_finite and not self.is_periodic
        if prepare is None or not is_read_once or not count or prod(shape[: self.axis]) != 1:
            return None
        chunk = self._chunk(inputs, shape)
        if not all(map(is_uncopied, chunk.operands, inputs.blocks)):
            return None
        starts, signatures = (0,) * len(shape), [(b.shape, b.dtype) for b in inputs.blocks]

        def check(blocks: Sequence[Any]) -> None:
            check_operands(self, ChunkInputs(tuple(blocks), starts, starts), shape)

        rows = shape[self.axis] - start_of_end(shape[self.axis], count)
        return prepare(chunk, results[0].reshape(chunk.shape), rows, signatures, check)

    def _chunk(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        return lay_out(self, inputs.blocks, shape, inputs.starts[self.axis])

    def ends(self, inputs: ChunkInputs, shape: Shape) -> Ends:
        """Return which ends of its systems a chunk contains."""
        first, is_open = inputs.starts[self.axis], not self.is_periodic
        is_last = first + shape[self.axis] == self.length
        return Ends(is_open and first == 0, is_open and is_last, self.method)

    def outside(self, inputs: ChunkInputs, shape: Shape, number: int) -> tuple[int, int]:
        """Return how many first and last entries of a block lie outside of the matrix."""
        ends = self.ends(inputs, shape)
        return int(number == 0 and ends.has_first), int(number == 2 and ends.has_last)
