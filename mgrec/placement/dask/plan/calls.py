"""The calls of a plan, and how it assigns chunks to the workers that hold their operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import permutations
from math import prod
from time import sleep
from typing import Any

import dask.array.core as da
import numpy as np
from distributed import Client, Future, wait

from ....arrays.kinds import to_host
from ....backends import backend_of
from ....families.family import AlongAxis, Place
from ....families.grid import Grid
from ..graph.cuts import Cut, starts_of
from ..graph.held import is_held
from ..graph.rows import rows_of
from .grids import GridAssignment, deal_tiles, holders_of_tiles
from .messages import Assignment, Peer, row_of

Sizes = dict[Any, int]
"""Bytes by keys."""

# Seconds until a client hears that data are lost.
HEARD = 0.2


class Call:
    """One call of a recurrence: blocks in the memory of workers, states in that of the client."""

    def __init__(self, cut: Cut, client: Client) -> None:
        if cut.has_unknown_sizes:
            raise ValueError(
                "a plan needs the sizes of all chunks: call compute_chunk_sizes() on the arrays"
            )
        if any(isinstance(state, da.Array) for state in cut.initial):
            raise TypeError(
                "initial of a plan must be in host memory, and so must zi; got a Dask array"
            )
        blocks = (block if is_held(block) else client.persist(block) for block in cut.blocks)
        self.cut = replace(cut, blocks=tuple(blocks))
        if any(future.status != "finished" for future in self.cut.futures()):
            _finish(client, self.cut.futures())

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

    def initial(self) -> dict[Place, list[Any]]:
        """The states before the first chunk of every row of chunks."""
        states = list(map(to_host, self.cut.initial))
        return {
            row: [_states_of(state, self._slices_of(row)) for state in states]
            for row in rows_of(self.cut.rows)
        }

    def exit(self, exits: Mapping[Place, np.ndarray]) -> np.ndarray:
        """The exits of all rows of chunks as one array."""
        recurrence = self.cut.recurrence
        whole = np.empty((*recurrence.state_shape, *map(sum, self.cut.rows)), recurrence.dtype)
        for row, own in exits.items():
            at: Any = (..., *self._slices_of(row))
            whole[at] = own
        return whole

    @cached_property
    def _slices(self) -> list[list[slice]]:
        return [_slices(lengths) for lengths in self.cut.rows]

    def _slices_of(self, row: Place) -> list[slice]:
        return [own[k] for own, k in zip(self._slices, row, strict=True)]

    def sizes(self, assignment: Assignment | GridAssignment, names: Sequence[str]) -> Sizes:
        """The results of a share by their keys, one array a name and chunk."""
        chunks, itemsize = self.cut.chunks, self.cut.recurrence.result_dtype.itemsize
        return {
            (name, *at): prod(own[k] for own, k in zip(chunks, at, strict=True)) * itemsize
            for at, _ in assignment.chunks
            for name in names
        }

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


def deal(call: Call, client: Client) -> Mapping[str, Assignment | GridAssignment]:
    """Assign every chunk to the worker that holds most of its operands: by addresses."""
    where = call.holders(client)
    if isinstance(call.cut.recurrence, Grid):
        return deal_tiles(call.cut, holders_of_tiles(call.cut, where))
    return _deal_chain(call, where)


def _deal_chain(call: Call, where: dict[Any, tuple[str, ...]]) -> dict[str, Assignment]:
    recurrence, count = call.cut.recurrence, call.cut.count
    axis, is_reverse = recurrence.axis, recurrence.reverse
    owned: dict[str, list[Place]] = {}
    for place in rows_of(call.cut.chunks):
        owned.setdefault(_holder(call.cut, place, where), []).append(place)

    def turn(place: Place) -> int:
        return count - 1 - place[axis] if is_reverse else place[axis]

    latest: dict[str, dict[Place, int]] = {address: {} for address in owned}
    for address, places in owned.items():
        for place in places:
            row, own = row_of(place, axis), latest[address]
            needed = count if recurrence.is_two_sided else turn(place)
            own[row] = max(own.get(row, 0), needed)

    def asked(sender: str, receiver: str) -> tuple[Place, ...]:
        until = latest[receiver]
        return tuple(p for p in owned[sender] if turn(p) < until.get(row_of(p, axis), 0))

    numbers = {address: number for number, address in enumerate(owned)}
    receivers: dict[str, list[Peer]] = {address: [] for address in owned}
    senders: dict[str, list[int]] = {address: [] for address in owned}
    for sender, receiver in permutations(owned, 2):
        if sent := asked(sender, receiver):
            receivers[sender].append(Peer(numbers[receiver], sent))
            senders[receiver].append(numbers[sender])
    return {
        address: Assignment(
            number,
            tuple(map(call.cut.at, owned[address])),
            count,
            tuple(receivers[address]),
            tuple(senders[address]),
        )
        for address, number in numbers.items()
    }


def _holder(cut: Cut, place: Place, where: dict[Any, Any]) -> str:
    """The worker with most bytes of a chunk's operands; the first by address among equals."""
    held: dict[str, int] = {}
    about = zip(cut.blocks, cut.keys(place), cut.shapes(place), strict=True)
    for block, key, shape in about:
        for address in where[key]:
            held[address] = held.get(address, 0) + prod(shape) * block.dtype.itemsize
    if not held:
        raise RuntimeError(f"operands of a plan must be in memory; those of chunk {place} are not")
    return max(sorted(held), key=held.__getitem__)
