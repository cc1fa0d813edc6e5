"""The calls of a plan, and how it assigns chunks to the workers that have their operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import permutations
from time import sleep
from typing import Any

import dask.array.core as da
import numpy as np
from distributed import Client, Future, wait

from ...core.arrays.array_types import to_host
from ...core.contract.grid import Grid
from ...core.contract.recurrence import AlongAxis, ChunkIndex
from ...engines import backend_of
from ..graph.cuts import Cut, starts_of
from ..graph.held import is_persisted
from ..graph.rows import rows_of
from .grids import GridShard, assign_tiles, holders_of_chunks
from .messages import ChainShard, row_of
from .results import Solution, solution_of

# Seconds until a client hears that data are lost.
HEARD = 0.2


class Call:
    """One call of a recurrence: blocks in the memory of workers, states in that of the client.

    Attributes
    ----------
    solutions : list of Solution
        The solves of the same plan whose results are operands; they need not have ended.
    """

    def __init__(
        self, cut: Cut, client: Client, plan: str = "", persisted: Sequence[da.Array] = ()
    ) -> None:
        if cut.has_unknown_sizes:
            raise ValueError(
                "a plan needs the sizes of all chunks: call compute_chunk_sizes() on the arrays"
            )
        if any(isinstance(state, da.Array) for state in cut.initial):
            raise TypeError(
                "initial of a plan must be in host memory, and so must zi; got a Dask array"
            )
        self.solutions: list[Solution] = []
        blocks, futures = [], []
        for block in cut.blocks:
            solution = solution_of(block)
            if solution is not None and solution.name.startswith(f"solved-{plan}-"):
                self.solutions.append(solution)
            elif not any(block is own for own in persisted):
                block = block if is_persisted(block) else client.persist(block)
                futures += block.dask.layers[block.name].values()
            blocks.append(block)
        self.cut = replace(cut, blocks=tuple(blocks))
        if any(future.status != "finished" for future in futures):
            _finish(client, futures)

    def holders(self, client: Client) -> dict[Any, tuple[str, ...]]:
        """The workers that hold each block."""
        futures = self.cut.futures()
        where: dict[Any, tuple[str, ...]] = client.who_has(futures)
        if not all(where.values()):
            # A worker was just lost: Dask computes again what it held.
            sleep(HEARD)
            _finish(client, futures)
            where = client.who_has(futures)
        return where

    def initial(self) -> dict[ChunkIndex, list[Any]]:
        """The states before the first chunk of every row of chunks."""
        states = list(map(to_host, self.cut.initial))
        return {
            row: [_states_of(state, self._slices_of(row)) for state in states]
            for row in rows_of(self.cut.rows)
        }

    def carry_out(self, carry_outs: Mapping[ChunkIndex, np.ndarray]) -> np.ndarray:
        """The carry-outs of all rows of chunks as one array."""
        recurrence = self.cut.recurrence
        whole = np.empty((*recurrence.state_shape, *map(sum, self.cut.rows)), recurrence.dtype)
        for row, own in carry_outs.items():
            at: Any = (..., *self._slices_of(row))
            whole[at] = own
        return whole

    @cached_property
    def _slices(self) -> list[list[slice]]:
        return [_slices(lengths) for lengths in self.cut.rows]

    def _slices_of(self, row: ChunkIndex) -> list[slice]:
        return [own[k] for own, k in zip(self._slices, row, strict=True)]

    def with_operands(self, first: Sequence[Any], operands: Sequence[Any]) -> Cut | None:
        """Return the chunks of a call that differs from this one in its Dask arrays alone.

        None if it differs otherwise, or may do so.

        Parameters
        ----------
        first, operands : sequence
            The operands of this call, and those of the other one.
        """
        if len(operands) != len(first) or not all(map(_are_alike, first, operands)):
            return None
        pairs = zip(first, operands, strict=True)
        others = [(own.name, other) for own, other in pairs if isinstance(own, da.Array)]
        by_name = dict(others)
        if len(by_name) < len(others) or by_name.keys() != {b.name for b in self.cut.blocks}:
            return None
        blocks = ((block, by_name[block.name]) for block in self.cut.blocks)
        return replace(
            self.cut, blocks=tuple(own if own.name == b.name else b for own, b in blocks)
        )

    def check_like(self, first: Call) -> None:
        """Raise unless a plan that was built for `first` can solve this."""
        own, wanted = self.cut, first.cut
        for what, want, got in (
            ("chunks", wanted.chunks, own.chunks),
            ("chunks of operands", *([b.chunks for b in c.blocks] for c in (wanted, own))),
            ("dtype", wanted.recurrence.dtype, own.recurrence.dtype),
            ("states", wanted.recurrence.results, own.recurrence.results),
            *zip(_WAYS, _way(wanted), _way(own), strict=False),
        ):
            if want != got:
                raise ValueError(
                    f"{what} of a plan's solve must be {want}, as it was built; got {got}"
                )


_WAYS = "axis", "reverse", "parts of tiles"


def _way(cut: Cut) -> tuple[Any, ...]:
    """Along which axes a recurrence goes, and how; of a grid also how its tiles may be cut."""
    recurrence = cut.recurrence
    if isinstance(recurrence, AlongAxis):
        return recurrence.axis, recurrence.reverse
    backend = backend_of(block._meta for block in cut.blocks)
    shape = tuple(max(lengths) for lengths in cut.chunks)
    parts = tuple(recurrence.part(backend, shape, axis) for axis in recurrence.axes)
    return recurrence.axes, False, parts


def _are_alike(first: Any, other: Any) -> bool:
    """Whether operands are equal, or Dask arrays that differ in their values alone."""
    if isinstance(first, da.Array):
        return (
            isinstance(other, da.Array)
            and first.chunks == other.chunks
            and first.dtype == other.dtype
            and type(first._meta) is type(other._meta)
        )
    if isinstance(first, (int, float, complex, np.generic)):
        return type(first) is type(other) and repr(first) == repr(other)
    return first is other and (first is None or callable(first) or isinstance(first, str))


def _finish(client: Client, futures: list[Future]) -> None:
    """Wait for operands; raises what one of them raised."""
    with client.as_current():
        wait(futures)
    for future in futures:
        if future.status == "error":
            future.result()


def _slices(lengths: tuple[int, ...]) -> list[slice]:
    starts = starts_of(lengths)
    return [slice(k, k + length) for k, length in zip(starts, lengths, strict=True)]


def _states_of(state: Any, rows: list[slice]) -> Any:
    """Of states (..., rows), whose axes may have length 1, those of some rows."""
    every = [slice(None)] * (state.ndim - len(rows))
    own = zip((*every, *rows[max(0, len(rows) - state.ndim) :]), state.shape, strict=True)
    return state[tuple(slice(None) if length == 1 else part for part, length in own)]


def assign(call: Call, client: Client) -> Mapping[str, ChainShard | GridShard]:
    """Assign every chunk to the worker that has most of its operands: shards by addresses."""
    holders = holders_of_chunks(call.cut, call.holders(client))
    return (assign_tiles if isinstance(call.cut.recurrence, Grid) else _assign_chunks)(
        call.cut, holders
    )


def _assign_chunks(cut: Cut, holders: Mapping[ChunkIndex, str]) -> dict[str, ChainShard]:
    recurrence, count = cut.recurrence, cut.count
    axis, is_reverse = recurrence.axis, recurrence.reverse
    indices_of: dict[str, list[ChunkIndex]] = {}
    for chunk_index, address in holders.items():
        indices_of.setdefault(address, []).append(chunk_index)

    def turn(chunk_index: ChunkIndex) -> int:
        return count - 1 - chunk_index[axis] if is_reverse else chunk_index[axis]

    # Of every row of chunks: how many summaries, from its first chunk on, a worker needs.
    needed: dict[str, dict[ChunkIndex, int]] = {address: {} for address in indices_of}
    for address, chunk_indices in indices_of.items():
        for chunk_index in chunk_indices:
            row, needs = row_of(chunk_index, axis), needed[address]
            needs[row] = max(
                needs.get(row, 0), count if recurrence.is_two_sided else turn(chunk_index)
            )
    numbers = {address: number for number, address in enumerate(indices_of)}
    receivers: dict[str, dict[int, tuple[ChunkIndex, ...]]] = {
        address: {} for address in indices_of
    }
    senders: dict[str, list[int]] = {address: [] for address in indices_of}
    for sender, receiver in permutations(indices_of, 2):
        needs = needed[receiver]
        sent = tuple(p for p in indices_of[sender] if turn(p) < needs.get(row_of(p, axis), 0))
        if sent:
            receivers[sender][numbers[receiver]] = sent
            senders[receiver].append(numbers[sender])
    return {
        address: ChainShard(
            number,
            tuple(map(cut.at, indices_of[address])),
            count,
            receivers[address],
            tuple(senders[address]),
        )
        for address, number in numbers.items()
    }
