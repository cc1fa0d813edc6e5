"""The recipe of filters: constant coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....backends import Backend, Summarise
from ....backends.cpu.filters import phases as cpu
from ....families.filters.cascade import Cascade
from ....families.filters.door import FilterProblem
from ...filters.layout import lay_out_signal, lay_out_states
from .recipes import Pack, Recipe, Shape


@dataclass(frozen=True)
class FilterRecipe(Recipe):
    """A filter without its data; states are arrays (states, outer, inner)."""

    cascade: Cascade

    @classmethod
    def of(cls, problem: FilterProblem) -> FilterRecipe:
        cascade = problem.cascade
        return cls(
            axis=problem.axis,
            reverse=False,
            dtype=problem.dtype,
            result_dtype=problem.dtype,
            state_dtype=problem.state_dtype,
            state_shape=(cascade.states,),
            states=cascade.states,
            varying=((True,) * len(problem.shape),),
            block_dtypes=(problem.x.dtype,),
            method="auto",
            is_exit_asked=problem.entry is not None,
            cascade=cascade,
        )

    def rest(self) -> tuple[Any, ...]:
        return ()

    def enter(self, initial: Sequence[Any], shape: Shape) -> np.ndarray:
        return lay_out_states(self, initial[0] if initial else None, shape)

    def precompute(self, backend: Backend, pack: Pack, shape: Shape) -> Summarise:
        chunk = lay_out_signal(pack.blocks[0], self.axis, self.dtype)
        return backend.kernels("filters").precompute(self.cascade, chunk)

    def advance(self, summary: Any, entry: Any) -> np.ndarray:
        return cpu.propagate_filter(summary, entry)

    def determine(self, backend: Backend, pack: Pack, shape: Shape, entry: Any) -> tuple[Any, ...]:
        chunk = lay_out_signal(pack.blocks[0], self.axis, self.dtype)
        result = backend.empty(chunk.shape, self.dtype)
        backend.kernels("filters").determine(self.cascade, chunk, entry, result)
        return (result.reshape(shape),)

    def leave(self, exit: Any, shape: Shape) -> np.ndarray:
        rows = shape[: self.axis] + shape[self.axis + 1 :]
        with np.errstate(over="ignore"):
            return exit.reshape(*self.state_shape, *rows).astype(self.dtype)
