"""Chunks that are determined from a provisional entry, before their own is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Begun:
    """A chunk that was determined before its entry was known; its operands are not needed again.

    Attributes
    ----------
    results : tuple of arrays
        In the form of the kernels. `finish` writes into them: nobody else may see them.
    summary : what `precompute` gives
    head : what `finish` needs besides
    held : int
        Bytes of the operands that `head` holds.
    """

    results: tuple[Any, ...]
    summary: Any
    head: Any
    held: int = 0

    def __sizeof__(self) -> int:
        return self.held + sum(result.nbytes for result in self.results)


Begin = Callable[[], Begun | None]
"""Waits for a chunk that is being begun; None where it does not forget its entry after all."""
