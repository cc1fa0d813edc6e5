"""The scores of an alignment: gaps, letters or a substitution matrix, and the mode."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any

import numpy as np

from ...core.arrays.validation import as_real, is_one_of
from .sequences import MOST_LETTERS, Alphabet

MODES = ("local", "global", "semi-global")
MATRICES = ("BLOSUM45", "BLOSUM50", "BLOSUM62", "BLOSUM80", "BLOSUM90", "PAM30", "PAM70", "PAM250")

Table = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Scoring:
    """The scores of an alignment's columns: finite numbers, all int or all float.

    `gap`, `extend`: scores of the first and of each further character of a gap: gap <= extend <= 0.
    `match`, `mismatch`: scores of two equal and of two different characters; 0 if there is a table.
    `table`: ``table[a][b]`` is the score of query code a and target code b, which are uint8.
    `mode`, {"local", "global", "semi-global"}: "global" and "semi-global" differ in the borders of
      the grid and in the end only.
    """

    gap: float
    extend: float
    match: float = 0
    mismatch: float = 0
    table: Table | None = None
    mode: str = "local"

    @property
    def is_affine(self) -> bool:
        return self.gap != self.extend

    @property
    def is_local(self) -> bool:
        return self.mode == "local"

    @property
    def highest(self) -> float:
        """The highest score of two characters."""
        return max(map(max, self.table)) if self.table else max(self.match, self.mismatch)

    @property
    def lowest(self) -> float:
        """The lowest score of two characters."""
        return min(map(min, self.table)) if self.table else min(self.match, self.mismatch)


def as_scoring(
    match: Any, mismatch: Any, gap: Any, matrix: Any, extend: Any, mode: Any
) -> tuple[Scoring, Alphabet | None]:
    """Return the scoring, and the alphabet of its matrix; None if letters are compared."""
    if not is_one_of(mode, MODES):
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}; got {mode!r}")
    alphabet, table = None, None
    scores = {"gap": gap, "extend": gap if extend is None else extend}
    if matrix is None:
        if match is None or mismatch is None:
            raise TypeError(
                f"match and mismatch, or matrix, must be given; got match={match!r} and mismatch={mismatch!r}"
            )
        scores |= {"match": match, "mismatch": mismatch}
    elif match is not None or mismatch is not None:
        raise TypeError("matrix must stand alone; got match or mismatch as well")
    else:
        alphabet, table = _as_matrix(matrix)
    numbers = {name: _as_number(name, value) for name, value in scores.items()}
    if numbers["gap"] > 0:
        raise ValueError(f"gap must be at most 0, the score of a gap's first character; got {numbers['gap']}")
    if not numbers["gap"] <= numbers["extend"] <= 0:
        raise ValueError(
            f"extend must be from gap to 0, the score of each further character of a gap; got "
            f"{numbers['extend']} after a gap of {numbers['gap']}"
        )
    cells = [cell for row in table or () for cell in row]
    if not all(isinstance(number, int) for number in (*numbers.values(), *cells)):
        numbers = {name: float(number) for name, number in numbers.items()}
        table = table and tuple(tuple(map(float, row)) for row in table)
    return Scoring(**numbers, table=table, mode=mode), alphabet


def _as_number(name: str, value: Any) -> float:
    real = as_real(name, value, "a finite number")
    if not isfinite(real):
        raise ValueError(f"{name} must be a finite number; got {value!r}")
    return int(value) if isinstance(value, (int, np.integer)) else real


def _as_matrix(matrix: Any) -> tuple[Alphabet, Table]:
    if isinstance(matrix, str):
        if matrix.upper() not in MATRICES:
            raise ValueError(f"matrix must be one of {', '.join(MATRICES)}; got {matrix!r}")
        return _load_matrix(matrix.upper())
    letters: Any = getattr(matrix, "alphabet", None)  # an array of Biopython has one
    if isinstance(matrix, tuple) and len(matrix) == 2 and isinstance(matrix[0], str):
        letters, matrix = matrix
    try:
        array = np.asarray(matrix)
    except ValueError as error:
        raise ValueError(f"matrix must have rows of one length: {error}") from error
    if hasattr(matrix, "alphabet") and (array == np.floor(array)).all():
        array = array.astype(np.int64)  # Biopython has floats only
    size = len(array) if array.ndim else 0
    if array.shape != (size, size) or not 0 < size <= MOST_LETTERS or array.dtype.kind not in "iuf":
        raise ValueError(
            f"matrix must be a name, numbers (letters, letters) of 1 to {MOST_LETTERS} letters, or "
            f"(alphabet, numbers); got {array.dtype} {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError("matrix must have finite scores; got nan or inf")
    is_text = isinstance(letters, str) and all(0 < ord(letter) < 256 for letter in letters)
    if letters is not None and not (is_text and len(set(letters)) == len(letters) == size):
        raise ValueError(
            f"matrix must have an alphabet of {size} different characters of one byte, one for "
            f"each row; got {letters!r}"
        )
    return Alphabet(letters, size), tuple(map(tuple, array.tolist()))


@cache
def _load_matrix(name: str) -> tuple[Alphabet, Table]:
    """Return a substitution matrix of Biopython, whose scores are integers stored as floats."""
    try:
        from Bio.Align import substitution_matrices
    except ImportError:
        raise ImportError(
            f"matrix={name!r} is loaded from Biopython, which is not installed: pip install 'mgrec[align]'"
        ) from None
    return _as_matrix(substitution_matrices.load(name))
