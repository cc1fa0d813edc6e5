"""Tridiagonal systems: a line of chunks, each of which depends on both its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...arrays.chunk import Chunk
from ...arrays.layout import as_result, lay_out
from ..family import Arrays, Line, Pack, Shape
from ..kernels import Backend, Kernels, Summarise
from .ends import Ends
from .finite import check_operands, is_all_finite
from .singular import named


@dataclass(frozen=True, kw_only=True)
class TridiagonalSystem(Line):
    """dl_i·x_{i-1} + d_i·x_i + du_i·x_{i+1} = b_i, along an axis.

    A chunk's summary is its two interface rows, what its rows say of its first and last unknown
    and of the unknowns beside them. Its entry is the values of these four.

    Attributes
    ----------
    length : int
        Unknowns of a system. The first entry of dl and the last of du do not count.
    rhs_axis : int, optional
        The axis of right-hand sides of the same matrices.
    check_finite : bool
        nan and inf in operands are errors.
    """

    family: ClassVar[str] = "tridiagonal"
    methods: ClassVar[tuple[str, ...]] = ("auto", "partition")
    host_methods: ClassVar[tuple[str, ...]] = methods
    # Methods whose kernels make a system that holds nan or inf nan. Without pivoting an infinite
    # pivot may vanish from the result.
    marked_by_nan: ClassVar[tuple[str, ...]] = ("auto", "partition")
    length: int
    rhs_axis: int | None = None
    check_finite: bool = False

    @property
    def indexed_by(self) -> str:
        return "a tridiagonal system"

    def sample(self, number: int) -> float:
        return 2.0 if number == 1 else 0.5

    def enter(self, initial: Sequence[Any], shape: Shape) -> None:
        return None

    def precompute(self, backend: Backend, pack: Pack, shape: Shape) -> Summarise:
        precompute = backend.kernels(self.family).precompute
        summarise = precompute(self.ends(pack, shape), self._chunk(pack, shape))

        def checked() -> Any:
            summary = summarise()
            if self.check_finite and summary.rows is not None and not is_all_finite(summary.rows):
                check_operands(self, pack, shape)
            return replace(summary, starts=pack.starts, shape=shape)

        return checked

    def propagate(self, kernels: Kernels, summaries: Sequence[Any], entry: Any) -> list[Any]:
        with named(self, summaries[0].starts, summaries[0].shape):
            entries: list[Any] = kernels.propagate(summaries)
        return entries

    def determine(
        self, backend: Backend, pack: Pack, shape: Shape, entry: Any, out: Arrays = ()
    ) -> tuple[Arrays, None]:
        chunk, ends = self._chunk(pack, shape), self.ends(pack, shape)
        is_marked = self.method in self.marked_by_nan
        if self.check_finite and not is_marked:
            check_operands(self, pack, shape)
        result = out[0] if out else backend.empty(shape, self.dtype)
        target = result.reshape(chunk.shape)
        determine = backend.kernels(self.family).determine
        with named(self, pack.starts, shape):
            is_finite = determine(ends, chunk, entry, target)
        # Chunks that have an entry were checked when they were precomputed.
        if self.check_finite and is_marked and entry is None:
            if is_finite is None:
                is_finite = is_all_finite(result)
            if not is_finite:
                check_operands(self, pack, shape)
        return (as_result(result, shape, self.result_dtype),), None

    def _chunk(self, pack: Pack, shape: Shape) -> Chunk:
        return lay_out(self, pack.blocks, shape, pack.starts[self.axis])

    def ends(self, pack: Pack, shape: Shape) -> Ends:
        first = pack.starts[self.axis]
        return Ends(first == 0, first + shape[self.axis] == self.length, self.method)
