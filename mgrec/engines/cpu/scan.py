"""The driver of recurrences on all threads: the pieces of rows that are fewer than threads.

Pieces are solved in one of two ways:

* *by phases*: the first piece is determined while the others but the last are summarised. All
  others are then determined side by side, from the carry-ins that the summaries give;
* *side by side*: all pieces are determined from provisional carry-ins. Each is then joined to the
  one before it: its results are corrected for the true carry-in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.chunk import Chunk
from .threads import run_in_threads

SHORT = 512
"""A thread solves a whole row if its pieces have fewer steps."""
ALIGNED = 64
"""This many numbers, of any dtype, fill whole cache lines."""
_LEAST_GAIN = 1.4
"""How much faster than one thread all must be. With a busy processor they take longer."""

Piece = tuple[int, int]
"""The first step of a piece and the one after its last, in array order."""


class Phases(NamedTuple):
    """The phases of a piece of a row, on the calling thread.

    `determine`: ``(piece, carry_in) -> carry_out``.
    `precompute`, ``piece -> summary``: the attribute `redo` of a summary, if any, says whether a
      piece must be determined for its carry-out.
    `propagate`: ``(summary, carry_in) -> carry_out``.
    """

    determine: Callable[..., Any]
    precompute: Callable[[Any], Any]
    propagate: Callable[[Any, Any], Any]


def pieces_of(steps: int, threads: int, reverse: bool, cost: float = 0.0) -> list[Piece]:
    """Return `threads` equal pieces of a row, in the order of the recurrence.

    With the `cost` of a summary, in units of the time to determine the same steps, there is one
    piece more, the first: it is determined while others are summarised.
    """
    unit = steps / (threads + cost)
    ends = [unit * (k + cost) for k in range(0 if cost else 1, threads)]
    # A piece that starts at a cache line is written past the caches, as a whole row is.
    is_aligned = steps >= ALIGNED * 8 * len(ends)
    bounds = [int(stop) // ALIGNED * ALIGNED if is_aligned else int(stop) for stop in ends]
    pieces = list(pairwise([0, *bounds, steps]))
    return [(steps - b, steps - a) for a, b in pieces] if reverse else pieces


def are_faster_by_phases(steps: int, threads: int, cost: float) -> bool:
    """Return whether all threads take less time than one, for summaries of this cost."""
    return steps >= threads * SHORT and threads + cost >= _LEAST_GAIN * (1 + cost)


def determine_rows(
    phases: Phases,
    chunk: Chunk,
    carry_in: np.ndarray,
    result: np.ndarray,
    threads: int,
    cost: float,
    axis: int = 0,
) -> np.ndarray:
    """Determine a chunk of fewer rows than threads by the phases, each of its outer rows in pieces.

    `phases` are ``determine(chunk, carry_in, result) -> carry_out``, ``precompute(chunk) -> summary``
    and ``propagate(summary, carry_in) -> carry_out``, and `axis` is that of outer rows in states.
    """
    chunk, carry_outs = chunk.for_threads(), []
    pieces = pieces_of(chunk.steps, threads, chunk.reverse, cost)
    for k, before in enumerate(np.split(carry_in, chunk.shape[0], axis)):
        row, target = chunk.rows(k, k + 1), result[k : k + 1]
        after = solve_by_phases(_of_pieces(phases, row, target), pieces, before)
        # Rounding may have decided where a state becomes nan.
        if after is None or np.isnan(after).any():
            after = [phases.determine(row, before, target)]
        carry_outs.append(after[-1])
    return np.concatenate(carry_outs, axis)


def _of_pieces(phases: Phases, row: Chunk, target: np.ndarray) -> Phases:
    return Phases(
        lambda piece, states: phases.determine(row.between(*piece), states, target[:, slice(*piece)]),
        lambda piece: phases.precompute(row.between(*piece)),
        phases.propagate,
    )


def solve_by_phases(phases: Phases, pieces: list[Piece], carry_in: Any) -> list[Any] | None:
    """Determine the pieces of a row by the three phases; return all carry-outs.

    Return None if a piece must be determined again: the pieces would wait for each other.
    """
    first, *middle = pieces[:-1]
    summaries = [partial(phases.precompute, piece) for piece in middle]
    carry_out, *summaries = run_in_threads([partial(phases.determine, first, carry_in), *summaries])
    if any(getattr(summary, "redo", None) for summary in summaries):
        return None
    carry_ins = [carry_out]
    for summary in summaries:
        carry_ins.append(phases.propagate(summary, carry_ins[-1]))
    later = zip(pieces[1:], carry_ins, strict=True)
    return [carry_out, *run_in_threads([partial(phases.determine, *piece) for piece in later])]


def solve_side_by_side(
    determine: Callable[[Piece, Any], Any],
    join: Callable[[Piece, Any, Any], Any],
    pieces: list[Piece],
    carry_in: Any,
    provisional: Any,
) -> Any:
    """Determine the pieces of a row from `provisional` states; return the carry-out.

    ``join(piece, carry_in, outcome)`` corrects the results of a piece, from what `determine` has
    returned, and returns its carry-out. It returns None if the row must be determined again.
    """
    carry_ins = [carry_in, *[provisional] * (len(pieces) - 1)]
    calls = zip(pieces, carry_ins, strict=True)
    carry_out, *outcomes = run_in_threads([partial(determine, *call) for call in calls])
    for piece, outcome in zip(pieces[1:], outcomes, strict=True):
        if carry_out is None:
            return None
        carry_out = join(piece, carry_out, outcome)
    return carry_out
