"""The contract: what a recurrence says of itself, and by which way information crosses chunks.

A family is a folder here, and one of the same name in every backend that has kernels for it. Its
recurrences are dataclasses of one of five topologies:

=============  ==============================================  =================================
topology       what crosses the boundary of a chunk            families
=============  ==============================================  =================================
``Chain``      a summary one way, an entry the same way        transfer maps, filters: chain.py
``Line``       a summary to a small system, an entry back      tridiagonal systems
``Grid``       the edges above and to the left (grid.py)        wavefront loops
``Swept``      the sides of the chunks around it (swept.py)    wavefront loops, several sweeps
``Traceback``  the same edges; a path back (traceback.py)      alignments
=============  ==============================================  =================================

Placement knows nothing else of a family: not in a solve on one machine, nor in graphs or plans.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from ..arrays.native import as_native
from .kernels import Again, Backend, Kernels, Summarise
from .speculation import Begin, Begun

Shape = tuple[int, ...]
Place = tuple[int, ...]
Where = tuple[Place, tuple[int, ...]]
"""A chunk's place among the chunks, and the indices of its first step and rows."""
Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Pack:
    """The blocks of one chunk, its place among the chunks, and where it starts.

    Blocks are made native: those that a worker was sent lie where the message left them.
    """

    blocks: Arrays
    place: Place
    starts: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple([as_native(block) for block in self.blocks]))

    def __reduce__(self) -> Any:
        return Pack, (self.blocks, self.place, self.starts)

    def __sizeof__(self) -> int:
        return sum(block.nbytes for block in self.blocks)


@dataclass(frozen=True, kw_only=True)
class Recurrence(ABC):
    """A recurrence without its arrays: what a task must know.

    Attributes
    ----------
    family : str
        The folder of its kernels in every backend.
    dtype, result_dtype : numpy.dtype
        In which a chunk is computed, and of its results.
    varying : tuple of tuple of bool
        Of each block of a pack: the axes along which it is not broadcast, the last ones of all.
    block_dtypes : tuple of numpy.dtype
        Of each block of a pack, as its array tells.
    method : str
        Which kernels solve it: one of `methods`, and of `host_methods` in host memory.
    """

    family: ClassVar[str]
    methods: ClassVar[tuple[str, ...]] = ("auto", "single-pass", "p-scheme")
    host_methods: ClassVar[tuple[str, ...]] = ("auto",)
    dtype: np.dtype[Any]
    result_dtype: np.dtype[Any]
    varying: tuple[tuple[bool, ...], ...]
    block_dtypes: tuple[np.dtype[Any], ...]
    method: str = "auto"

    @property
    def results(self) -> int:
        """Arrays that a chunk gives."""
        return 1

    @property
    def indexed_by(self) -> str:
        """What needs the index of a chunk's first step, for messages; "" where nothing does."""
        return ""

    def __reduce__(self) -> Any:
        return read_recurrence, (self._written,)

    @cached_property
    def _written(self) -> bytes:
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        # Functions of users may be known in this process alone.
        return bytes(cloudpickle.dumps((type(self), own)))

    @cached_property
    def _is_full(self) -> bool:
        """No block is broadcast."""
        return all(map(all, self.varying))

    def check(self, pack: Pack) -> None:
        """Raise unless the blocks are of the dtypes that their arrays tell.

        Kernels are chosen by these. Dask believes what ``map_blocks`` is told.
        """
        for block, dtype in zip(pack.blocks, self.block_dtypes, strict=True):
            if block.dtype != dtype:
                raise TypeError(
                    f"operands must have chunks of the dtype that their array tells, {dtype}; "
                    f"chunk {pack.place} is {block.dtype}. Give map_blocks, or what else made "
                    f"the array, the right dtype or meta"
                )

    def check_chunks(self, chunks: Sequence[Sequence[Any]]) -> None:  # noqa: B027
        """Raise unless Dask arrays in these chunks, one tuple an axis, can be solved."""

    def shape(self, pack: Pack) -> Shape:
        """The shape of a chunk's result; unknown sizes are checked here, where they show."""
        ndim, (first, *others) = len(pack.place), (block.shape for block in pack.blocks)
        if self._is_full and len(first) == ndim and all(shape == first for shape in others):
            return first
        lengths: list[set[int]] = [set() for _ in range(ndim)]
        for block, varying in zip(pack.blocks, self.varying, strict=True):
            for k, length, is_varying in zip(
                range(ndim - block.ndim, ndim), block.shape, varying, strict=True
            ):
                if is_varying:
                    lengths[k].add(length)
        if any(len(found) > 1 for found in lengths):
            shapes = " and ".join(str(block.shape) for block in pack.blocks)
            raise ValueError(
                f"operands must have chunks of the same sizes; chunk {pack.place} got {shapes}"
            )
        return tuple(found.pop() if found else 1 for found in lengths)

    def given(self, operands: Sequence[Any], initial: Sequence[Any]) -> list[Any]:
        """What :meth:`again` takes of a call, in the order of the public function's arguments."""
        return [*operands, *initial]

    def again(
        self, backend: Backend, pack: Pack, shape: Shape, initial: Arrays, results: Arrays
    ) -> Again | None:
        """What determines other arrays, alike in all but their values, that are one chunk.

        `initial` are the states of :meth:`AlongAxis.enter_whole`, `results` as for `determine`.
        None where that is not to be had, or something was copied when it was laid out; see
        :class:`.kernels.Kernels`.
        """
        return None


