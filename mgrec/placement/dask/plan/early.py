"""Chunks that are finished before anybody knows their entries, while the device is still busy.

A chunk that forgets ends in the same state from every entry, as long as that is no infinity: so
the entry of the chunk after it is known as soon as it is begun. A share finishes its chunks from
such entries, and has only its first one left when the other shares have told theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....families.family import AlongAxis, Place
from ..tasks.begun import Waiting, finish_block
from ..tasks.phases import Entries, propagate_group
from .messages import row_of


def turn_of(recurrence: AlongAxis, count: int, k: int) -> int:
    """The position of a chunk in its row, in the order of the recurrence; and back."""
    return count - 1 - k if recurrence.reverse else k


class Early:
    """What a share has finished from entries that are to be expected."""

    def __init__(
        self, recurrence: AlongAxis, count: int, initial: Mapping[Place, list[Any]]
    ) -> None:
        self.recurrence, self.count, self.initial = recurrence, count, initial
        self.found: dict[Place, tuple[Any, Any]] = {}

    def finish(self, at: Place, waiting: Mapping[Place, Waiting]) -> None:
        """Finish a chunk that was begun, if the chunk before it was."""
        own, axis = waiting[at], self.recurrence.axis
        if own.begun is None or at in self.found or not self.recurrence.ends_alike:
            return
        turn = turn_of(self.recurrence, self.count, at[axis])
        if turn == 0:
            entries = propagate_group(self.recurrence, [], self.initial[row_of(at, axis)])
        else:
            place = turn_of(self.recurrence, self.count, turn - 1)
            before = waiting.get((*at[:axis], place, *at[axis + 1 :]))
            if before is None or before.begun is None:
                return
            summary, rest = (before.begun.summary, before.shape), self.recurrence.rest()
            entries = Entries(propagate_group(self.recurrence, [summary], rest).states[1:])
        entry = entries.at(0, self.recurrence, own.shape)
        self.found[at] = entry, finish_block(self.recurrence, own, entries, 0)

    def take(self, at: Place, waiting: Waiting, entries: Entries, number: int) -> Any:
        """The results of a chunk if they were finished from its very entry; else None."""
        expected, results = self.found.pop(at, (None, None))
        if expected is None:
            return None
        entry = entries.at(number, self.recurrence, waiting.shape)
        return results if _are_same(expected, entry) else None


def _are_same(first: Any, second: Any) -> bool:
    """Whether two entries have the same bits."""
    pairs = zip(first, second, strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
