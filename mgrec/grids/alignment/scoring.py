"""What the columns of an alignment score, and which of its ends are free."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scoring:
    """What an alignment's columns score: finite numbers, all int or all float.

    Attributes
    ----------
    gap, extend : int or float
        The first character of a run opposite to none, and each further one:
        gap <= extend <= 0. The penalties of parasail are their negatives.
    match, mismatch : int or float
        Two characters that are equal, and two that are not; 0 where there is a table.
    table : tuple of tuple of int or float, optional
        score(a, b) = table[a][b] of query code a and target code b. Both sequences are then
        uint8 codes below len(table), which are the same for both.
    mode : {"local", "global", "semi-global"}
        Local scores are at least 0. The others differ in their borders alone, which the caller
        makes: see :mod:`.borders`.
    """

    gap: float
    extend: float
    match: float = 0
    mismatch: float = 0
    table: tuple[tuple[float, ...], ...] | None = None
    mode: str = "local"

    @property
    def is_affine(self) -> bool:
        return self.gap != self.extend

    @property
    def is_local(self) -> bool:
        return self.mode == "local"

    @property
    def highest(self) -> float:
        """The most that two characters score."""
        return max(map(max, self.table)) if self.table else max(self.match, self.mismatch)

    @property
    def least(self) -> float:
        """The least that two characters score."""
        return min(map(min, self.table)) if self.table else min(self.match, self.mismatch)
