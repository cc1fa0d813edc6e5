"""What kernels must know of a chunk of tridiagonal systems besides its arrays."""

from __future__ import annotations

from typing import NamedTuple


class Ends(NamedTuple):
    """Which ends of its systems a chunk holds, and how it is to be solved.

    Attributes
    ----------
    has_first, has_last : bool
        Whether the chunk holds the first row of the systems, whose dl is not read, and the
        last, whose du is not.
    method : str
        Of :func:`mgrec.solve_tridiagonal`.
    """

    has_first: bool
    has_last: bool
    method: str = "auto"

    @property
    def is_whole(self) -> bool:
        return self.has_first and self.has_last
