"""What a family asks of a backend: kernels, and memory for their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays.chunk import Chunk

Summarise = Callable[[], Any]
Again = Callable[[Sequence[Any], Sequence[Any]], Any]


class Anew(Exception):
    """What was prepared for calls of a kind does not do for this one."""


def _not_asked_for(*given: Any) -> Any:
    raise NotImplementedError("this backend has no such phase of the family")


def _no_part(*given: Any) -> None:
    return None


def _at_hand(array: Any) -> Callable[[], Any]:
    return lambda: array


@dataclass(frozen=True)
class Part:
    """Parts of a tile that have its bits.

    Attributes
    ----------
    unit : int
        Each begins at a multiple of so many steps.
    least : int
        Steps from which a part takes longer than what it costs beside its cells.
    """

    unit: int
    least: int


@dataclass(frozen=True)
class Kernels:
    """The phases of a family's chunks on one machine.

    Attributes
    ----------
    determine : callable, ``(algebra, chunk, entry, results) -> exit``
        Writes the result of every step. Returns the exit where the family computes it, else
        None. The entry and the exit of a tile are its edges.
    precompute : callable, ``(algebra, chunk) -> (() -> summary)``
        Launches the summary of a chunk; what it returns waits for it. The summary is in host
        memory. Tiles of a grid have none.
    propagate : callable
        On the CPU: ``(summary, entry) -> entry`` of the next chunk of a chain;
        ``(summaries) -> entries`` of a line.
    begin : callable, ``(algebra, chunk, results) -> (() -> (summary, head) or None)``, optional
        Launches what determines a chunk from a provisional entry and summarises it, in one pass;
        what it returns waits for it. None, or a wait for None, where the chunk is to wait for its
        entry; the results are then of no use.
    finish : callable, ``(head, entry, results) -> results``
        Writes what the true entry changes of the results of `begin`, such that it may run twice.
    determine_pairs : callable, ``(scoring, queries, targets, dtype) -> array (pairs, 3)``
        Of alignments: score, query_end and target_end of many pairs of sequences at once.
    hold : callable
        ``(grids, rhs) -> grids`` in the form in which they are swept.
    again : callable, ``(algebra, chunk, entry, results) -> ((given, targets) -> exit)``, optional
        Prepares what determines whole rows, or grids, of other arrays, alike in all but their
        values, or None. It takes operands, states and results as they are in host memory, and by
        their addresses on a GPU; where operands and states are numbers, the numbers, those of the
        chunk if kinds are told by them. It returns what `determine` does, and raises `Anew` where
        that raises. Of a grid it takes what `determine` does.
    part : callable, ``(algebra, shape, side) -> Part or None``
        Into which parts a tile (..., rows, columns) may be cut, of its rows (side 0) or columns.
    finds_nan : bool
        `determine` of tridiagonal systems returns whether all operands are finite, by any method.
    """

    determine: Callable[..., Any]
    precompute: Callable[[Any, Chunk], Summarise] = _not_asked_for
    propagate: Callable[..., Any] = _not_asked_for
    begin: Callable[[Any, Chunk, Any], Any] | None = None
    finish: Callable[..., Any] = _not_asked_for
    determine_pairs: Callable[..., Any] = _not_asked_for
    hold: Callable[..., Any] = _not_asked_for
    again: Callable[..., Again | None] | None = None
    part: Callable[[Any, Sequence[int], int], Part | None] = _no_part
    finds_nan: bool = False


@dataclass(frozen=True)
class Backend:
    """A machine, as families and placement see it.

    Attributes
    ----------
    device_of : callable, ``(arrays) -> context manager``
        Makes the device that the arrays are on the current one.
    empty : callable, ``(shape, dtype) -> array``
        Memory for results, on the current device.
    kernels : callable, ``(family) -> Kernels``
    spreads : bool
        Kernels take a state that all rows share as one number.
    fetch : callable, ``(array) -> (() -> array)``
        Begins to copy an array to the host; what it returns waits for the copy.
    """

    device_of: Callable[[Iterable[Any]], AbstractContextManager[Any]]
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any]
    kernels: Callable[[str], Kernels]
    spreads: bool = False
    fetch: Callable[[Any], Callable[[], Any]] = _at_hand


def at_once(phase: Callable[..., Any]) -> Callable[..., Summarise]:
    """Wrap a `precompute` or `begin` that returns what it finds itself."""

    def launch(*given: Any) -> Summarise:
        found = phase(*given)
        return lambda: found

    return launch
