"""What a chunk that was determined from a provisional entry keeps for its true one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEAST = 4096
"""Steps of a chunk; shorter ones have none to spare for a head."""


@dataclass(frozen=True)
class Head:
    """The first steps of every row of w = s·w + t, in the order of the recurrence.

    From any finite entry whose states stay finite these suffice: the results after them stand.

    Attributes
    ----------
    s, t : array (rows, steps)
    provisional : array (rows, steps)
        The results from an entry of 0.
    is_positive : bool
        All coefficients of the chunk are known to be above 0. An infinity or nan that leaves the
        head then stays as it is.
    reverse : bool
        The first steps of the recurrence are the last ones of the chunk.
    """

    s: np.ndarray
    t: np.ndarray
    provisional: np.ndarray
    is_positive: bool
    reverse: bool

    @property
    def steps(self) -> int:
        return int(self.provisional.shape[1])
