"""Chunks that are determined from a provisional carry-in, before the true one is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .kernels import Summary


@dataclass(frozen=True)
class Speculation:
    """A chunk determined before its carry-in is known. Its operands are not needed any more.

    Attributes
    ----------
    results : tuple of arrays
        In the layout of the kernels. `correct` writes into them: share them with no one else.
    summary : what `precompute` returns
    prefix : what `correct` needs besides
    operand_bytes : int
        Size of the operands that `prefix` references.
    """

    results: tuple[Any, ...]
    summary: Summary
    prefix: Any
    operand_bytes: int = 0

    def __sizeof__(self) -> int:
        return self.operand_bytes + sum(result.nbytes for result in self.results)


SpeculationWait = Callable[[], Speculation | None]
"""Waits for a speculative chunk; None if the chunk turns out to depend on its carry-in."""
