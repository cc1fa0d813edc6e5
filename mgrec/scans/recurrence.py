"""The recurrence of any transfer map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any, ClassVar

import numpy as np

from ..core.algebra.coefficient import Coefficient
from ..core.algebra.transfer_map import TransferMap, affine
from ..core.arrays.chunk import Chunk, as_result, is_number, is_uncopied, lay_out, lay_out_carry_in
from ..core.arrays.validation import arrays_of
from ..core.contract.kernels import Backend, Kernels, PreparedSolver, ShardSolver
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..core.contract.scan import LARGE_ON_GPU, Chain
from .laws import check_laws_once
from .summaries import are_short, propagate_short

LEAST, LARGE = 4096, 1 << 19
"""Fewest steps and numbers of a speculative chunk. The prefix would be too large a part of a
shorter chunk; a smaller one is solved in the time of a task."""


@dataclass(frozen=True, kw_only=True)
class TransferRecurrence(Chain):
    """A recurrence of transfer maps.

    `operands` has for each operand the number of its block in the chunk inputs, a 0-d array, or
    ``(function, slots)`` of a coefficient. `checks_laws` says whether to check the laws of the map
    on steps of the first solved chunk.
    """

    family: ClassVar[str] = "scans"
    has_fixed_carry_out: ClassVar[bool] = True
    transfer_map: TransferMap
    operands: tuple[Any, ...]
    checks_laws: bool = False

    @property
    def algebra(self) -> Any:
        return self.transfer_map

    @property
    def results(self) -> int:
        return self.states

    def written_dtype(self, backend: Backend) -> np.dtype[Any]:
        # Kernels that read float16 or bfloat16 also write it.
        return self.result_dtype if self.result_dtype in self.block_dtypes else self.dtype

    @property
    def indexed_by(self) -> str:
        return "a Coefficient" if any(isinstance(slot, tuple) for slot in self.operands) else ""

    def zero_state(self) -> Arrays:
        return (np.zeros((), self.dtype),) * self.states

    def for_warm_up(self) -> TransferRecurrence:
        return replace(self, checks_laws=False)

    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> Arrays:
        return tuple([lay_out_carry_in(state, shape, self.axis) for state in initial])

    def whole_carry_in(self, backend: Backend, initial: Sequence[Any], shape: Shape) -> Arrays:
        def laid_out(state: Any) -> Any:
            is_broadcast = backend.broadcasts_state and is_number(state)
            return state if is_broadcast else lay_out_carry_in(state, shape, self.axis)

        return tuple(map(laid_out, initial))

    def propagate(self, kernels: Kernels, summaries: Sequence[Any], carry_in: Any) -> list[Any]:
        if are_short(summaries):
            return [carry_in, *((carry_out,) for carry_out in propagate_short(summaries, carry_in[0]))]
        return super().propagate(kernels, summaries, carry_in)

    def advance(self, kernels: Kernels, summary: Any, carry_in: Any) -> Any:
        functions = [slot[0] if isinstance(slot, tuple) else None for slot in self.operands]
        return kernels.propagate(self.transfer_map, functions, summary, carry_in)

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        chunk = self.lay_out(inputs, shape)
        written = self.written_dtype(backend)
        targets = out if written == self.result_dtype else ()
        results = targets or [backend.empty(chunk.shape, written) for _ in range(self.states)]
        results = tuple([array.reshape(chunk.shape) for array in results])
        backend.kernels(self.family).determine(self.transfer_map, chunk, carry_in, results)
        self._check_laws(backend, chunk, carry_in, results)
        return tuple([as_result(result, shape, self.result_dtype) for result in results]), None

    def _check_laws(self, backend: Backend, chunk: Chunk, carry_in: Arrays, results: Arrays) -> None:
        if self.checks_laws and not backend.is_capturing():
            kernels = backend.kernels(self.family)
            compile_compose = None if backend.compiles_maps else kernels.precompute
            check_laws_once(self.transfer_map, chunk, carry_in, results, compile_compose)

    @cached_property
    def is_contractive(self) -> bool:
        is_linear = self.transfer_map.capabilities.is_affine and self.dtype.kind == "f"
        return is_linear and not self.indexed_by

    def may_speculate(self, shape: Sequence[float], backend: Backend) -> bool:
        pays = {"cpu": self._pays_on_cpu, "cuda": self._pays_on_gpu}.get(backend.engine)
        return pays is not None and self.is_contractive and pays(shape)

    def _pays_on_cpu(self, shape: Sequence[float]) -> bool:
        return shape[self.axis] >= LEAST and prod(shape) >= LARGE

    def _pays_on_gpu(self, shape: Sequence[float]) -> bool:
        size, steps, s = prod(shape), shape[self.axis], self.operands[0]
        if isinstance(s, int):
            may_be_contractive = steps == size
        else:
            may_be_contractive = s.size == 1 and abs(s.item()) < 1
        return self._is_large_on_gpu(shape) and may_be_contractive and self.method != "p-scheme"

    def _is_large_on_gpu(self, shape: Sequence[float]) -> bool:
        words = sum(isinstance(slot, int) for slot in self.operands)
        return words * prod(shape) * self.dtype.itemsize >= LARGE_ON_GPU

    def solver_arguments(self, operands: Sequence[Any], initial: Sequence[Any]) -> list[Any]:
        return [*arrays_of(self._filled(operands)), *initial]

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        prepare = backend.kernels(self.family).prepare_solver
        arrays = self._arrays_of_solver(backend, inputs, shape, initial, results)
        if prepare is None or arrays is None:
            return None
        solve = prepare(self.transfer_map, *arrays)
        if solve is None or not self.checks_laws:
            return solve
        return _with_first_check(solve, partial(self._check_laws, backend, *arrays))

    @property
    def has_shards(self) -> bool:
        return self.transfer_map == affine and self.dtype.kind == "f"

    def prepare_shard(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> ShardSolver | None:
        prepare = backend.kernels(self.family).prepare_shard
        arrays = self._arrays_of_solver(backend, inputs, shape, initial, results)
        if prepare is None or arrays is None:
            return None
        return prepare(self.transfer_map, *arrays, self._is_large_on_gpu(shape))

    def _arrays_of_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> tuple[Any, Any, Arrays] | None:
        """Return the chunk, the carry-in and the results, or None if one of them is a copy."""
        if self.written_dtype(backend) != self.result_dtype:
            return None
        chunk, carry_in = self.lay_out(inputs, shape), self.whole_carry_in(backend, initial, shape)
        laid_out = [array for operand in chunk.operands for array in getattr(operand, "operands", [operand])]
        arguments = self.solver_arguments(inputs.blocks, initial)
        if not all(map(is_uncopied, [*laid_out, *carry_in], arguments)):
            return None
        return chunk, carry_in, tuple([array.reshape(chunk.shape) for array in results])

    def lay_out(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        return lay_out(self, self._filled(inputs.blocks), shape, inputs.starts[self.axis])

    def _filled(self, blocks: Sequence[Any]) -> tuple[Any, ...]:
        """Return the operands, with blocks in their slots."""
        return tuple([_fill(slot, blocks) for slot in self.operands])


def _with_first_check(solve: PreparedSolver, check: Callable[[], None]) -> PreparedSolver:
    """Return a solver that checks its first results, and then releases the arrays of `check`."""
    checks = [check]

    def solve_and_check(operands: Sequence[Any], results: Sequence[Any]) -> Any:
        carry_out = solve(operands, results)
        if checks:
            checks.pop()()
        return carry_out

    return solve_and_check


def _fill(slot: Any, blocks: Sequence[Any]) -> Any:
    # A nested function that calls itself would be a reference cycle, and keep the blocks alive.
    if isinstance(slot, int):
        return blocks[slot]
    if isinstance(slot, tuple):
        function, slots = slot
        return Coefficient.of(function, *[_fill(inner, blocks) for inner in slots])
    return slot
