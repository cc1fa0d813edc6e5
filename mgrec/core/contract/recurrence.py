"""The contract of a recurrence: its description, and what crosses the boundary of a chunk.

A family is one folder, with a subfolder of kernels for each backend. Its recurrences are frozen
dataclasses of one of six topologies: ``Chain`` (scan.py), ``TwoSided`` and ``Overlapping`` (this
file), ``Grid``, ``Swept`` and ``Traceback`` (grid.py). The page "How it works" has a table of them
and of their families. The code that solves, builds graphs or runs plans knows families by this
contract only.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from ..arrays.array_types import as_native
from ..backends import backend_of
from .kernels import (
    Backend,
    CarryIn,
    Kernels,
    PreparedSolver,
    ShardSolver,
    Speculation,
    SpeculationWait,
    Summarise,
    Summary,
)

Shape = tuple[int, ...]
ChunkIndex = tuple[int, ...]
ChunkPosition = tuple[ChunkIndex, tuple[int, ...]]
"""The index of a chunk among the chunks, and the indices of its first step and rows."""
Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class ChunkInputs:
    """The blocks of one chunk, its index among the chunks, and the index of its first step.

    Blocks become native in byte order and alignment: a block from another worker lies where its
    message left it.

    `kept`: what `precompute` keeps for `determine` on the same device, smaller than the blocks;
      None if it need not. It is not sent to other processes.
    """

    blocks: Arrays
    chunk_index: ChunkIndex
    starts: tuple[int, ...]
    kept: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple([as_native(block) for block in self.blocks]))

    def __reduce__(self) -> Any:
        return ChunkInputs, (self.blocks, self.chunk_index, self.starts)

    def __sizeof__(self) -> int:
        return sum(block.nbytes for block in self.blocks)


def varying(array_shape: Shape, shape: Shape) -> tuple[bool, ...]:
    """Return for each axis of an array whether it varies, or is broadcast to `shape`."""
    if array_shape == shape:
        return (True,) * len(array_shape)
    wanted = shape[len(shape) - len(array_shape) :]
    return tuple(have != 1 or want == 1 for have, want in zip(array_shape, wanted, strict=True))


@dataclass(frozen=True, kw_only=True)
class Recurrence(ABC):
    """A recurrence without its arrays: the part that every task carries.

    `family`: folder of its kernels in every backend, such as ``"scans"`` or ``"grids.table"``. An
      `Overlapping` recurrence has none: the methods of its filter compute chunks.
    `dtype`, `result_dtype`: dtype of the computation; dtype of the results.
    `varying`: for each block, whether it varies along its axes, or is broadcast; the last axes of
      all.
    `block_dtypes`: for each block, the dtype that its array declares.
    `method`: name of the kernels: one of `methods`, and of `host_methods` in host memory.
    `is_asynchronous`: on a GPU `determine` returns before the chunk is done, and what
      `launch_determine` returns does not wait.
    `number_axes`: last axes of operands and results that have the numbers of a step: they are in
      one chunk, of any length, and are not broadcast.
    """

    family: ClassVar[str]
    number_axes: ClassVar[int] = 0
    is_asynchronous: ClassVar[bool] = True
    methods: ClassVar[tuple[str, ...]] = ("auto", "single-pass", "p-scheme")
    host_methods: ClassVar[tuple[str, ...]] = ("auto",)
    dtype: np.dtype[Any]
    result_dtype: np.dtype[Any]
    varying: tuple[tuple[bool, ...], ...]
    block_dtypes: tuple[np.dtype[Any], ...]
    method: str = "auto"

    @classmethod
    def over(cls, arrays: Sequence[Any], shape: Shape, dtype: np.dtype[Any], **attributes: Any) -> Self:
        """Return the recurrence of operands that broadcast to a shape, which has no axes of numbers.

        Results have the dtype, too, unless `attributes` have a `result_dtype`.
        """
        count = cls.number_axes
        varies = [varying(array.shape[:-count] if count else array.shape, shape) for array in arrays]
        attributes.setdefault("result_dtype", dtype)
        return cls(
            dtype=dtype,
            varying=tuple([(*axes, *[False] * count) for axes in varies] if count else varies),
            block_dtypes=tuple([array.dtype for array in arrays]),
            **attributes,
        )

    @property
    def results(self) -> int:
        """Number of result arrays of a chunk."""
        return 1

    def written_dtype(self, backend: Backend) -> np.dtype[Any]:
        """Return the dtype of the results that kernels write; others are cast at the end."""
        return self.dtype

    @property
    def indexed_by(self) -> str:
        """Name of the operand that needs the index of the first step, for messages; or ""."""
        return ""

    def __reduce__(self) -> Any:
        return read_recurrence, (self._pickled,)

    @cached_property
    def _pickled(self) -> bytes:
        attributes = {field.name: getattr(self, field.name) for field in fields(self)}
        # Functions of users may be importable in this process only.
        return bytes(cloudpickle.dumps((type(self), attributes)))

    @cached_property
    def _is_full(self) -> bool:
        """Whether no block is broadcast."""
        return all(map(all, self.varying))

    def is_same(self, other: Recurrence) -> bool:
        """Return whether another recurrence computes the same bits, as far as pickles show."""
        return self is other or self._pickled == other._pickled

    def check(self, inputs: ChunkInputs) -> None:
        """Raise TypeError unless each block is an array of the dtype that its array declares.

        The dtype selects the kernels, and Dask does not verify what ``map_blocks`` declares.
        """
        for block, dtype in zip(inputs.blocks, self.block_dtypes, strict=True):
            if not hasattr(block, "__array_function__"):
                raise TypeError(
                    f"operands must have chunks that are arrays; chunk {inputs.chunk_index} is a "
                    f"{type(block).__module__}.{type(block).__qualname__}. Pass a function that "
                    f"returns arrays to map_blocks, or to the function that made the array"
                )
            if block.dtype != dtype:
                raise TypeError(
                    f"operands must have chunks of the dtype that their array declares, {dtype}; "
                    f"chunk {inputs.chunk_index} is {block.dtype}. Pass the right dtype or meta to "
                    f"map_blocks, or to the function that made the array"
                )

    def check_chunks(self, chunks: Sequence[Sequence[Any]]) -> None:  # noqa: B027
        """Raise unless Dask arrays in these chunks, one tuple an axis, can be solved."""

    def shape(self, inputs: ChunkInputs) -> Shape:
        """Return the shape of a chunk's result; raise ValueError if its blocks disagree."""
        ndim, (first, *others) = len(inputs.chunk_index), (block.shape for block in inputs.blocks)
        if self._is_full and len(first) == ndim and all(shape == first for shape in others):
            return first
        lengths: list[set[int]] = [set() for _ in range(ndim)]
        for block, varying in zip(inputs.blocks, self.varying, strict=True):
            if block.ndim != len(varying):
                raise ValueError(
                    f"operands must have chunks with as many axes as their array declares, "
                    f"{len(varying)}; chunk {inputs.chunk_index} has the shape {block.shape}"
                )
            for k, length, is_varying in zip(
                range(ndim - block.ndim, ndim), block.shape, varying, strict=True
            ):
                if is_varying:
                    lengths[k].add(length)
        if any(len(sizes) > 1 for sizes in lengths):
            shapes = " and ".join(str(block.shape) for block in inputs.blocks)
            raise ValueError(
                f"operands must have chunks of the same sizes; chunk {inputs.chunk_index} got {shapes}"
            )
        return tuple(sizes.pop() if sizes else 1 for sizes in lengths)

    def solver_arguments(self, operands: Sequence[Any], initial: Sequence[Any]) -> list[Any]:
        """Return the operands of a prepared solver, in the order of the public function."""
        return [*operands, *initial]

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        """Return a solver for other arrays of the same shapes and dtypes, in one chunk.

        `initial` are the states of :meth:`AlongAxis.whole_carry_in`, `results` as for
        `determine`. None if the call cannot be prepared, or its layout needs a copy; see
        :class:`.kernels.Kernels`.
        """
        return None

    @property
    def has_shards(self) -> bool:
        """Whether `prepare_shard` may return a solver."""
        return False

    def prepare_shard(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> ShardSolver | None:
        """As :meth:`prepare_solver`, for parts of an axis on the ranks of a group."""
        return None


@lru_cache(maxsize=256)
def read_recurrence(pickled: bytes) -> Recurrence:
    """Unpickle a recurrence once a process; every task of a graph has it."""
    cls, attributes = pickle.loads(pickled)
    return cls(**attributes)


def _no_summary() -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class AlongAxis(Recurrence):
    """A recurrence along one axis, whose chunks have summaries.

    Callers use `summarise`, `carry_ins` and `launch`, which do nothing for chunks without rows or
    steps. `precompute`, `propagate` and `determine` are those of a family, whose chunks have both.

    `state_dtype`: dtype of the states between chunks.
    `state_shape`: leading axes of the states before the first step; the axes of the rows follow.
    `states`: scalars in the state of one row.
    `returns_final_state`: whether the states after the last chunk are requested; the last chunk is
      then summarised.
    `is_two_sided`: whether a chunk needs the summaries of all chunks of its row, not only of those
      before it.
    `has_fixed_carry_out`: whether a speculative chunk ends in the same state for every finite
      carry-in, and `correct` writes the same steps for all of them.
    """

    is_two_sided: ClassVar[bool] = False
    has_fixed_carry_out: ClassVar[bool] = False
    axis: int
    reverse: bool = False
    state_dtype: np.dtype[Any]
    state_shape: Shape = ()
    states: int
    returns_final_state: bool = False

    def order_of_chunk(self, number: int, count: int) -> int:
        """Return the position of one of `count` chunks along the axis, or the chunk at a position."""
        return count - 1 - number if self.reverse else number

    def needs_last_summary(self, count: int) -> bool:
        """Return whether the last of `count` chunks along the axis is summarised."""
        return (self.is_two_sided and count > 1) or self.returns_final_state

    def example_value(self, number: int) -> float:
        """Return a value for block `number` with which every chunk can be solved."""
        return 0.5

    def of_length(self, steps: int) -> AlongAxis:
        """Return the recurrence over an axis of so many steps, for operands of a part of them."""
        return self

    def zero_state(self) -> Arrays:
        """Return states of zero before the first step, in the form of `initial`."""
        return ()

    def for_warm_up(self) -> AlongAxis:
        """Return the recurrence for chunks of `example_value`, whose results are not used."""
        return self

    def summarise(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Summarise:
        """Launch `precompute`; the summary of a chunk without results is None."""
        return _no_summary if 0 in shape else self.precompute(backend, inputs, shape)

    def carry_ins(
        self, kernels: Kernels, summaries: Sequence[Summary | None], carry_in: CarryIn
    ) -> list[CarryIn]:
        """Return what `propagate` returns; chunks without results do not change the state."""
        solved = [summary for summary in summaries if summary is not None]
        states = self.propagate(kernels, solved, carry_in) if solved else [carry_in]
        if len(solved) == len(summaries):
            return states
        counts = accumulate((summary is not None for summary in summaries), initial=0)
        return [states[min(count, len(states) - 1)] for count in counts]

    def launch(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: CarryIn
    ) -> Callable[[], Arrays]:
        """Launch `launch_determine`, unless the chunk has no results."""
        if 0 in shape:
            results = self.no_results(backend, shape)
            return lambda: results
        return self.launch_determine(backend, inputs, shape, carry_in)

    def no_results(self, backend: Backend, shape: Shape) -> Arrays:
        """Return the results of a chunk without rows or steps: empty arrays of this shape."""
        return tuple([backend.empty(shape, self.result_dtype) for _ in range(self.results)])

    @abstractmethod
    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> Any:
        """Return the carry-in of a first chunk of this shape, from arrays (state_shape, *rows)."""

    def whole_carry_in(self, backend: Backend, initial: Sequence[Any], shape: Shape) -> Any:
        """Return the carry-in of an array that is one chunk, as kernels of the backend take it."""
        return self.first_carry_in(initial, shape)

    def overlapped(self, lengths: Sequence[float]) -> Any:
        """Return a filter for ``filter_chunks`` over chunks of these lengths, or None."""
        return None

    @abstractmethod
    def precompute(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Summarise:
        """Launch the summary of a chunk: numbers and arrays in host memory, no functions.

        What `determine` would compute again may be put into `inputs.kept`, if that is not None.
        """

    def retain_maps(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> None:
        """Launch what `precompute` would put into `inputs.kept`, of a chunk without a summary."""

    @abstractmethod
    def propagate(self, kernels: Kernels, summaries: Sequence[Summary], carry_in: CarryIn) -> list[CarryIn]:
        """Return the carry-ins of these chunks, in the recurrence's order, and the one after them.

        `carry_in` is that of the first chunk. A two-sided recurrence has none after the last.
        """

    @abstractmethod
    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: CarryIn, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        """Return the results of a chunk, written to `out` if given, and its carry-out or None.

        `carry_in` is None if the call has no states before the first step.
        """

    def launch_determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: CarryIn
    ) -> Callable[[], Arrays]:
        """Launch `determine`; the returned function waits if it must, and returns the results."""
        results, _ = self.determine(backend, inputs, shape, carry_in)
        return lambda: results

    @property
    def is_contractive(self) -> bool:
        """Whether chunks may turn out not to depend on their carry-ins."""
        return False

    def may_speculate(self, shape: Sequence[float], backend: Backend) -> bool:
        """Return whether to try speculation on a chunk of this shape; inf for unknown lengths."""
        return False

    def speculate(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> SpeculationWait | None:
        """Launch one pass that determines a chunk from a provisional carry-in and summarises it.

        None, or a wait that returns None, if the chunk depends on its carry-in. The choice is a
        function of the chunk alone: its bits are the same wherever it is solved. A wait may launch
        more, and return a wait for that.
        """
        return None

    def correct(self, backend: Backend, shape: Shape, speculation: Speculation, carry_in: CarryIn) -> Arrays:
        """Return the results of a speculative chunk. May run twice with the same carry-in.

        If the recurrence has a fixed carry-out, the first run may have any finite carry-in.
        """
        raise NotImplementedError

    def final_state(self, carry_out: CarryIn, shape: Shape) -> Any:
        """Return the state after a last chunk of this shape, as an array (state_shape, *rows)."""
        raise NotImplementedError


class AxisFilter(Protocol):
    """A filter along an axis.

    Chunks need parts of other chunks: `plan` names them, `part` computes one, and `apply` takes
    those of a chunk in the order of its plan. Equal filters have equal plans.
    """

    def __hash__(self) -> int: ...

    def plan(self, lengths: Sequence[int], chunk: int) -> tuple[list[tuple[int, Any]], Any]:
        """Return the parts (chunk, part) that a chunk needs, and what `apply` does with them."""

    def count(self, length: int, recipe: Any) -> int:
        """Return the number of results of chunks that have `length` samples along the axis."""

    def part(self, x: Any, axis: int, part: Any) -> Any:
        """Return a part of a chunk."""

    def apply(self, x: Any, axis: int, dtype: np.dtype[Any], recipe: Any, parts: Sequence[Any]) -> Any:
        """Return the filtered chunk."""


@runtime_checkable
class JoiningFilter(AxisFilter, Protocol):
    """A filter along an axis that filters neighbouring chunks on a GPU together, as a list."""

    def written_bytes(self, x: Any, axis: int, dtype: np.dtype[Any]) -> int:
        """Return the bytes that it writes for a sample."""


@dataclass(frozen=True, kw_only=True)
class Overlapping(Recurrence):
    """A filter along an axis whose chunks take parts of other chunks in place of carry-ins.

    `counts`: number of results of each chunk along the axis, if it is not that of its samples.
    """

    reverse: ClassVar[bool] = False
    axis_filter: AxisFilter
    axis: int
    counts: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls,
        axis_filter: AxisFilter,
        x: Any,
        axis: int,
        dtype: np.dtype[Any],
        counts: tuple[int, ...] | None = None,
    ) -> Overlapping:
        """Return a filter of x, whose results have a dtype."""
        return cls.over([x], x.shape, dtype, axis_filter=axis_filter, axis=axis, counts=counts)


def filter_chunk(
    axis_filter: AxisFilter,
    x: Any,
    axis: int,
    dtype: np.dtype[Any],
    recipe: Any,
    parts: Sequence[Any],
    *options: Any,
) -> Any:
    """Return ``axis_filter.apply(x, ...)`` of a chunk or a list of chunks."""
    chunks = x if type(x) is list else [x]
    first, length = chunks[0], sum(chunk.shape[axis] for chunk in chunks)
    count = axis_filter.count(length, recipe)
    shape = (*first.shape[:axis], count, *first.shape[axis + 1 :])
    if 0 in shape:
        backend = backend_of(first)
        with backend.device_of((first,)):
            return backend.empty(shape, dtype)
    return axis_filter.apply(x, axis, dtype, recipe, parts, *options)


@dataclass(frozen=True, kw_only=True)
class TwoSided(AlongAxis):
    """A two-sided recurrence: the summaries of a row form a small system, solved in one task."""

    is_two_sided: ClassVar[bool] = True
    is_asynchronous: ClassVar[bool] = False
