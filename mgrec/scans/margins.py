"""How far from overflow and underflow a summary of w = s·w + t is trusted, on either machine.

Beyond these margins a row is marked REDO: the loop decides, from its true carry-in. M is the
largest number of float32 (in brackets: float64), also of the parts of a complex number.

*Offsets.* Half a unit in the last place of M is 2^-25·M (2^-54·M): no sum with an offset below
that tips a state into overflow which the product alone would not.

- A CPU adds offsets step by step and checks each: 2^-40·M (2^-60·M).
- A GPU composes maps, and up to 300 offsets may add up after their checks: 300 of 2^-40·M
  (2^-72·M) are below 2^-31·M (2^-63·M), but 300 of 2^-60·M would exceed 2^-54·M.

*Rebound.* A state that the loop lost was below 2^-149 (2^-1074). By products of up to 2^200
(2^500) it comes back below 2^51 (2^-574), far from overflow at 2^128 (2^1024).

*Safe blocks* of a CPU need no look at single steps. Their coefficients are 0 or from 2^-30 to
2^0.25. The product of all is scaled every 16 steps: from 2^-500 it falls to 2^-980 at least, a
normal float64. 128 steps grow by 2^32 at most, and 128 offsets to 2^39 times the largest, so that
each t and the first offset stay 2^40 below the margin.

The GPU's ``trust/calm.cuh`` has these in numbers of its own, rounded down: 1e26 (1e286) for
offsets, 1e30 (1e140) for growth and rebound, within a thread's steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

SAFE_BLOCK = 128
SAFE_LOW, SAFE_HIGH = 2.0**-30, 2.0**0.25
SAFE_GROWTH = 32.0  # log2
SAFE_TERM = 2.0**-40  # of the largest offset


@dataclass(frozen=True)
class Margins:
    """The largest offsets, and log2 of the largest rebound."""

    offset_on_cpu: float
    offset_on_gpu: float
    rebound: int


@cache
def margins(dtype: np.dtype[Any]) -> Margins:
    """The margins of a floating or complex dtype."""
    info = np.finfo(dtype)
    largest = float(info.max)
    if info.dtype.itemsize == 4:
        return Margins(largest * 2.0**-40, largest * 2.0**-40, 200)
    return Margins(largest * 2.0**-60, largest * 2.0**-72, 500)
