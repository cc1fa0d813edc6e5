"""Sizes of small matrices, which kernels are compiled for.

A kernel takes a size as a sequence whose length is the size, and passes it on. The length of an
array is a number, and that of a tuple is part of its type, for which numba compiles the kernel. In
loops over a number a step of a model of two states takes 3 to 4 times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MIN_STEPS_FOR_SIZES = 1 << 17
"""Number of steps from which a kernel is compiled for the sizes of a call, once for 2 to 4 s."""
_LARGEST = 8
"""Largest size for which kernels are compiled. Larger ones gain little."""


def as_lengths(sizes: tuple[int, ...], steps: int) -> tuple[Any, ...]:
    """Return sequences of these lengths for a call of so many steps."""
    if steps < MIN_STEPS_FOR_SIZES or max(sizes) > _LARGEST:
        return tuple([np.empty(size, np.int8) for size in sizes])
    return tuple([(0,) * size for size in sizes])
