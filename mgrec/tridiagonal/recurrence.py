"""Tridiagonal systems as a two-sided recurrence: the interface rows of chunks form a system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from ..core.arrays.chunk import Chunk, is_uncopied
from ..core.backends import Backend
from ..core.contract.kernels import Kernels, ShardSolver, Summarise
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape
from .errors import NAMES, SingularSystemError, check_operands
from .systems import Launch, LinearSystem, rows_at_ends, start_of_end


class Ends(NamedTuple):
    """The ends of its systems that a chunk contains, and the method of solution.

    The dl of the first row of a system, and the du of the last row, are not read.
    """

    has_first: bool
    has_last: bool
    method: str = "auto"


def decay_limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the largest negligible coefficient of a far unknown, and the least size of a row.

    The first is an eighth of the rounding error.
    """
    limits = np.finfo(dtype)
    return limits.eps / 16, np.sqrt(limits.tiny)


def solve_periodic_ends(rows: np.ndarray) -> np.ndarray:
    """Return the unknowns (outer, inner, 4) at and next to the ends of periodic systems.

    The unknown before the first row is the last one, and the unknown after the last row the first
    one. The interface rows are therefore two equations for the two ends, which Cramer's rule solves
    with the accuracy of an elimination. The formula of Sherman and Morrison would split a matrix off
    that may be singular although the system is not.
    """
    first, last, rhs = rows[..., 1] + rows[..., 3], rows[..., 0] + rows[..., 2], rows[..., 4]
    size = np.maximum(abs(first), abs(last))
    limit = np.finfo(size.dtype).maxexp - 2
    scale = np.ldexp(np.ones_like(size), np.clip(-np.frexp(size)[1], -limit, limit))
    first, last, rhs = ((part * scale).transpose(2, 0, 1) for part in (first, last, rhs))
    determinant = first[0] * last[1] - first[1] * last[0]
    if (determinant == 0).any():
        raise SingularSystemError(int((determinant == 0).argmax()))
    with np.errstate(all="ignore"):
        x = (rhs[0] * last[1] - rhs[1] * last[0]) / determinant
        y = (first[0] * rhs[1] - first[1] * rhs[0]) / determinant
    return np.stack([y, x, y, x], -1)


@dataclass(frozen=True)
class TridiagonalKernels(Kernels):
    """The phases of tridiagonal systems, and kernels that no other family has.

    `launch_determine`: launch `determine`; the returned function waits, and returns what
      `determine` returns.
    `precompute_ends`, ``(algebra, chunk, rows) -> (() -> summary) or None``: launch the summaries
      of the first and of the last rows of a chunk of one outer row, as those of two outer rows.
      None if the device cannot.
    `differentiate`, ``(shape, dtype, device, addresses, results) -> bool``: write the gradients of
      real contiguous systems along the last axis, and return whether that succeeded. Addresses are
      those of the gradient of x, of x, dl, d and du; results those of the gradients of dl, d, du
      and b.
    """

    launch_determine: Callable[..., Callable[[], Any]] | None = None
    precompute_ends: Callable[[Any, Chunk, int], Summarise | None] | None = None
    differentiate: Callable[..., bool] | None = None


def kernels_of(backend: Backend) -> TridiagonalKernels:
    """Return the kernels of tridiagonal systems on a backend."""
    return cast(TridiagonalKernels, backend.kernels("tridiagonal"))


