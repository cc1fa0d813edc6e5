"""The contract of chains: a chunk needs the chunks before it alone, or nobody where it forgets."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..arrays.chunk import Chunk
from ..arrays.kinds import is_on_gpu, is_writeable
from ..arrays.layout import as_result
from .kernels import Backend, Kernels
from .recurrence import AlongAxis, Arrays, Pack, Shape
from .speculation import Begin, Begun

logger = logging.getLogger("mgrec")


@dataclass(frozen=True, kw_only=True)
class Chain(AlongAxis):
    """Summaries compose: a chunk needs those of the chunks before it."""

    @property
    @abstractmethod
    def algebra(self) -> Any:
        """What kernels are given beside a chunk: a transfer map, or a cascade of sections."""

    @abstractmethod
    def lay_out(self, pack: Pack, shape: Shape) -> Chunk:
        """A chunk, whose result is of this shape, laid out for kernels."""

    @abstractmethod
    def advance(self, kernels: Kernels, summary: Any, entry: Any) -> Any:
        """The entry of the chunk after, from the summary and the entry of a chunk."""

    def propagate(self, kernels: Kernels, summaries: Sequence[Any], entry: Any) -> list[Any]:
        entries = [entry]
        for summary in summaries:
            entries.append(self.advance(kernels, summary, entries[-1]))
        return entries

    def begin(self, backend: Backend, pack: Pack, shape: Shape) -> Begin | None:
        begin = backend.kernels(self.family).begin
        if begin is None or not self.may_begin(shape, any(map(is_on_gpu, pack.blocks))):
            return None
        chunk = self.lay_out(pack, shape)
        results = tuple([backend.empty(chunk.shape, self.dtype) for _ in range(self.results)])
        wait = begin(self.algebra, chunk, results)

        def begun() -> Begun | None:
            found = wait()
            if found is None:
                return None
            summary, head = found
            logger.debug("begin: chunk %s forgets its entry", pack.place)
            return Begun(results, summary, head, head.held)

        return begun if wait else None

    def finish(self, backend: Backend, shape: Shape, begun: Begun, entry: Any) -> Arrays:
        # What came from another worker may be read-only.
        results = tuple([r if is_writeable(r) else r.copy() for r in begun.results])
        results = backend.kernels(self.family).finish(begun.head, entry, results)
        return tuple([as_result(result, shape, self.result_dtype) for result in results])
