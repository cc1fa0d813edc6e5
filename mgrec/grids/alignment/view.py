"""An alignment as its caller reads it: positions, CIGAR, and three lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from ...core.arrays.array_types import to_host
from .letters import Alphabet
from .path import Path
from .tiles import Best

_COLUMNS = 60


@dataclass(frozen=True)
class TracedAlignment:
    """The best alignment of two sequences; ``str()`` shows one above the other.

    Attributes
    ----------
    score : int or float
    query_begin, query_end, target_begin, target_end : int
        Indices of its first and its last character in either sequence. An end is one before its
        begin where there is none.
    cigar : str
        Its columns in runs, as in SAM files: ``=`` and ``X`` for two characters that are equal
        and that are not, ``I`` for one of the query alone, ``D`` for one of the target alone.
    lines : tuple of three str
        The query with "-" where it has gaps, "|" where both are equal, and the target.
    """

    score: float
    query_begin: int
    query_end: int
    target_begin: int
    target_end: int
    cigar: str
    lines: tuple[str, str, str] = field(repr=False)

    def __str__(self) -> str:
        kinds = _kinds(self.cigar)
        # Of each sequence: the index of the first character of every column, and after them.
        before = [
            begin + np.concatenate([[0], np.cumsum(kinds != alone)])
            for begin, alone in ((self.query_begin, "D"), (self.target_begin, "I"))
        ]
        width = len(str(max(self.query_end, self.target_end)))
        rows: list[str] = []
        for begin in range(0, kinds.size, _COLUMNS):
            end = min(begin + _COLUMNS, kinds.size)
            query, between, target = (line[begin:end] for line in self.lines)
            rows += [
                f"query   {before[0][begin]:>{width}} {query} {before[0][end] - 1:>{width}}",
                f"        {'':>{width}} {between}".rstrip(),
                f"target  {before[1][begin]:>{width}} {target} {before[1][end] - 1:>{width}}",
                "",
            ]
        return "\n".join(rows[:-1])


@dataclass(frozen=True)
class Columns:
    """Columns of an alignment, one after the other.

    Attributes
    ----------
    runs : list of (int, str)
        How many of each kind; see `cigar` and `lines` of :class:`TracedAlignment`.
    lines : tuple of three str
    """

    runs: list[tuple[int, str]]
    lines: tuple[str, str, str]


def columns_of(
    query: Any, target: Any, alphabet: Alphabet | None, begins: tuple[int, int], path: Path
) -> Columns:
    """The columns on a path between two sequences, from these characters on."""
    runs = path.runs[::-1]
    counts = [count for _, count in runs]
    columns = np.repeat(np.array([kind for kind, _ in runs], "U1"), counts)
    first, second = (
        _gapped(to_host(sequence), begin, columns != alone)
        for sequence, begin, alone in ((query, begins[0], "D"), (target, begins[1], "I"))
    )
    is_same = _are_same(first, second, alphabet)
    kinds = np.where(columns == "M", np.where(is_same, "=", "X"), columns)
    bars = "".join(np.where(kinds == "=", "|", " "))
    shown = (_shown(line, columns == gap) for line, gap in ((first, "D"), (second, "I")))
    return Columns(_runs(kinds), (next(shown), bars, next(shown)))


def traced(best: Best, begins: tuple[int, int], pieces: Sequence[Columns]) -> TracedAlignment:
    """An alignment of all its columns."""
    runs: list[tuple[int, str]] = []
    for count, kind in chain.from_iterable(piece.runs for piece in pieces):
        before = runs.pop()[0] if runs and runs[-1][1] == kind else 0
        runs.append((before + count, kind))
    cigar = "".join(f"{count}{kind}" for count, kind in runs)
    query, between, target = ("".join(piece.lines[k] for piece in pieces) for k in range(3))
    return TracedAlignment(
        best.score, begins[0], best.query_end, begins[1], best.target_end, cigar,
        (query, between, target),
    )  # fmt: skip


def _gapped(sequence: np.ndarray, begin: int, is_there: np.ndarray) -> np.ndarray:
    """The characters of a sequence by columns of an alignment, 0 in gaps."""
    line = np.zeros(is_there.size, sequence.dtype)
    line[is_there] = sequence[begin : begin + np.count_nonzero(is_there)]
    return line


def _are_same(first: np.ndarray, second: np.ndarray, alphabet: Alphabet | None) -> np.ndarray:
    """Where two characters are equal, or a small letter and a capital of one code."""
    is_same = first == second
    if alphabet is None or alphabet.letters is None:
        return is_same
    capitals = [np.where((line >= 97) & (line <= 122), line - 32, line) for line in (first, second)]
    codes = [alphabet.table()[np.where(line > 255, 0, line)] for line in (first, second)]
    return is_same | ((capitals[0] == capitals[1]) & (codes[0] == codes[1]))


def _shown(line: np.ndarray, is_gap: np.ndarray) -> str:
    letters = (chr(c) if 0 <= c < 0x110000 and chr(c).isprintable() else "?" for c in line.tolist())
    return "".join("-" if gap else c for c, gap in zip(letters, is_gap, strict=True))


def _runs(kinds: np.ndarray) -> list[tuple[int, str]]:
    starts = np.flatnonzero(np.concatenate([[True], kinds[1:] != kinds[:-1]])[: kinds.size])
    lengths = np.diff(np.append(starts, kinds.size))
    return list(zip(lengths.tolist(), kinds[starts].tolist(), strict=True))


def _kinds(cigar: str) -> np.ndarray:
    """The kind of each column."""
    ends = [at for at, letter in enumerate(cigar) if not letter.isdigit()]
    begins = [0, *(end + 1 for end in ends[:-1])]
    counts = [int(cigar[begin:end]) for begin, end in zip(begins, ends, strict=False)]
    return np.repeat(np.array([cigar[end] for end in ends], "U1"), counts)
