"""Systems one after the other, without pivoting: where there are too few to go side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....engines.cpu.compilation import compile_kernel


def _solve(operands: Any, layout: Any, rows: Any, begin: int, end: int, result: Any) -> int:
    """Solve the systems from `begin` to `end` by the method of L. H. Thomas.

    Parameters
    ----------
    operands : four arrays, 1-d
    layout : Layout
    rows : array (4, 2 * steps)
        To write in.
    begin, end : int
    result : array, 1-d
        Its axes are (outer, steps, inner), contiguous.

    Returns
    -------
    int
        A system in which a pivot is 0 or overflows, or -1.
    """
    (dl, d, du, b), c = operands, rows[0]
    (_, steps, inner), strides, found = layout.shape, layout.strides, -1
    zero, one = np.zeros(1, c.dtype)[0], np.ones(1, c.dtype)[0]
    least = np.finfo(c.real.dtype).tiny
    for system in range(begin, end):
        outer, column = divmod(system, inner)
        first = strides[:, 0] * outer + strides[:, 2] * column
        start = outer * steps * inner + column
        ratio, x, nan_seen, is_sound = zero, zero, zero, True
        for i in range(steps):
            lower = dl[first[0] + i * strides[0, 1]] if i > 0 else zero
            upper = du[first[2] + i * strides[2, 1]] if i < steps - 1 else zero
            middle, right = d[first[1] + i * strides[1, 1]], b[first[3] + i * strides[3, 1]]
            nan_seen += (lower - lower) + (upper - upper) + (middle - middle) + (right - right)
            pivot = middle - lower * ratio
            size = max(abs(pivot.real), abs(pivot.imag))
            inverse = one / pivot
            ratio, x = upper * inverse, (right - lower * x) * inverse
            is_sound = is_sound and least <= size < np.inf and x - x == zero
            c[i], result[start + i * inner] = ratio, x
        x = zero
        for i in range(steps - 1, -1, -1):
            x = result[start + i * inner] - c[i] * x
            result[start + i * inner] = x + nan_seen
        if not is_sound and nan_seen == nan_seen:
            found = system
    return found


solve = compile_kernel(_solve)
