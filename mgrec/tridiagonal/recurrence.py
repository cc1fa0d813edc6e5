"""Tridiagonal systems: a line of chunks, each of which depends on both its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.arrays.chunk import Chunk, as_result, is_uncopied, lay_out
from ..core.contract.kernels import Backend, Kernels, PreparedSolver, Summarise
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape, TwoSided
from .ends import Ends
from .finite import check_operands, is_all_finite
from .forgetting import Launch, summarise_ends
from .periodic import ends_of
from .singular import named
from .summary import InterfaceRows


@dataclass(frozen=True, kw_only=True)
class TridiagonalSystem(TwoSided):
    """dl_i·x_{i-1} + d_i·x_i + du_i·x_{i+1} = b_i, along an axis.

    A chunk's summary is its two interface rows, what its rows say of its first and last unknown
    and of the unknowns beside them. Its carry-in is the values of these four.

    Attributes
    ----------
    length : int
        Unknowns of a system. The first carry-in of dl and the last of du do not count.
    rhs_axis : int, optional
        The axis of right-hand sides of the same matrices.
    check_finite : bool
        nan and inf in operands are errors.
    is_periodic : bool
        The first carry-in of dl and the last of du count: they belong to the last unknown and to
        the first.
    """

    family: ClassVar[str] = "tridiagonal"
    methods: ClassVar[tuple[str, ...]] = (
        "auto",
        "partition",
        "thomas",
        "cyclic-reduction",
        "pcr",
        "p-scheme",
    )
    host_methods: ClassVar[tuple[str, ...]] = methods
    # Methods whose kernels have all phases, for chunks of a line and for periodic systems, and make
    # a system that holds nan or inf nan: without pivoting an infinite pivot may leave no trace.
    by_partitions: ClassVar[tuple[str, ...]] = ("auto", "partition")
    length: int
    rhs_axis: int | None = None
    check_finite: bool = False
    is_periodic: bool = False

    @property
    def indexed_by(self) -> str:
        return "a tridiagonal system"

    def example_value(self, number: int) -> float:
        return 2.0 if number == 1 else 0.5

    def check_chunks(self, chunks: Sequence[Sequence[Any]]) -> None:
        count = len(chunks[self.axis])
        if self.method not in self.by_partitions and count > 1:
            raise ValueError(
                f"method {self.method!r} must have whole systems in a chunk; got {count} chunks "
                f"along axis {self.axis}: call rechunk({{{self.axis}: -1}}) on the operands, or "
                f"take method 'partition'"
            )

    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> None:
        return None

    def precompute(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Summarise:
        precompute = backend.kernels(self.family).precompute

        def launch(inputs: ChunkInputs, shape: Shape) -> Summarise:
            return precompute(self.ends(inputs, shape), self._chunk(inputs, shape))

        of_ends = self._summarise_ends(launch, inputs, shape)
        of_all = None if of_ends else launch(inputs, shape)

        def checked() -> InterfaceRows:
            rows = of_ends() if of_ends else None
            if rows is None:
                rows = (of_all or launch(inputs, shape))().rows
                if self.check_finite and rows is not None and not is_all_finite(rows):
                    check_operands(self, inputs, shape)
            return InterfaceRows(rows, inputs.starts, shape)

        return checked

    def _summarise_ends(
        self, launch: Launch, inputs: ChunkInputs, shape: Shape
    ) -> Summarise | None:
        # Rows that are not read do not tell other chunks that they hold nan; determining finds it.
        if self.method != "auto" or not self.check_finite:
            return None
        return summarise_ends(self, launch, inputs, shape)

    def propagate(self, kernels: Kernels, summaries: Sequence[Any], carry_in: Any) -> list[Any]:
        with named(self, summaries[0].starts, summaries[0].shape):
            entries: list[Any] = kernels.propagate(summaries, self.is_periodic)
        return entries

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, None]:
        chunk, ends = self._chunk(inputs, shape), self.ends(inputs, shape)
        kernels = backend.kernels(self.family)
        is_checked = not self.check_finite
        if not (is_checked or kernels.finds_nan or self.method in self.by_partitions):
            check_operands(self, inputs, shape)
            is_checked = True
        result = out[0] if out else backend.empty(shape, self.dtype)
        target = result.reshape(chunk.shape)
        with named(self, inputs.starts, shape):
            if self.is_periodic and carry_in is None:
                carry_in = self._closed(backend, inputs, shape)
            is_finite = kernels.determine(ends, chunk, carry_in, target)
        if not is_checked and not (is_all_finite(result) if is_finite is None else is_finite):
            check_operands(self, inputs, shape)
        return (as_result(result, shape, self.result_dtype),), None

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        prepare = backend.kernels(self.family).prepare_solver
        # Closing a period, and what the other methods do not find by the way, are not in it.
        if prepare is None or self.is_periodic or self.method not in self.by_partitions:
            return None
        chunk = self._chunk(inputs, shape)
        if not all(map(is_uncopied, chunk.operands, inputs.blocks)):
            return None
        return prepare(self.ends(inputs, shape), chunk, None, results[0].reshape(chunk.shape))

    def _closed(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Any:
        """The carry-in of a chunk of whole systems whose ends meet."""
        rows = self.precompute(backend, inputs, shape)().rows
        return None if rows is None else ends_of(rows)

    def _chunk(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        return lay_out(self, inputs.blocks, shape, inputs.starts[self.axis])

    def ends(self, inputs: ChunkInputs, shape: Shape) -> Ends:
        first, is_open = inputs.starts[self.axis], not self.is_periodic
        is_last = first + shape[self.axis] == self.length
        return Ends(is_open and first == 0, is_open and is_last, self.method)
