"""Tridiagonal systems as a two-sided recurrence: the interface rows of chunks form a system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from ..core.arrays.chunk import Chunk, as_result, is_uncopied, lay_out
from ..core.contract.kernels import Backend, Kernels, PreparedSolver, Summarise
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape, TwoSided
from .errors import check_operands, is_all_finite, name_singular_system
from .interface import (
    Ends,
    InterfaceRows,
    Launch,
    join_interface_rows,
    rows_at_ends,
    solve_periodic_ends,
    start_of_end,
    summarise_ends,
)
from .kernels import TridiagonalKernels, kernels_of


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
    methods: ClassVar[tuple[str, ...]] = (
        "auto", "partition", "thomas", "cyclic-reduction", "pcr", "p-scheme",
    )  # fmt: skip
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
                if self.check_finite and rows is not None and not is_all_finite(rows):
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
        is_one_row = prod(shape[: self.axis]) == 1 and 0 not in shape
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
                carry_in = None if rows is None else solve_periodic_ends(rows)
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

    def _checked(
        self, inputs: ChunkInputs, shape: Shape, result: Any, is_finite: bool | None
    ) -> Arrays:
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

    def _chunk(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        return lay_out(self, inputs.blocks, shape, inputs.starts[self.axis])

    def ends(self, inputs: ChunkInputs, shape: Shape) -> Ends:
        """Return which ends of its systems a chunk contains."""
        first, is_open = inputs.starts[self.axis], not self.is_periodic
        is_last = first + shape[self.axis] == self.length
        return Ends(is_open and first == 0, is_open and is_last, self.method)
