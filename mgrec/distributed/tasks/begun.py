"""The tasks over chunks that are begun before their entries are known, where they forget them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.contract.recurrence import AlongAxis, Arrays, Pack, Shape, Where
from ...core.contract.speculation import Begun
from ...engines import backend_of
from .errors import in_chunk
from .phases import Entries, Run, chunk_of, determine_block, precompute_blocks
from .spilling import register


@dataclass(frozen=True)
class Waiting:
    """A chunk that waits for its entry.

    Attributes
    ----------
    pack : Pack
        Without its blocks where the chunk was begun.
    begun : Begun, optional
        None where it may not forget.
    shape : tuple of int, optional
        Of its results where it was begun.
    """

    pack: Pack
    begun: Begun | None = None
    shape: Shape = ()

    def __sizeof__(self) -> int:
        return self.pack.__sizeof__() + (self.begun.__sizeof__() if self.begun else 0)

    @property
    def arrays(self) -> Arrays:
        return self.begun.results if self.begun else self.pack.blocks


register(Waiting, lambda waiting: waiting.arrays)


def begin_block(pack: Pack, recurrence: AlongAxis) -> Waiting:
    """Begin a chunk if it forgets its entry, and let go of what is not needed again."""
    return begin_blocks([pack], recurrence)[0]


def begin_blocks(packs: Sequence[Pack], recurrence: AlongAxis) -> list[Waiting]:
    """Begin chunks; a GPU's are launched one after the other before the first is waited for."""
    return list(begin_in_turn(packs, recurrence))


def begin_in_turn(packs: Sequence[Pack], recurrence: AlongAxis) -> Iterator[Waiting]:
    """The same, each as soon as it is begun."""
    launched = [_launch(pack, recurrence) for pack in packs]
    return (wait() for wait in launched)


def _launch(pack: Pack, recurrence: AlongAxis) -> Callable[[], Waiting]:
    backend = backend_of(pack.blocks, recurrence.method)
    if not recurrence.forgets or backend.kernels(recurrence.family).begin is None:
        return lambda: Waiting(pack)
    with chunk_of("begin", recurrence, pack) as (backend, shape):
        launched = recurrence.begin(backend, pack, shape)

    def wait() -> Waiting:
        if launched is None:
            return Waiting(pack)
        with in_chunk("begin", pack.place, pack.starts), backend.device_of(pack.blocks):
            begun = launched()
        return Waiting(Pack((), pack.place, pack.starts), begun, shape) if begun else Waiting(pack)

    return wait


def summarise_block(waiting: Waiting, recurrence: AlongAxis) -> tuple[Any, Shape]:
    """The summary of a chunk, and its shape."""
    return summarise_blocks([waiting], recurrence)[0]


def summarise_blocks(chunks: Sequence[Waiting], recurrence: AlongAxis) -> list[tuple[Any, Shape]]:
    """The summaries of chunks, and their shapes."""
    others = (chunk.pack for chunk in chunks if not chunk.begun)
    found = iter(precompute_blocks(others, recurrence))
    return [(own.begun.summary, own.shape) if own.begun else next(found) for own in chunks]


def finish_block(recurrence: AlongAxis, waiting: Waiting, entries: Entries, number: int) -> Any:
    """The results of a chunk: an array, or a tuple where there are several."""
    pack, begun, shape = waiting.pack, waiting.begun, waiting.shape
    if begun is None:
        return determine_block(recurrence, pack, entries, number)
    backend = backend_of(begun.results, recurrence.method)
    with in_chunk("determine", pack.place, pack.starts), backend.device_of(begun.results):
        entry = entries.at(number, recurrence, shape)
        results = recurrence.finish(backend, shape, begun, entry)
    return results if recurrence.results > 1 else results[0]


def precompute_again(pack: Pack, recurrence: AlongAxis) -> tuple[Any, Shape]:
    """The summary of a chunk that is read again, and its shape; what was begun is let go."""
    return summarise_block(begin_block(pack, recurrence), recurrence)


def determine_again(recurrence: AlongAxis, pack: Pack, entries: Entries, number: int) -> Any:
    """The results of a chunk that was summarised by `precompute_again`."""
    return finish_block(recurrence, begin_block(pack, recurrence), entries, number)


@dataclass(frozen=True)
class BegunRun:
    """A run of chunks that were begun.

    Attributes
    ----------
    summaries : list
    waiting : list of Waiting
        On the worker that began them alone: these neither travel nor are spilled. Who needs one
        begins it again.
    """

    summaries: list[Any]
    waiting: list[Waiting]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Run(self.summaries).__reduce_ex__(protocol)


def begin_held(recurrence: AlongAxis, chunks: Sequence[Where], blocks: list[Any]) -> BegunRun:
    """Begin chunks that forget their entries, and summarise all.

    Their blocks come one after the other. They are held: the tasks that finish chunks have them.
    """
    count = len(recurrence.varying)
    packs = [Pack(tuple(blocks[k * count :][:count]), *at) for k, at in enumerate(chunks)]
    waiting = begin_blocks(packs, recurrence)
    summaries = summarise_blocks(waiting, recurrence)
    return BegunRun(summaries, [w if w.begun else Waiting(Pack((), *at))
                                for w, at in zip(waiting, chunks, strict=True)])  # fmt: skip


def finish_held(
    recurrence: AlongAxis, at: Where, entries: Entries, number: int,
    run: BegunRun | Run | None, place: int, *blocks: Any,
) -> Any:  # fmt: skip
    """The results of the chunk at a place of a run, or of one that nobody summarised."""
    pack = Pack(blocks, *at)
    if isinstance(run, BegunRun):
        waiting = run.waiting[place] if run.waiting[place].begun else Waiting(pack)
    else:
        waiting = begin_block(pack, recurrence)
    return finish_block(recurrence, waiting, entries, number)
