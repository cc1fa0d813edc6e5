"""Extension of signals at their ends, as ``scipy.signal.filtfilt`` extends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.backends import backend_of
from ..solve.functions import concatenate


def along(x: Any, axis: int, index: Any) -> Any:
    """Return the elements of an array at an index or slice of an axis."""
    return x[(slice(None),) * axis + (index,)]


def beyond(x: Any, axis: int, padtype: str | None, edge: int, side: int = -1) -> Any:
    """Return the `edge` samples before the start of a signal, or after its end if `side` is 1.

    `x`: samples of the signal from that end on: edge + 1 or more.
    """
    length = x.shape[axis]
    last = 0 if side < 0 else length - 1
    end = along(x, axis, slice(last, last + 1))
    if padtype == "constant":
        shape = [edge if k == axis else 1 for k in range(x.ndim)]
        return end * backend_of(x).from_host(np.ones(shape, x.dtype), x)
    mirrored = along(x, axis, slice(edge, 0, -1) if side < 0 else slice(-2, -edge - 2, -1))
    return 2 * end - mirrored if padtype == "odd" else mirrored


def joined(pieces: Sequence[Any], axis: int, dtype: np.dtype[Any]) -> Any:
    """Return arrays as one: of a dtype if they are NumPy's, which a filter would cast in a copy."""
    if type(pieces[0]) is np.ndarray:
        return np.concatenate(pieces, axis, dtype=dtype)
    return concatenate(pieces, axis)
