"""The kernels of a family on one backend."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ..arrays.chunk import Chunk
from ..backends import Backend as Backend

Summary: TypeAlias = Any
"""The summary of a chunk: numbers and arrays in host memory, of a class of the family."""

CarryIn: TypeAlias = Any
"""The states before the first step of a chunk, in the form of the family's kernels."""

Edges: TypeAlias = Any
"""The last rows and columns of a tile, of a class of the family."""

Summarise = Callable[[], Summary]
"""Waits for a summary, and returns it."""

PreparedSolver = Callable[[Sequence[Any], Sequence[Any]], Any]
"""``(operands, results) -> carry_out``: solves other arrays of the same shapes and dtypes."""


@dataclass(frozen=True)
class Speculation:
    """A chunk determined before its carry-in is known. Its operands are not needed any more.

    `results`: in the layout of the kernels. `correct` writes into them: share them with no one
      else.
    `prefix`: what `correct` needs besides.
    `operand_bytes`: size of the operands that `prefix` references.
    """

    results: tuple[Any, ...]
    summary: Summary
    prefix: Any
    operand_bytes: int = 0

    def __sizeof__(self) -> int:
        return self.operand_bytes + sum(result.nbytes for result in self.results)


SpeculationWait = Callable[[], Any]
"""Waits for a speculative chunk; None if the chunk turns out to depend on its carry-in. A wait that launches
more returns another one."""


class CacheMiss(Exception):
    """The prepared call does not apply to these arguments."""


HEADER = 64
"""Bytes of the header of a message between ranks: ``struct Header`` of the kernels."""


class ShardMessages(Protocol):
    """The messages of all shards of a problem in the memory of GPUs, as one shard sees them.

    `rank`, `size`: the number of this shard in the order of the axis, and that of all shards.
    `digest`: a number that is the same for all shards of a problem.
    `stride`: bytes from a message to the next.
    `received`: for kernels: the address of all messages, once they are exchanged, `stride`, `rank`,
      `size` and `digest`.
    `status`: address, in host memory, of an integer: 1 if the messages suffice, 2 if they do not.
    """

    rank: int
    size: int
    digest: int
    message: int
    stride: int
    received: tuple[int, int, int, int, int]
    status: int

    def mark(self) -> None:
        """Call it when the kernel that writes the status is launched."""

    def wait(self) -> None:
        """Wait for the status; raise CacheMiss if the messages do not suffice."""

    def write_header(self) -> None:
        """Write the header of the message, for kernels that do not."""


ShardSteps = Generator[None, None, Any]
"""A solve of a shard: it writes its message, launches its kernels, and waits for an answer.

After the first step the messages are exchanged. After the second one the steps of other shards on
the same device may go on. It returns what a `PreparedSolver` returns.
"""


class ShardSolver(Protocol):
    """A prepared solver of shards: parts of an axis, on the ranks of a group.

    `may_exceed_frame`: whether messages are exchanged that are longer than the first one of ranks.
      The host waits until it knows that all ranks send one.
    """

    message_bytes: int
    may_exceed_frame: bool = False

    def __call__(
        self, operands: Sequence[Any], results: Sequence[Any], messages: ShardMessages, /
    ) -> ShardSteps:
        """Solve; operands and results are those of a `PreparedSolver`."""


def _not_implemented(*arguments: Any) -> Any:
    raise NotImplementedError("this backend does not implement the phase")


def _no_part(*arguments: Any) -> None:
    return None


@dataclass(frozen=True)
class TileParts:
    """How a tile can be split into parts that give the same bits as the whole tile.

    `unit`: each part starts at a multiple of this number of steps.
    `least`: number of steps from which the cells of a part take longer than its fixed cost.
    """

    unit: int
    least: int


@dataclass(frozen=True)
class Kernels:
    """The phases of a family on one backend.

    `determine`, ``(algebra, chunk, carry_in, results) -> carry_out``: write the result of every
      step. Return the carry-out if the family computes it, else None. The carry-in and the
      carry-out of a tile are its edges.
    `precompute`, ``(algebra, chunk) -> (() -> summary)``: launch the summary of a chunk; the
      returned function waits for it. The summary is in host memory. Grids have none.
    `propagate`: on the CPU. Chains: ``(..., summary, carry_in) -> carry_in`` of the next chunk.
      Two-sided recurrences: ``(algebra, summaries) -> carry_ins``.
    `speculate`: ``(algebra, chunk, results) -> (() -> (summary, prefix) or None) or None``. Launch
      one pass that determines a chunk from a provisional carry-in and summarises it; the returned
      function waits for it. None, from either call, means that the chunk has to wait for its
      carry-in; `results` then have no meaning.
    `correct`, ``(prefix, carry_in, results) -> results``: replace the results of `speculate` that
      the true carry-in changes. May run twice.
    `prepare_solver`: ``(algebra, chunk, carry_in, results) -> PreparedSolver or None``. Prepare a
      solver for whole arrays that differ in their values only. The solver takes operands, states
      and results: as arrays in host memory, by their addresses on a GPU, and numbers as numbers
      (those of the chunk if they are part of the signature). It returns what `determine` returns,
      and raises `CacheMiss` if `determine` would raise. For grids the arguments are those of
      `determine`.
    `prepare_shard`: ``(algebra, chunk, carry_in, results, may_speculate) -> ShardSolver or None``.
      As `prepare_solver`, for parts of an axis on the ranks of a group.
    `retain_maps`, ``(algebra, chunk)``: launch what `precompute` puts into `chunk.kept` for
      `determine`, without a summary.
    `part`, ``(algebra, shape, side) -> Part or None``: return how a tile (..., rows, columns) can
      be split along its rows (side 0) or columns.
    """

    determine: Callable[..., Any]
    precompute: Callable[[Any, Chunk], Summarise] = _not_implemented
    propagate: Callable[..., Any] = _not_implemented
    speculate: Callable[[Any, Chunk, Any], Any] | None = None
    correct: Callable[..., Any] = _not_implemented
    prepare_solver: Callable[..., PreparedSolver | None] | None = None
    prepare_shard: Callable[..., ShardSolver | None] | None = None
    retain_maps: Callable[[Any, Chunk], None] | None = None
    part: Callable[[Any, Sequence[int], int], TileParts | None] = _no_part


def at_once(phase: Callable[..., Any]) -> Callable[..., Summarise]:
    """Wrap a synchronous `precompute` or `speculate`: the wait returns its result."""

    def launch(*arguments: Any) -> Summarise:
        result = phase(*arguments)
        return lambda: result

    return launch
