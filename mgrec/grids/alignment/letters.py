"""Sequences of letters, and the codes that a substitution matrix counts them by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.arrays.array_types import as_native, is_lazy
from ...core.arrays.validation import as_array

_MISSING = 255
# Codes are uint8; the last one says that a letter is missing.
MOST_LETTERS = _MISSING


def as_sequence(name: str, value: Any) -> Any:
    """One axis of integers: code points of text, or what the caller's array holds."""
    if isinstance(value, str):
        return np.frombuffer(value.encode("utf-32-le", "surrogatepass"), "<u4")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return np.frombuffer(value, np.uint8)
    if isinstance(value, np.ndarray) and value.dtype.char in "SU":
        value = as_native(value)
    if isinstance(value, np.ndarray) and value.dtype.str in ("|S1", "<U1"):
        return np.ascontiguousarray(value).view(np.uint8 if value.itemsize == 1 else "<u4")
    array = as_array(name, value)
    if not hasattr(array, "dtype") or array.dtype.kind not in "iu":
        got = getattr(array, "dtype", type(array).__name__)
        raise TypeError(f"{name} must be text, bytes or an array of integers; got {got}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one axis; got shape {array.shape}")
    return array


def is_text(value: Any) -> bool:
    """Whether a sequence is given as text, not as numbers."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "SU"
    return isinstance(value, (str, bytes, bytearray, memoryview))


@dataclass(frozen=True)
class Alphabet:
    """Which letter has which code.

    Attributes
    ----------
    letters : str or None
        The code of a letter is its index; a small letter that is not among them counts as the
        capital, and any other that is not as "*", if that is one of them. None where sequences
        are codes themselves.
    size : int
        Codes.
    """

    letters: str | None
    size: int

    def coded(self, name: str, sequence: Any) -> Any:
        """A sequence of characters as uint8 codes, lazily where it is lazy.

        Raises
        ------
        ValueError
            A letter has no code.
        """
        if is_lazy(sequence):
            return sequence.map_blocks(_coded, self, name, dtype=np.uint8, meta=_meta_of(sequence))
        return _coded(sequence, self, name)

    def table(self) -> np.ndarray:
        """The code of each character below 256."""
        letters = self.letters or ""
        codes = np.full(256, letters.find("*") if "*" in letters else _MISSING, np.uint8)
        for code in reversed(range(len(letters))):
            small = letters[code].lower()
            for letter in {letters[code], small if small not in letters else letters[code]}:
                codes[ord(letter)] = code
        return codes


def _meta_of(sequence: Any) -> Any:
    return sequence._meta.astype(np.uint8)


def _coded(sequence: Any, alphabet: Alphabet, name: str) -> Any:
    if sequence.size == 0:
        return sequence.astype(np.uint8)
    if alphabet.letters is None:
        least, most = int(sequence.min()), int(sequence.max())
        if least < 0 or most >= alphabet.size:
            raise ValueError(
                f"{name} must have codes from 0 to {alphabet.size - 1}, the rows of matrix; got "
                f"{least} to {most}"
            )
        return sequence.astype(np.uint8)
    table = alphabet.table()
    is_beyond = (sequence < 0) | (sequence > 255)
    # "*", or missing, is what the character 0 is.
    codes = np.asarray(table, like=sequence)[np.where(is_beyond, 0, sequence)]
    if table[0] == _MISSING and bool((codes == _MISSING).any()):
        at = int(np.argmax(codes == _MISSING))
        raise ValueError(
            f"{name} must have letters of matrix, {alphabet.letters!r}; got {_shown(sequence[at])} "
            f"at index {at}: map it to one of them, or give matrix a letter '*' for all others"
        )
    return codes


def _shown(code: Any) -> str:
    return repr(chr(int(code))) if 0 <= int(code) < 0x110000 else str(int(code))
