"""Filters as recurrences: constant coefficients, k states."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from ...arrays.chunk import Chunk
from ...arrays.kinds import is_writeable
from ...arrays.layout import canonical_shape, is_one
from ..begun import Begin, Begun
from ..family import Arrays, Chain, Pack, Shape
from ..kernels import Again, Backend, Kernels, Summarise
from ..problem import Problem
from .cascade import Cascade
from .head import LARGE, LEAST_DECAYS

logger = logging.getLogger("mgrec")


@dataclass(frozen=True, kw_only=True)
class FilterRecurrence(Chain):
    """A filter without its data; states are arrays (states, outer, inner)."""

    family: ClassVar[str] = "filters"
    cascade: Cascade

    def enter(self, initial: Sequence[Any], shape: Shape) -> Any:
        outer, _, inner = canonical_shape(shape, self.axis)
        if not initial:
            return np.zeros((self.states, outer, inner), self.state_dtype)
        rows = shape[: self.axis] + shape[self.axis + 1 :]
        full = np.broadcast_to(initial[0].astype(self.state_dtype), (self.states, *rows))
        return full.reshape(self.states, outer, inner)

    def precompute(self, backend: Backend, pack: Pack, shape: Shape) -> Summarise:
        return backend.kernels(self.family).precompute(self.cascade, self._chunk(pack))

    def advance(self, kernels: Kernels, summary: Any, entry: Any) -> np.ndarray:
        exit: np.ndarray = kernels.propagate(summary, np.ascontiguousarray(entry))
        return exit

    def determine(
        self, backend: Backend, pack: Pack, shape: Shape, entry: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        chunk = self._chunk(pack)
        result = (out[0] if out else backend.empty(shape, self.dtype)).reshape(chunk.shape)
        exit = backend.kernels(self.family).determine(self.cascade, chunk, entry, result)
        return (result.reshape(shape),), exit

    @property
    def forgets(self) -> bool:
        return self.cascade.states > 0 and self.cascade.radius < 1

    def may_begin(self, shape: Sequence[float], is_on_gpu: bool) -> bool:
        if is_on_gpu or not self.forgets:
            return False
        steps = shape[self.axis]
        return steps >= LEAST_DECAYS * max(1.0, self.cascade.decay) and prod(shape) >= LARGE

    def begin(self, backend: Backend, pack: Pack, shape: Shape) -> Begin | None:
        begin = backend.kernels(self.family).begin
        if begin is None or not self.may_begin(shape, False):
            return None
        chunk = self._chunk(pack)
        results = (backend.empty(chunk.shape, self.dtype),)
        wait = begin(self.cascade, chunk, results)

        def begun() -> Begun | None:
            found = wait()
            if found is None:
                return None
            logger.debug("begin: chunk %s forgets its entry", pack.place)
            return Begun(results, *found)

        return begun

    def finish(self, backend: Backend, shape: Shape, begun: Begun, entry: Any) -> Arrays:
        # What came from another worker may be read-only.
        results = tuple([r if is_writeable(r) else r.copy() for r in begun.results])
        (result,) = backend.kernels(self.family).finish(begun.head, entry, results)
        return (result.reshape(shape),)

    def again(
        self, backend: Backend, pack: Pack, shape: Shape, entry: Any, results: Arrays
    ) -> Again | None:
        prepare = backend.kernels(self.family).again
        chunk = self._chunk(pack)
        if prepare is None or not is_one(chunk.operands[0], pack.blocks[0]):
            return None
        return prepare(self.cascade, chunk, entry, results[0].reshape(chunk.shape))

    def leave(self, exit: Any, shape: Shape) -> Any:
        rows = shape[: self.axis] + shape[self.axis + 1 :]
        with np.errstate(over="ignore"):
            return exit.reshape(*self.state_shape, *rows).astype(self.dtype)

    def _chunk(self, pack: Pack) -> Chunk:
        """The signal laid out, in its own dtype: kernels cast samples as they read them."""
        (x,) = pack.blocks
        layout = canonical_shape(x.shape, self.axis)
        x = x if x.flags.c_contiguous else x.copy(order="C")
        return Chunk((x.reshape(layout),), layout, self.dtype)


def filter_problem(
    cascade: Cascade, x: Any, entry: Any, axis: int, dtype: np.dtype[Any], out: Any = None
) -> Problem:
    """A filter over an array; nothing is checked.

    Parameters
    ----------
    entry : array, optional
        The states before the first sample: their axis first, then the axes of x without
        `axis`, each full or of length 1. 0 where None.
    axis : int
        0 or more.
    dtype : numpy.dtype
        Of the results: float32, float64, complex64 or complex128.
    """
    is_complex = cascade.is_complex or dtype.kind == "c"
    recurrence = FilterRecurrence(
        dtype=dtype,
        result_dtype=dtype,
        varying=((True,) * x.ndim,),
        block_dtypes=(x.dtype,),
        axis=axis,
        state_dtype=np.dtype(np.complex128 if is_complex else np.float64),
        state_shape=(cascade.states,),
        states=cascade.states,
        is_exit_asked=entry is not None,
        cascade=cascade,
    )
    initial = () if entry is None else (entry,)
    return Problem(recurrence, (x,), initial, tuple(x.shape), out=out)
