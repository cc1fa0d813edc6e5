"""Extension of signals at their ends, as ``scipy.signal.filtfilt`` extends them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.backends import backend_of
from ..solve.functions import concatenate


def along(x: Any, axis: int, index: Any) -> Any:
    """Return the elements of an array at an index or slice of an axis."""
    return x[(slice(None),) * axis + (index,)]


def extended(
    x: Any,
    axis: int,
    padtype: str | None,
    edge: int,
    dtype: np.dtype[Any],
    has_start: bool = True,
    has_end: bool = True,
) -> Any:
    """Return samples with `edge` more at the start and the end of the signal.

    Parameters
    ----------
    padtype : {"odd", "even", "constant", None}
        Extension; `edge` must be 0 for None.
    dtype : numpy.dtype
        Dtype of the result of a NumPy array. Others keep theirs, and filters cast them.
    has_start, has_end : bool, optional
        Whether the samples contain the start, or the end, of the signal.
    """
    if edge <= 0 or not (has_start or has_end):
        return x
    parts = [x]
    if has_start:
        first = along(x, axis, slice(0, 1))
        parts = [_beyond(first, along(x, axis, slice(edge, 0, -1)), axis, padtype, edge), x]
    if has_end:
        length = x.shape[axis]
        last = along(x, axis, slice(length - 1, length))
        after = along(x, axis, slice(-2, -edge - 2, -1))
        parts.append(_beyond(last, after, axis, padtype, edge))
    if type(x) is np.ndarray:  # Cast here, because a filter would cast in a copy.
        return np.concatenate(parts, axis, dtype=dtype)
    return concatenate(parts, axis)


def _beyond(end: Any, mirrored: Any, axis: int, padtype: str | None, edge: int) -> Any:
    """Return samples beyond an end, whose reflection is `mirrored`."""
    if padtype == "constant":
        shape = [edge if k == axis else 1 for k in range(end.ndim)]
        return end * backend_of(end).from_host(np.ones(shape, end.dtype), end)
    return 2 * end - mirrored if padtype == "odd" else mirrored
