"""Where a state starts anew: marks along an axis, or labels of segments."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from .door import as_any_array
from .kinds import is_lazy, is_on_gpu
from .layout import has_unknown_sizes

_LABELS = "iuSUTMm"


def as_reset(reset: Any, shape: tuple[Any, ...], axis: int, reverse: bool) -> Any:
    """Marks, as uint8, of the steps that start anew.

    Parameters
    ----------
    reset : array_like
        See :func:`mgrec.linear_recurrence`.
    shape : tuple of int or nan
        Of the result, to which the marks are broadcast.
    axis : int
        0 or more.
    reverse : bool

    Returns
    -------
    array or dask.array.Array
        With as many axes as `shape` has.
    """
    reset = reset if is_on_gpu(reset) and not is_lazy(reset) else as_any_array("reset", reset)
    if reset.dtype.kind not in f"b{_LABELS}":
        raise TypeError(
            f"reset must be a mask of bool, or labels that are integers, strings or dates; got "
            f"{reset.dtype}"
        )
    reset = _along(reset, shape, axis)
    marks = reset if reset.dtype.kind == "b" else _changes(reset, axis, reverse)
    return marks.astype(np.uint8) if is_lazy(marks) else marks.view(np.uint8)


def _along(reset: Any, shape: tuple[Any, ...], axis: int) -> Any:
    """With all axes: one alone is that along which the recurrence runs."""
    ndim = len(shape)
    missing = [None] * (ndim - reset.ndim)
    if reset.ndim == 1:
        index = [None] * ndim
        index[axis] = slice(None)  # type: ignore[call-overload]
        full = reset[tuple(index)]
    else:
        full = reset[(*missing, ...)]
    fits = 0 < reset.ndim <= ndim and all(
        have in (1, want) or math.isnan(want) or math.isnan(have)
        for have, want in zip(full.shape, shape, strict=True)
    )
    if not fits:
        raise ValueError(
            f"reset must have shape ({shape[axis]},), the steps along axis {axis}, or one that "
            f"broadcasts to {shape}; got {reset.shape}"
        )
    return full


def _changes(labels: Any, axis: int, reverse: bool) -> Any:
    """Where a label is not that of the step before."""
    if labels.shape[axis] == 1:
        return np.zeros_like(labels, dtype=bool)
    head, tail = (
        tuple(part if k == axis else slice(None) for k in range(labels.ndim))
        for part in (slice(0, -1), slice(1, None))
    )
    if not is_lazy(labels):
        changes = np.zeros_like(labels, dtype=bool)
        changes[head if reverse else tail] = labels[head] != labels[tail]
        return changes
    if has_unknown_sizes(labels.chunks):
        raise ValueError(
            "reset must be a mask where sizes of chunks are unknown, or call "
            "compute_chunk_sizes() first; got labels"
        )
    first = labels[tuple(slice(0, 1) if k == axis else s for k, s in enumerate(head))]
    same, changed = (first == first) & False, labels[head] != labels[tail]
    # NumPy's function would be dask.array's: one of expressions where query planning is on.
    concatenate = vars(sys.modules[type(labels).__module__])["concatenate"]
    both = concatenate([changed, same] if reverse else [same, changed], axis=axis)
    return both.rechunk(labels.chunks)
