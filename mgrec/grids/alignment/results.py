"""The results of smith_waterman: score and end, or an alignment with its CIGAR string."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.array_types import to_host
from .sequences import Alphabet
from .tiles import Best

_LINE_WIDTH = 60


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
        operations = _operations(self.cigar)
        # For each sequence, the index of the first character of every column, and after the last.
        indices = [
            begin + np.concatenate([[0], np.cumsum(operations != gap)])
            for begin, gap in ((self.query_begin, "D"), (self.target_begin, "I"))
        ]
        width = len(str(max(self.query_end, self.target_end)))
        rows: list[str] = []
        for start in range(0, operations.size, _LINE_WIDTH):
            stop = min(start + _LINE_WIDTH, operations.size)
            query, bars, target = (line[start:stop] for line in self.lines)
            rows += [
                f"query   {indices[0][start]:>{width}} {query} {indices[0][stop] - 1:>{width}}",
                f"        {'':>{width}} {bars}".rstrip(),
                f"target  {indices[1][start]:>{width}} {target} {indices[1][stop] - 1:>{width}}",
                "",
            ]
        return "\n".join(rows[:-1])


@dataclass(frozen=True)
class Columns:
    """Consecutive columns of an alignment: counts and CIGAR operations, and three lines."""

    runs: list[tuple[int, str]]
    lines: tuple[str, str, str]


def columns_of(
    sequences: Sequence[Any], alphabet: Alphabet | None, starts: tuple[int, int],
    runs: list[tuple[str, int]],
) -> Columns:  # fmt: skip
    """Return the columns of a path: runs of "M", "I" and "D", from these characters on."""
    counts = [count for _, count in runs]
    columns = np.repeat(np.array([operation for operation, _ in runs], "U1"), counts)
    first, second = (
        _with_gaps(to_host(sequence), start, columns != gap)
        for sequence, start, gap in zip(sequences, starts, ("D", "I"), strict=True)
    )
    is_same = _are_same(first, second, alphabet)
    operations = np.where(columns == "M", np.where(is_same, "=", "X"), columns)
    bars = "".join(np.where(operations == "=", "|", " "))
    texts = (_as_text(codes, columns == gap) for codes, gap in ((first, "D"), (second, "I")))
    return Columns(_runs(operations), (next(texts), bars, next(texts)))


def join_columns(best: Best, starts: tuple[int, int], pieces: Sequence[Columns]) -> TracedAlignment:
    """Return the alignment that consists of these columns."""
    runs: list[tuple[int, str]] = []
    for count, operation in chain.from_iterable(piece.runs for piece in pieces):
        before = runs.pop()[0] if runs and runs[-1][1] == operation else 0
        runs.append((before + count, operation))
    cigar = "".join(f"{count}{operation}" for count, operation in runs)
    query, bars, target = ("".join(piece.lines[k] for piece in pieces) for k in range(3))
    return TracedAlignment(
        best.score, starts[0], best.query_end, starts[1], best.target_end, cigar,
        (query, bars, target),
    )  # fmt: skip


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
    capitals = [np.where((line >= 97) & (line <= 122), line - 32, line) for line in both]
    codes = [alphabet.table()[np.where(line > 255, 0, line)] for line in both]
    return is_same | ((capitals[0] == capitals[1]) & (codes[0] == codes[1]))


def _as_text(codes: np.ndarray, is_gap: np.ndarray) -> str:
    return "".join(
        "-" if gap else chr(c) if 0 <= c < 0x110000 and chr(c).isprintable() else "?"
        for c, gap in zip(codes.tolist(), is_gap, strict=True)
    )


def _runs(operations: np.ndarray) -> list[tuple[int, str]]:
    is_first = np.concatenate([[True], operations[1:] != operations[:-1]])
    starts = np.flatnonzero(is_first[: operations.size])
    counts = np.diff(np.append(starts, operations.size))
    return list(zip(counts.tolist(), operations[starts].tolist(), strict=True))


def _operations(cigar: str) -> np.ndarray:
    """Return the CIGAR operation of each column."""
    runs = re.findall(r"(\d+)(\D)", cigar)
    counts = [int(count) for count, _ in runs]
    return np.repeat(np.array([operation for _, operation in runs], "U1"), counts)
