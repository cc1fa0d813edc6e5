"""Tridiagonal systems: a line of chunks, each of which depends on both its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...arrays.chunk import Chunk
from ...arrays.layout import as_result, lay_out
from ..family import Arrays, Line, Pack, Shape
from ..kernels import Backend, Kernels, Summarise
from .ends import Ends


@dataclass(frozen=True, kw_only=True)
class TridiagonalSystem(Line):
    """dl_i·x_{i-1} + d_i·x_i + du_i·x_{i+1} = b_i, along an axis.

    A chunk's summary is its two interface rows, what its rows say of its first and last unknown
    and of the unknowns beside them. Its entry is the values of these four.

    Attributes
    ----------
    length : int
        Unknowns of a system. The first entry of dl and the last of du do not count.
    """

    family: ClassVar[str] = "tridiagonal"
    methods: ClassVar[tuple[str, ...]] = (
        "auto",
        "partition",
        "thomas",
        "cyclic-reduction",
        "pcr",
    )
    host_methods: ClassVar[tuple[str, ...]] = methods
    length: int

    @property
    def indexed_by(self) -> str:
        return "a tridiagonal system"

    def sample(self, number: int) -> float:
        return 2.0 if number == 1 else 0.5

    def enter(self, initial: Sequence[Any], shape: Shape) -> None:
        return None

    def precompute(self, backend: Backend, pack: Pack, shape: Shape) -> Summarise:
        precompute = backend.kernels(self.family).precompute
        return precompute(self._ends(pack, shape), self._chunk(pack, shape))

    def propagate(self, kernels: Kernels, summaries: Sequence[Any], entry: Any) -> list[Any]:
        entries: list[Any] = kernels.propagate(summaries)
        return entries

    def determine(
        self, backend: Backend, pack: Pack, shape: Shape, entry: Any, out: Arrays = ()
    ) -> tuple[Arrays, None]:
        chunk = self._chunk(pack, shape)
        result = out[0] if out else backend.empty(shape, self.dtype)
        target = result.reshape(chunk.shape)
        backend.kernels(self.family).determine(self._ends(pack, shape), chunk, entry, target)
        return (as_result(result, shape, self.result_dtype),), None

    def _chunk(self, pack: Pack, shape: Shape) -> Chunk:
        return lay_out(self, pack.blocks, shape, pack.starts[self.axis])

    def _ends(self, pack: Pack, shape: Shape) -> Ends:
        first = pack.starts[self.axis]
        return Ends(first == 0, first + shape[self.axis] == self.length, self.method)
