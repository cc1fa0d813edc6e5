"""What a family asks of a machine: its kernels, and memory for their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays.chunk import Chunk

Summarise = Callable[[], Any]


def _not_asked_for(*given: Any) -> Any:
    raise NotImplementedError("this backend has no such phase of the family")


@dataclass(frozen=True)
class Kernels:
    """The phases of a family's chunks on one machine.

    Attributes
    ----------
    determine : callable, ``(algebra, chunk, entry, results) -> exit``
        Writes what every step gives. What follows the chunk, where the family has it at hand
        and it is asked for, or None. A tile's entry and exit are its edges.
    precompute : callable, ``(algebra, chunk) -> (() -> summary)``
        Launches the summary of a chunk; a call of what is returned waits for it. The summary is
        in host memory. Tiles of a grid have none.
    propagate : callable
        In host memory, and so of a CPU alone: ``(summary, entry) -> entry`` of the chunk after,
        along a chain; ``(summaries) -> entries``, along a line.
    """

    determine: Callable[..., Any]
    precompute: Callable[[Any, Chunk], Summarise] = _not_asked_for
    propagate: Callable[..., Any] = _not_asked_for


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
    """

    device_of: Callable[[Iterable[Any]], AbstractContextManager[Any]]
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any]
    kernels: Callable[[str], Kernels]


def at_once(precompute: Callable[[Any, Chunk], Any]) -> Callable[[Any, Chunk], Summarise]:
    """Make `precompute`, which returns the summary itself, one of Kernels."""

    def launch(algebra: Any, chunk: Chunk) -> Summarise:
        summary = precompute(algebra, chunk)
        return lambda: summary

    return launch
