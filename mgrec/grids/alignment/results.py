"""The results of smith_waterman: score and end, or an alignment with its CIGAR string."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.array_types import to_host
from .recurrence import Best
from .sequences import Alphabet

_COLUMNS_A_BLOCK = 60


class Alignment(NamedTuple):
    """Score and end position of the best alignment of two sequences, or of many pairs.

    Attributes
    ----------
    score : int, float, 0-d dask.array.Array, or numpy.ndarray (pairs,)
        Score of the best alignment. It is 0 for a local alignment if no alignment scores more than
        the empty one.
    query_end, target_end : int, 0-d dask.array.Array, or numpy.ndarray (pairs,)
        Index of the last aligned character of each sequence, or −1 if a local alignment has the
        score 0.
    """

    score: Any
    query_end: Any
    target_end: Any


@dataclass(frozen=True)
class TracedAlignment:
    """The best alignment of two sequences; ``str()`` shows one above the other.

    Attributes
    ----------
    score : int or float
    query_begin, query_end, target_begin, target_end : int
        Indices of the first and the last aligned character of each sequence. If no character is
        aligned, an end is one less than its begin.
    cigar : str
        CIGAR string as in SAM files: runs of ``=`` for equal and ``X`` for different characters,
        ``I`` for characters of the query alone, ``D`` for characters of the target alone.
    lines : tuple of three str
        The query with "-" in its gaps, "|" where both characters are equal, and the target.
    """

    score: float
    query_begin: int
    query_end: int
    target_begin: int
    target_end: int
    cigar: str
    lines: tuple[str, str, str] = field(repr=False)

    def __str__(self) -> str:
        operations = "".join(
            operation * int(count) for count, operation in re.findall(r"(\d+)(\D)", self.cigar)
        )
        width = len(str(max(self.query_end, self.target_end)))
        rows: list[str] = []
        i, j = self.query_begin, self.target_begin
        for start in range(0, len(operations), _COLUMNS_A_BLOCK):
            columns = slice(start, start + _COLUMNS_A_BLOCK)
            query, bars, target = (text[columns] for text in self.lines)
            row, i = i, i + len(query) - operations[columns].count("D")
            column, j = j, j + len(query) - operations[columns].count("I")
            rows += [
                f"query   {row:>{width}} {query} {i - 1:>{width}}",
                f"        {'':>{width}} {bars}".rstrip(),
                f"target  {column:>{width}} {target} {j - 1:>{width}}",
                "",
            ]
        return "\n".join(rows[:-1])


@dataclass(frozen=True)
class PathColumns:
    """Consecutive columns of an alignment: CIGAR operations, and the characters of both lines."""

    operations: str
    query: str
    target: str


def columns_of(
    sequences: Sequence[Any],
    alphabet: Alphabet | None,
    starts: tuple[int, int],
    groups: list[tuple[str, int]],
) -> PathColumns:
    """Return the columns of a path: groups of "M", "I" and "D", from these characters on."""
    counts = [count for _, count in groups]
    columns = np.repeat(np.array([operation for operation, _ in groups], "U1"), counts)
    first, second = (
        _with_gaps(to_host(sequence), start, columns != gap)
        for sequence, start, gap in zip(sequences, starts, ("D", "I"), strict=True)
    )
    matches = np.where(_are_same(first, second, alphabet), "=", "X")
    operations = "".join(np.where(columns == "M", matches, columns).tolist())
    return PathColumns(operations, _as_text(first, columns == "D"), _as_text(second, columns == "I"))


def join_columns(best: Best, starts: tuple[int, int], pieces: Sequence[PathColumns]) -> TracedAlignment:
    """Return the alignment that consists of these columns."""
    operations = "".join(piece.operations for piece in pieces)
    matches = re.finditer(r"(.)\1*", operations)
    cigar = "".join(f"{match.end() - match.start()}{match[1]}" for match in matches)
    bars = operations.translate(str.maketrans("=XID", "|   "))
    query, target = ("".join(getattr(piece, name) for piece in pieces) for name in ("query", "target"))
    return TracedAlignment(
        best.score, starts[0], best.query_end, starts[1], best.target_end, cigar, (query, bars, target)
    )


def _with_gaps(sequence: np.ndarray, start: int, is_character: np.ndarray) -> np.ndarray:
    """Return the character of a sequence in each column, 0 in gaps."""
    codes = np.zeros(is_character.size, sequence.dtype)
    codes[is_character] = sequence[start : start + np.count_nonzero(is_character)]
    return codes


def _are_same(first: np.ndarray, second: np.ndarray, alphabet: Alphabet | None) -> np.ndarray:
    """Return where characters are equal, or differ in case only and have the same code."""
    is_same = first == second
    if alphabet is None or alphabet.letters is None:
        return is_same
    both = first, second
    capitals = [np.where((x >= 97) & (x <= 122), x - 32, x) for x in both]
    codes = [alphabet.table()[np.where(x > 255, 0, x)] for x in both]
    return is_same | ((capitals[0] == capitals[1]) & (codes[0] == codes[1]))


def _as_text(codes: np.ndarray, is_gap: np.ndarray) -> str:
    return "".join(
        "-" if gap else chr(c) if 0 <= c < 0x110000 and chr(c).isprintable() else "?"
        for c, gap in zip(codes.tolist(), is_gap, strict=True)
    )
