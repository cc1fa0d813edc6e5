"""Gustafsson's forward-backward filter: initial states instead of extended data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays.chunk import reversed_copy
from ..solve import solve
from .arguments import as_coefficients, beside, result_dtype
from .cascade import Cascade
from .recurrence import filter_problem


def filtfilt_gust(b: np.ndarray, a: np.ndarray, x: Any, axis: int, irlen: int | None) -> Any:
    """Filter so that forward-backward and backward-forward filtering give the same result.

    Let O (n, order) be the responses to the states at the start, and S those responses filtered
    backwards. Let y_fb and y_bf be the results from states of 0. The states x_0 at the start and
    x_N at the end solve, in the sense of least squares (eq. 6),

        [Sᴿ − O, Oᴿ − S]·[x_0; x_N] = y_bf − y_fb,

    and the result is y_fb + [Sᴿ, Oᴿ]·[x_0; x_N] (eq. 7), where ᴿ reverses the rows.

    `irlen` is the number of samples that the states affect at either end; None means all.

    References
    ----------
    F. Gustafsson, Determining the initial states in forward-backward filtering, 1996.
    """
    if hasattr(x, "dask"):
        raise NotImplementedError(
            "method 'gust' solves one system over all samples: use method='pad' for Dask arrays"
        )
    order = max(b.size, a.size) - 1
    if order == 0:
        return (b[0] / a[0]) ** 2 * x
    cascade = Cascade.of_polynomials(b, a)

    def filtered_along(data: Any, axis: int = -1, carry_in: Any = None) -> Any:
        dtype = result_dtype(b, a, data, carry_in)
        return solve(filter_problem(cascade, data, carry_in, axis % data.ndim, dtype))

    if x.size == 0:
        return filtered_along(x, axis)
    x = np.moveaxis(x, axis, -1)
    length = x.shape[-1]
    reach = length if irlen is None or length <= 2 * irlen else irlen
    states = np.eye(order)[:, :, None]  # one state of 1 a row
    observed = np.concatenate(
        [filtered_along(np.zeros((1, reach)), carry_in=state) for state in states]
    ).T
    filtered = filtered_along(observed[::-1], axis=0)
    if reach == length:
        matrix = np.hstack([filtered[::-1] - observed, observed[::-1] - filtered])
        weights = np.hstack([filtered[::-1], observed[::-1]])
        ends = [slice(None)]
    else:
        none = np.zeros_like(observed)
        matrix = np.block([[filtered[::-1] - observed, none], [none, observed[::-1] - filtered]])
        weights = np.block([[filtered[::-1], none], [none, observed[::-1]]])
        ends = [slice(reach), slice(length - reach, None)]

    def both_ways(data: Any) -> Any:
        # At most two arrays are in memory: each one is released after it was read.
        first = filtered_along(data)
        backward = reversed_copy(first, first.ndim - 1)
        del first
        return filtered_along(backward)

    # Of the other order only a copy of both ends is kept.
    other = _joined(both_ways(x[..., ::-1]), ends)
    y = both_ways(x)[..., ::-1]
    missing = as_coefficients("x", other - _joined(y, ends))
    chosen = np.linalg.lstsq(matrix, missing.reshape(-1, missing.shape[-1]).T)[0]
    added = beside((weights @ chosen).T.reshape(missing.shape), x)
    for number, end in enumerate(ends):
        y[..., end] += added[..., number * reach : (number + 1) * reach]
    return np.moveaxis(y, -1, axis)


def _joined(x: Any, ends: list[slice]) -> Any:
    """Return both ends of all rows."""
    return np.concatenate([x[..., end] for end in ends], axis=-1)
