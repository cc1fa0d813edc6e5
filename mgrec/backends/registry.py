"""Which kernels solve the chunks of a family: in every backend a folder of the family's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from ..arrays.chunk import Chunk

FAMILIES = ("transfer", "filters")
"""In the folder of every backend each has a module ``phases`` with ``kernels(method)``."""

Summarise = Callable[[], Any]


@dataclass(frozen=True)
class Kernels:
    """Two phases of a family's chunks; what lies between them is done in host memory.

    Attributes
    ----------
    precompute : callable, ``(algebra, chunk) -> (() -> summary)``
        Launches the summary of a chunk, of a TransferMap or a Cascade; a call of what is returned
        waits for it. The summary is in host memory.
    determine : callable, ``(algebra, chunk, entry, results) -> exit``
        Writes what every step gives, from an entry in host memory or on the device. The states
        after the chunk, where the family has them at hand and they are asked for, or None.
    """

    precompute: Callable[[Any, Chunk], Summarise]
    determine: Callable[[Any, Chunk, Any, Any], Any]


def at_once(precompute: Callable[[Any, Chunk], Any]) -> Callable[[Any, Chunk], Summarise]:
    """Make `precompute`, which returns the summary itself, one of Kernels."""

    def launch(algebra: Any, chunk: Chunk) -> Summarise:
        summary = precompute(algebra, chunk)
        return lambda: summary

    return launch


@cache
def kernels_of(machine: str, family: str, method: str = "auto") -> Kernels:
    """The kernels of a family on a machine.

    Parameters
    ----------
    machine : str
        A folder of ``backends``.
    family : str
        One of FAMILIES.
    method : str
        The kernels of a GPU: see :func:`mgrec.linear_recurrence`.
    """
    if family not in FAMILIES:
        raise LookupError(f"family must be one of {FAMILIES}; got {family!r}")
    found: Kernels = import_module(f".{machine}.{family}.phases", __package__).kernels(method)
    return found
