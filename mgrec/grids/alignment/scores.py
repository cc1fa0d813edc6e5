"""What columns score, as a caller gives it: checked and as one Scoring."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from ...core.arrays.validation import as_real, is_one_of
from .letters import MOST_LETTERS, Alphabet
from .matrices import NAMES, load
from .scoring import Scoring

MODES = ("local", "global", "semi-global")


def as_scoring(
    match: Any, mismatch: Any, gap: Any, matrix: Any, extend: Any, mode: Any
) -> tuple[Scoring, Alphabet | None]:
    """The scoring, and the alphabet of its matrix; None where letters are compared."""
    if not is_one_of(mode, MODES):
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}; got {mode!r}")
    alphabet, table = None, None
    given = {"gap": gap, "extend": gap if extend is None else extend}
    if matrix is None:
        if match is None or mismatch is None:
            raise TypeError("match and mismatch, or matrix, must say what two letters score")
        given |= {"match": match, "mismatch": mismatch}
    elif match is not None or mismatch is not None:
        raise TypeError("matrix must stand alone; got match or mismatch as well")
    else:
        alphabet, table = _as_matrix(matrix)
    numbers = {name: _as_number(name, value) for name, value in given.items()}
    _check_gaps(numbers["gap"], numbers["extend"])
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


def _check_gaps(gap: float, extend: float) -> None:
    if gap > 0:
        raise ValueError(
            f"gap must be at most 0: the score of one character opposite to none; got {gap}"
        )
    if not gap <= extend <= 0:
        raise ValueError(
            f"extend must be from gap to 0: the score of each further character of a gap; got "
            f"{extend} after a gap of {gap}"
        )


def _as_matrix(matrix: Any) -> tuple[Alphabet, tuple[tuple[float, ...], ...]]:
    if isinstance(matrix, str):
        if matrix.upper() not in NAMES:
            raise ValueError(f"matrix must be one of {', '.join(NAMES)}; got {matrix!r}")
        alphabet, scores = load(matrix.upper())
        return Alphabet(alphabet, len(alphabet)), scores
    letters: Any = getattr(matrix, "alphabet", None)  # Biopython's arrays have one
    if isinstance(matrix, tuple) and len(matrix) == 2 and isinstance(matrix[0], str):
        letters, matrix = matrix
    array = np.asarray(matrix)
    if hasattr(matrix, "alphabet") and (array == np.floor(array)).all():
        array = array.astype(np.int64)  # Biopython has floats alone
    size = len(array) if array.ndim else 0
    if array.shape != (size, size) or not 0 < size <= MOST_LETTERS or array.dtype.kind not in "iuf":
        raise ValueError(
            f"matrix must be a name, numbers (letters, letters) of 1 to {MOST_LETTERS} letters, or "
            f"(alphabet, numbers); got {array.dtype} {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError("matrix must have finite scores; got nan or inf")
    if letters is not None:
        _check_letters(letters, size)
    return Alphabet(letters, size), tuple(map(tuple, array.tolist()))


def _check_letters(letters: Any, size: int) -> None:
    is_text = isinstance(letters, str) and all(0 < ord(letter) < 256 for letter in letters)
    if not is_text or len(set(letters)) != len(letters) or len(letters) != size:
        raise ValueError(
            f"matrix must have an alphabet of {size} different characters of one byte, one for "
            f"each row; got {letters!r}"
        )
