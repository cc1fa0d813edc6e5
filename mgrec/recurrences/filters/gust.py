"""Gustafsson's forward-backward filter: states at the ends instead of data beyond them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays.layout import reversed_copy
from ...families.filters.cascade import Cascade
from ...families.filters.door import as_coefficients, beside, result_dtype
from ...families.filters.recurrence import filter_problem
from ...placement import solve


def filtfilt_gust(b: np.ndarray, a: np.ndarray, x: Any, axis: int, irlen: int | None) -> Any:
    """Filter so that forward-backward and backward-forward give the same.

    Let O (n, order) be the responses to the states at the start, and S those responses filtered
    backwards. With y_fb and y_bf the results from states of 0, the states x_0 at the
    start and x_N at the end solve, in the sense of least squares (eq. 6),

        [Sᴿ − O, Oᴿ − S]·[x_0; x_N] = y_bf − y_fb,

    and the result is y_fb + [Sᴿ, Oᴿ]·[x_0; x_N] (eq. 7), where ᴿ reverses the rows.

    `irlen` is how many samples the states reach at either end, all when None.

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

    def run(data: Any, axis: int = -1, entry: Any = None) -> Any:
        dtype = result_dtype(b, a, data, entry)
        return solve(filter_problem(cascade, data, entry, axis % data.ndim, dtype))

    if x.size == 0:
        return run(x, axis)
    x = np.moveaxis(x, axis, -1)
    length = x.shape[-1]
    reach = length if irlen is None or length <= 2 * irlen else irlen
    states = np.eye(order)[:, :, None]  # one state of 1 a row
    observed = np.concatenate([run(np.zeros((1, reach)), entry=state) for state in states]).T
    filtered = run(observed[::-1], axis=0)
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
        # At most two arrays are in memory at once: each is released after it was read.
        first = run(data)
        turned = reversed_copy(first, first.ndim - 1)
        del first
        return run(turned)

    # Only a copy of both ends is kept of the other order.
    other = _joined(both_ways(x[..., ::-1]), ends)
    y = both_ways(x)[..., ::-1]
    missing = as_coefficients("x", other - _joined(y, ends))
    chosen = np.linalg.lstsq(matrix, missing.reshape(-1, missing.shape[-1]).T)[0]
    added = beside((weights @ chosen).T.reshape(missing.shape), x)
    for number, end in enumerate(ends):
        y[..., end] += added[..., number * reach : (number + 1) * reach]
    return np.moveaxis(y, -1, axis)


def _joined(x: Any, ends: list[slice]) -> Any:
    """Both ends of all rows."""
    return np.concatenate([x[..., end] for end in ends], axis=-1)
