"""How a plan shares its chunks out to the workers that hold their operands."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import isnan, prod
from typing import Any

import dask.array as da
from distributed import Client, wait

from ..backends import to_host
from .dask import capture
from .dask_held import Blocks, is_held
from .dask_operands import recipe_of, reference_chunks
from .dask_rows import Place, rows_of
from .plan_shares import Part, Peer, row_of


class Call:
    """One call of a recurrence: its problem and recipe, and its blocks in memory."""

    def __init__(self, solve: Callable[[], Any], client: Client) -> None:
        self.problem, method = capture(solve)
        self.chunks = reference_chunks(self.problem)
        if any(isnan(length) for lengths in self.chunks for length in lengths):
            raise ValueError(
                "a plan needs the sizes of all chunks: call compute_chunk_sizes() on the arrays"
            )
        if any(isinstance(state, da.Array) for state in self.problem.initial):
            raise TypeError("initial of a plan must be in host memory; got a Dask array")
        self.recipe, blocks = recipe_of(self.problem, self.chunks, method)
        if not blocks:
            raise TypeError("a plan needs a Dask array among its operands; got none")
        self.blocks = [block if is_held(block) else client.persist(block) for block in blocks]
        self.cut = Blocks(self.blocks, self.chunks)
        if any(future.status != "finished" for future in self.cut.futures()):
            wait(self.cut.futures())

    def initial(self) -> dict[Place, list[Any]]:
        """The states before the first chunk of every row of chunks."""
        axis, states = self.problem.axis, list(map(to_host, self.problem.initial))
        spans = [_spans(lengths) for k, lengths in enumerate(self.chunks) if k != axis]
        return {
            row: [
                _part(state, [own[k] for own, k in zip(spans, row, strict=True)])
                for state in states
            ]
            for row in rows_of(self.chunks, axis)
        }

    def check_like(self, first: Call) -> None:
        """Raise unless a plan that was built for `first` can solve this."""
        for what, wanted, got in (
            ("chunks", first.chunks, self.chunks),
            ("chunks of operands", *([b.chunks for b in c.blocks] for c in (first, self))),
            ("dtype", first.problem.dtype, self.problem.dtype),
            ("axis", first.problem.axis, self.problem.axis),
            ("reverse", first.problem.reverse, self.problem.reverse),
            ("states", len(first.problem.initial), len(self.problem.initial)),
        ):
            if wanted != got:
                raise ValueError(
                    f"{what} of a plan's solve must be {wanted}, as it was built; got {got}"
                )


def _spans(lengths: tuple[int, ...]) -> list[slice]:
    ends = [sum(lengths[:k]) for k in range(len(lengths) + 1)]
    return [slice(ends[k], ends[k + 1]) for k in range(len(lengths))]


def _part(state: Any, spans: list[slice]) -> Any:
    own = zip(spans[len(spans) - state.ndim :], state.shape, strict=True)
    return state[tuple(slice(None) if length == 1 else span for span, length in own)]


def deal(call: Call, client: Client, key: Callable[[int], str]) -> dict[str, Part]:
    """Give every chunk to the worker that holds most of its operands.

    Parameters
    ----------
    call : Call
    client : distributed.Client
    key : callable, ``number -> key``
        Of the share with this number.

    Returns
    -------
    dict, address -> Part
    """
    axis, count = call.problem.axis, len(call.chunks[call.problem.axis])
    where = client.who_has(call.cut.futures())
    owned: dict[str, list[Place]] = {}
    for place in product(*(range(len(lengths)) for lengths in call.chunks)):
        owned.setdefault(_holder(call, place, where), []).append(place)
    addresses = list(owned)
    is_reverse = call.problem.reverse

    def turn(place: Place) -> int:
        return count - 1 - place[axis] if is_reverse else place[axis]

    latest = {
        address: {row_of(place, axis): 0 for place in places} for address, places in owned.items()
    }
    for address, places in owned.items():
        for place in places:
            row = row_of(place, axis)
            latest[address][row] = max(latest[address][row], turn(place))

    def asked(sender: str, receiver: str) -> tuple[Place, ...]:
        until = latest[receiver]
        return tuple(p for p in owned[sender] if turn(p) < until.get(row_of(p, axis), 0))

    pairs = {(a, b): asked(a, b) for a in addresses for b in addresses if a != b and asked(a, b)}
    numbers = {address: number for number, address in enumerate(addresses)}
    return {
        address: Part(
            number,
            tuple(map(call.cut.at, owned[address])),
            count,
            tuple(Peer(b, key(numbers[b]), sent) for (a, b), sent in pairs.items() if a == address),
            tuple(numbers[a] for a, b in pairs if b == address),
        )
        for address, number in numbers.items()
    }


def _holder(call: Call, place: Place, where: dict[Any, Any]) -> str:
    """The worker with most bytes of a chunk's operands; of equals, the first by address."""
    held: dict[str, int] = {}
    about = zip(call.blocks, call.cut.keys(place), call.cut.shapes(place), strict=True)
    for block, key, shape in about:
        for address in where[key]:
            held[address] = held.get(address, 0) + prod(shape) * block.dtype.itemsize
    if not held:
        raise RuntimeError(f"operands of a plan must be in memory; those of chunk {place} are not")
    return max(sorted(held), key=held.__getitem__)
