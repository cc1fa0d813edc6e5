"""Sequences as arrays of integers, joined sequences, and the codes of an alphabet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.arrays.array_types import as_native, cast, is_lazy
from ...core.arrays.validation import as_array

# Codes are uint8; the largest one marks a letter that the alphabet lacks.
_MISSING = 255
MOST_LETTERS = _MISSING


@dataclass(frozen=True)
class Sequences:
    """Sequences of any lengths, joined into one array: a database that is not split into a list.

    Attributes
    ----------
    codes : array (characters,)
        Integers of one dtype, in host memory or on a GPU; sequence k is
        ``codes[offsets[k]:offsets[k + 1]]``.
    offsets : numpy.ndarray of int64 (sequences + 1,)
        In host memory; they rise from 0 to the size of `codes`.

    Examples
    --------
    >>> import mgrec
    >>> import numpy as np
    >>> letters = np.frombuffer(b"GATTACATACATACACCC", np.uint8)
    >>> words = mgrec.Sequences(letters, np.array([0, 7, 15, 18]))
    >>> mgrec.smith_waterman("ATTAC", words, match=1, mismatch=-1, gap=-2).score
    array([5, 3, 1])
    """

    codes: Any
    offsets: np.ndarray

    def map_arrays(self, function: Callable[[Any], Any]) -> Sequences:
        """Return sequences with ``function(codes)`` as their codes."""
        return replace(self, codes=function(self.codes))

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, k: int) -> Any:
        """Return sequence k, in the memory of `codes`."""
        return self.codes[self.offsets[k] : self.offsets[k + 1]]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def check(self, name: str) -> None:
        """Raise ValueError unless the offsets divide the codes."""
        offsets = np.asarray(self.offsets)
        shape: Any = getattr(self.codes, "shape", ())
        if len(shape) != 1:
            raise ValueError(f"{name} must have codes of one axis; got {self.codes!r:.60}")
        (size,) = shape
        is_row = offsets.ndim == 1 and offsets.size > 0 and offsets.dtype.newbyteorder("=") == np.int64
        if not is_row or offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) < 0).any():
            raise ValueError(
                f"{name} must have offsets of int64 in host memory that rise from 0 to {size}, the "
                f"characters of its codes; got {offsets.dtype} {offsets.shape}"
            )

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


def join(sequences: list[np.ndarray]) -> Sequences:
    """Return sequences of one dtype, joined."""
    offsets = np.zeros(len(sequences) + 1, np.int64)
    np.cumsum([sequence.size for sequence in sequences], out=offsets[1:])
    if len(sequences) == 1:
        return Sequences(sequences[0], offsets)
    return Sequences(np.concatenate(sequences) if sequences else np.empty(0, np.uint8), offsets)


def as_sequence(name: str, value: Any) -> Any:
    """Return one axis of integers: the code points of text, or the caller's array."""
    if isinstance(value, str):
        return np.frombuffer(value.encode("utf-32-le", "surrogatepass"), "<u4")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return np.frombuffer(value, np.uint8)
    if isinstance(value, np.ndarray) and value.dtype.char in "SU":
        value = as_native(value)
    if isinstance(value, np.ndarray) and value.dtype.str in ("|S1", "<U1"):
        return np.ascontiguousarray(value).view(np.uint8 if value.itemsize == 1 else "<u4")
    array = as_array(name, value)
    if hasattr(array, "dtype") and array.dtype.kind == "b":
        return cast(array, np.dtype(np.uint8))
    if not hasattr(array, "dtype") or array.dtype.kind not in "iu":
        got = getattr(array, "dtype", type(array).__name__)
        raise TypeError(f"{name} must be text, bytes or an array of integers; got {got}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one axis; got shape {array.shape}")
    return array


def is_text(value: Any) -> bool:
    """Return whether a sequence is text, not numbers."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "SU"
    return isinstance(value, (str, bytes, bytearray, memoryview))


@dataclass(frozen=True)
class Alphabet:
    """The letters of a substitution matrix, and their codes.

    `letters`: the code of a letter is its index. A lower-case letter that is missing counts as the
      capital. Any other missing letter counts as "*", if "*" is among the letters. None if
      sequences are codes themselves.
    """

    letters: str | None
    size: int

    def encode(self, name: str, sequence: Any) -> Any:
        """Return the uint8 codes of a sequence of characters, lazily if it is lazy."""
        if is_lazy(sequence):
            meta = sequence._meta.astype(np.uint8)
            return sequence.map_blocks(_encode, self, name, dtype=np.uint8, meta=meta)
        return _encode(sequence, self, name)

    def table(self) -> np.ndarray:
        """Return the code of each character below 256."""
        letters = self.letters or ""
        codes = np.full(256, letters.find("*") if "*" in letters else _MISSING, np.uint8)
        for code in reversed(range(len(letters))):
            small = letters[code].lower()
            for letter in {letters[code], small if small not in letters else letters[code]}:
                codes[ord(letter)] = code
        return codes


def _encode(sequence: Any, alphabet: Alphabet, name: str) -> Any:
    if sequence.size == 0:
        return sequence.astype(np.uint8)
    if alphabet.letters is None:
        lowest, highest = int(sequence.min()), int(sequence.max())
        if lowest < 0 or highest >= alphabet.size:
            raise ValueError(
                f"{name} must have codes from 0 to {alphabet.size - 1}, the rows of matrix; got "
                f"{lowest} to {highest}"
            )
        return sequence.astype(np.uint8)
    table = alphabet.table()
    is_beyond = (sequence < 0) | (sequence > 255)
    # No alphabet has the character 0: its code is that of "*", or _MISSING.
    codes = np.asarray(table, like=sequence)[np.where(is_beyond, 0, sequence)]
    if table[0] == _MISSING and bool((codes == _MISSING).any()):
        index = int(np.argmax(codes == _MISSING))
        letter = _printable(sequence[index])
        raise ValueError(
            f"{name} must have letters of matrix, {alphabet.letters!r}; got {letter} at index "
            f"{index}: map it to one of them, or give matrix a letter '*' for all others"
        )
    return codes


def _printable(code: Any) -> str:
    return repr(chr(int(code))) if 0 <= int(code) < 0x110000 else str(int(code))
