"""The recipe of recurrences whose steps compose: transfer maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....algebra.coefficient import Coefficient
from ....algebra.transfer_map import TransferMap
from ....arrays.chunk import Chunk, CoefficientOperand
from ....arrays.door import Problem
from ....arrays.layout import as_result, lay_out, lay_out_entry
from ....backends import Backend, Summarise, cpu
from ....families.transfer.affine import AffineSummary
from ....families.transfer.summary import ComposedMaps
from .recipes import Pack, Recipe, Shape


@dataclass(frozen=True)
class TransferRecipe(Recipe):
    """A recurrence of transfer maps without its arrays.

    Attributes
    ----------
    transfer_map : TransferMap
    operands : tuple
        Of each operand: the number of its block in a pack, a 0-d array, or
        ``(function, slots)`` of a coefficient.
    """

    transfer_map: TransferMap
    operands: tuple[Any, ...]

    @classmethod
    def of(
        cls,
        problem: Problem,
        operands: tuple[Any, ...],
        varying: tuple[tuple[bool, ...], ...],
        block_dtypes: tuple[np.dtype[Any], ...],
        method: str,
    ) -> TransferRecipe:
        return cls(
            axis=problem.axis,
            reverse=problem.reverse,
            dtype=problem.dtype,
            result_dtype=problem.result_dtype,
            state_dtype=problem.dtype,
            state_shape=(),
            states=len(problem.initial),
            varying=varying,
            block_dtypes=block_dtypes,
            method=method,
            is_exit_asked=False,
            transfer_map=problem.transfer_map,
            operands=operands,
        )

    @property
    def results(self) -> int:
        return self.states

    def rest(self) -> tuple[Any, ...]:
        return (np.zeros((), self.dtype),) * self.states

    def enter(self, initial: Sequence[Any], shape: Shape) -> tuple[np.ndarray, ...]:
        laid_out = (lay_out_entry(state, shape, self.axis) for state in initial)
        return tuple(map(np.ascontiguousarray, laid_out))

    def precompute(self, backend: Backend, pack: Pack, shape: Shape) -> Summarise:
        phases = backend.kernels("transfer")
        summary = phases.precompute(self.transfer_map, self._chunk(pack, shape))
        return lambda: without_code(summary())

    def advance(self, summary: Any, entry: Any) -> Any:
        return cpu.propagate(self._with_code(summary), entry)

    def determine(self, backend: Backend, pack: Pack, shape: Shape, entry: Any) -> tuple[Any, ...]:
        chunk = self._chunk(pack, shape)
        results = tuple(backend.empty(chunk.shape, self.dtype) for _ in entry)
        backend.kernels("transfer").determine(self.transfer_map, chunk, entry, results)
        return tuple(as_result(result, shape, self.result_dtype) for result in results)

    def _chunk(self, pack: Pack, shape: Shape) -> Chunk:
        """The chunk laid out for a backend."""

        def fill(slot: Any) -> Any:
            if isinstance(slot, int):
                return pack.blocks[slot]
            if isinstance(slot, tuple):
                function, slots = slot
                return Coefficient.of(function, *map(fill, slots))
            return slot

        return lay_out(self, tuple(map(fill, self.operands)), shape, pack.starts[self.axis])

    def _with_code(self, summary: Any) -> Any:
        """What :func:`without_code` left out is in the recipe of every task."""
        if not isinstance(summary, AffineSummary):
            return ComposedMaps(self.transfer_map, summary)
        functions = [slot[0] if isinstance(slot, tuple) else None for slot in self.operands]
        return _with_functions(summary, functions) if summary.redo else summary


def without_code(summary: Any) -> Any:
    """A summary as it crosses a chunk boundary: numbers alone, no functions."""
    if isinstance(summary, ComposedMaps):
        return summary.maps
    return _with_functions(summary, None) if summary.redo else summary


def _with_functions(summary: AffineSummary, functions: Sequence[Any] | None) -> AffineSummary:
    """The coefficients of rows that are done again with these functions, one an operand."""

    def exchanged(chunk: Chunk) -> Chunk:
        own = functions or [None] * len(chunk.operands)
        operands = (
            replace(operand, function=function)
            if isinstance(operand, CoefficientOperand)
            else operand
            for operand, function in zip(chunk.operands, own, strict=True)
        )
        return replace(chunk, operands=tuple(operands))

    return replace(summary, redo={row: exchanged(c) for row, c in summary.redo.items()})
