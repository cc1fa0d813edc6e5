"""How the rows of an alignment are shared by the lanes of a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....engines.cuda.tracing.cpp import ctype

LANES = 32
_SOURCES = ("EQUAL", "BYTES", "TABLE")


@dataclass(frozen=True, kw_only=True)
class AlignmentLayout:
    """Constants that the kernels are compiled with: results do not depend on them.

    Attributes
    ----------
    letter, score, dtype : numpy.dtype
        Of the sequences, of H in registers, and of H where it is handed on.
    written : numpy.dtype, optional
        Of the table that all of H is written to.
    source : {"EQUAL", "BYTES", "TABLE"}
        What two letters score: whether they are equal, bytes of a profile in shared memory,
        or a table in device memory.
    mode : {"local", "global", "semi-global"}
    is_affine : bool
    rows : int
        Of a lane; 32 times as many make a strip.
    strips : int
        Warps of a block, a strip each.
    wide : int
        Columns of a step, so that a lane waits less often for the lane before it.
    columns : int
        That a strip goes forward at once, a round; of the table, a line of memory.
    at_once : int
        Neighbours of the table that a lane writes at once.
    is_chain_short : bool
        A row's score comes from that of the row above by one instruction, where otherwise two
        share one of the additions with the next column: fewer instructions, but a longer wait.
    """

    letter: np.dtype[Any]
    score: np.dtype[Any]
    dtype: np.dtype[Any]
    source: str
    mode: str
    is_affine: bool
    rows: int
    strips: int = 4
    wide: int = 1
    columns: int = 16
    written: np.dtype[Any] | None = None
    at_once: int = 1
    is_chain_short: bool = True

    @property
    def has_matrix(self) -> bool:
        return self.written is not None

    @property
    def threads(self) -> int:
        return LANES * self.strips * (1 + self.has_matrix)

    @property
    def strip_rows(self) -> int:
        return LANES * self.rows

    @property
    def lag(self) -> int:
        """Columns that a strip is behind the one above it in a block."""
        return self.columns + LANES * self.wide

    @property
    def numbers(self) -> int:
        """Words of 64 bits that a column of a strip's last row takes."""
        return (1 + self.is_affine) * (self.score.itemsize // 4)

    def profile_bytes(self, kinds: int) -> int:
        """Shared memory of one strip's profile over so many letters."""
        if self.source != "BYTES":
            return 0
        packs = -(-self.rows // 4)
        words = packs if packs <= 2 else -(-packs // 4) * 4
        return kinds * LANES * words * 4

    @property
    def staged_bytes(self) -> int:
        """Shared memory in which a strip's scores wait to be written."""
        if not self.has_matrix:
            return 0
        pitch = 3 * self.columns + (1 if self.wide % 2 == 0 else 2)
        return self.strip_rows * pitch * self.score.itemsize

    def print(self) -> str:
        numbers = {
            "R": self.rows, "K": self.wide, "C": self.columns, "N": self.at_once,
            "SOURCE": _SOURCES.index(self.source),
        }  # fmt: skip
        flags = {
            "AFFINE": self.is_affine, "LOCAL": self.mode == "local", "MATRIX": self.has_matrix,
            "SHORT": self.is_chain_short,
        }  # fmt: skip
        lines = [f"constexpr int {name} = {value};" for name, value in numbers.items()]
        lines += [f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()]
        types = {
            "X": self.letter,
            "T": self.score,
            "B": self.dtype,
            "M": self.written or self.dtype,
        }
        lines += [f"typedef {ctype(dtype)} {name};" for name, dtype in types.items()]
        return "\n".join(lines) + "\n"