@dataclass(frozen=True, kw_only=True)
class TridiagonalSystem(LinearSystem):
    """The systems dl_i·x_{i-1} + d_i·x_i + du_i·x_{i+1} = b_i along an axis.

    The carry-in of a chunk is the unknown before it, its first, its last and the one after it.
    """

    family: ClassVar[str] = "tridiagonal"
    names: ClassVar[tuple[str, ...]] = NAMES
    # Methods that pivot. Their kernels have all phases, for several chunks and periodic systems.
    pivoting_methods: ClassVar[tuple[str, ...]] = ("auto", "partition")
    methods: ClassVar[tuple[str, ...]] = (*pivoting_methods, "thomas", "cyclic-reduction", "pcr", "p-scheme")
    host_methods: ClassVar[tuple[str, ...]] = methods

    @property
    def indexed_by(self) -> str:
        return "a tridiagonal system"

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

    def ends(self, inputs: ChunkInputs, shape: Shape) -> Ends:
        """Return which ends of its systems a chunk contains."""
        first, is_open = inputs.starts[self.axis], not self.is_periodic
        is_last = first + shape[self.axis] == self.length
        return Ends(is_open and first == 0, is_open and is_last, self.method)

    def outside(self, inputs: ChunkInputs, shape: Shape, number: int) -> tuple[int, int]:
        ends = self.ends(inputs, shape)
        return int(number == 0 and ends.has_first), int(number == 2 and ends.has_last)

    def rows_at_ends(self, shape: Shape) -> int:
        return rows_at_ends(shape[self.axis]) if self.method == "auto" else 0

    def join_ends(self, first: np.ndarray, last: np.ndarray) -> np.ndarray | None:
        """Eliminate the far inner unknown at each end.

        None unless the coefficients of the unknowns beyond it have decayed in all systems, or if the
        two rows of an end nearly depend on each other, or are too small to decide.
        """
        rows, (negligible, least) = np.zeros_like(first), decay_limits(first.dtype)
        for end, part in enumerate((first, last)):
            # Columns: the unknown outside of the chunk, its neighbour, the far one, and that beyond it.
            outside, near, far, beyond = (3, 2, 1, 0) if end else (0, 1, 2, 3)
            upper, lower = part[..., 0, :], part[..., 1, :]
            with np.errstate(all="ignore"):
                one, other = upper * lower[..., far, None], lower * upper[..., far, None]
                row, sizes = one - other, abs(one) + abs(other)
                size = np.maximum(sizes[..., outside], sizes[..., near])
                largest = np.maximum(abs(row[..., outside]), abs(row[..., near]))
                row /= row[..., near, None].copy()
                is_alone = (largest >= 0.5 * size) & (size >= least) & (abs(row[..., beyond]) <= negligible)
            if not (is_alone.all() and np.isfinite(row).all()):
                return None
            rows[..., end, [outside, near, 4]] = row[..., [outside, near, 4]]
        return rows

    def _launch_ends(
        self, kernels: Kernels, launch: Launch, inputs: ChunkInputs, shape: Shape, rows: int
    ) -> Summarise:
        launch_both = cast(TridiagonalKernels, kernels).precompute_ends
        is_in_place = all(block.flags.c_contiguous for block in inputs.blocks)
        wait = None
        if launch_both is not None and prod(shape[: self.axis]) == 1 and is_in_place:
            ends, steps = self.ends(inputs, shape), shape[self.axis]
            wait = launch_both(ends, self._chunk(inputs, shape), steps - start_of_end(steps, rows))
        if wait is None:
            return super()._launch_ends(kernels, launch, inputs, shape, rows)

        def joined() -> Any:
            both = wait().rows
            return self.join_ends(both[:1], both[1:])

        return joined

    def launch_determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any
    ) -> Callable[[], Arrays]:
        launch = kernels_of(backend).launch_determine
        if launch is None or carry_in is None:
            return super().launch_determine(backend, inputs, shape, carry_in)
        return self._launch(launch, backend, inputs, shape, carry_in)

    @property
    def has_shards(self) -> bool:
        return True

    def prepare_shard(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> ShardSolver | None:
        prepare, chunk = backend.kernels(self.family).prepare_shard, self._chunk(inputs, shape)
        # As `precompute`: the ends alone do not show whether other rows contain nan.
        count = self.rows_at_ends(shape) if self.check_finite and not self.is_periodic else 0
        if prepare is None or not count or prod(shape[: self.axis]) != 1:
            return None
        if not all(map(is_uncopied, chunk.operands, inputs.blocks)):
            return None
        starts, signatures = (0,) * len(shape), [(b.shape, b.dtype) for b in inputs.blocks]

        def check(blocks: Sequence[Any]) -> None:
            check_operands(self, ChunkInputs(tuple(blocks), starts, starts), shape)

        rows = shape[self.axis] - start_of_end(shape[self.axis], count)
        return prepare(chunk, results[0].reshape(chunk.shape), rows, signatures, check)