@lru_cache(maxsize=256)
def read_recurrence(written: bytes) -> Recurrence:
    """A recurrence as it was pickled: it is in every task, but read once a process."""
    kind, own = pickle.loads(written)
    return kind(**own)


@dataclass(frozen=True, kw_only=True)
class AlongAxis(Recurrence):
    """A recurrence along one axis, whose chunks have summaries.

    Attributes
    ----------
    axis : int
        0 or more.
    reverse : bool
        The last step acts first.
    state_dtype : numpy.dtype
        Of the states between chunks.
    state_shape : tuple of int
        Axes that the states before the first step have ahead of those of the rows.
    states : int
        Scalars of the state, a row.
    is_exit_asked : bool
        Somebody asks for the states after the last chunk, which is summarised then as well.
    is_two_sided : bool
        A chunk needs the summaries of all chunks of its row, not of those before it alone.
    ends_alike : bool
        A chunk that was begun ends in the same state from every finite entry, and `finish` writes
        over the same steps from all of them.
    """

    is_two_sided: ClassVar[bool] = False
    ends_alike: ClassVar[bool] = False
    axis: int
    reverse: bool = False
    state_dtype: np.dtype[Any]
    state_shape: Shape = ()
    states: int
    is_exit_asked: bool = False

    def sample(self, number: int) -> float:
        """A value for a block of a pack with which every chunk can be solved."""
        return 0.5

    def rest(self) -> Arrays:
        """States before the first step, all 0, in the form in which they are given."""
        return ()

    def for_warm_up(self) -> AlongAxis:
        """The recurrence for chunks of :meth:`sample`, whose results are not used."""
        return self

    @abstractmethod
    def enter(self, initial: Sequence[Any], shape: Shape) -> Any:
        """The entry of a first chunk of this shape, from arrays (state_shape, *rows)."""

    def enter_whole(self, backend: Backend, initial: Sequence[Any], shape: Shape) -> Any:
        """The entry of an array that is one chunk, as the kernels of a backend take it."""
        return self.enter(initial, shape)

    @abstractmethod
    def precompute(self, backend: Backend, pack: Pack, shape: Shape) -> Summarise:
        """Launch the summary of a chunk: numbers and arrays in host memory, no functions."""

    @abstractmethod
    def propagate(self, kernels: Kernels, summaries: Sequence[Any], entry: Any) -> list[Any]:
        """The entries of chunks in the order of the recurrence, and of the chunk after them.

        `entry` is that of the first of them. Along a line no chunk comes after the last.
        """

    @abstractmethod
    def determine(
        self, backend: Backend, pack: Pack, shape: Shape, entry: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        """The results of a chunk, written to `out` where it is given, and its exit or None.

        None for `entry` is what no states before the first step are: a call without them.
        """

    @property
    def forgets(self) -> bool:
        """Whether its chunks may forget their entries, and be begun where a backend can."""
        return False

    def may_begin(self, shape: Sequence[float], is_on_gpu: bool) -> bool:
        """Whether a chunk of this shape can be begun, and should; inf for unknown lengths."""
        return False

    def begin(self, backend: Backend, pack: Pack, shape: Shape) -> Begin | None:
        """Launch what determines a chunk from another entry than its own, and summarises it.

        None, or a wait for None, where it does not forget its entry: it waits for that. The choice
        depends on the chunk alone, so that it has the same bits wherever it is solved.
        """
        return None

    def finish(self, backend: Backend, shape: Shape, begun: Begun, entry: Any) -> Arrays:
        """The results of a chunk that was begun. They may be written twice, from one entry.

        Where chunks end alike the first time may be from another one, which is finite.
        """
        raise NotImplementedError

    def leave(self, exit: Any, shape: Shape) -> Any:
        """The entry after the last chunk, of this shape, as an array (state_shape, *rows)."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Line(AlongAxis):
    """Two-sided: the summaries of all chunks of a row make a small system, solved in one task."""

    is_two_sided: ClassVar[bool] = True
