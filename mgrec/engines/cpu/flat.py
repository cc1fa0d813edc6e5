"""Operands of a chunk as flat arrays with strides, for kernels that divide rows among threads."""

from __future__ import annotations

from math import prod

import numpy as np

from .compilation import writable


def flat_operand(array: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return an operand of a chunk as a flat array, and its strides along (outer, steps, inner).

    Strides count numbers, and are 0 along axes that are broadcast.
    """
    sizes = [prod(array.shape[k + 1 :]) for k in range(3)]
    strides = [size if length > 1 else 0 for size, length in zip(sizes, array.shape, strict=False)]
    return writable(array.reshape(-1)), tuple(strides)
