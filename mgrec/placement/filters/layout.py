"""Signals and states of filters, as the kernels take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays.chunk import Chunk
from ...arrays.layout import canonical_shape
from ...backends import to_host


def lay_out_signal(x: Any, axis: int, dtype: np.dtype[Any]) -> Chunk:
    """An array in memory, NumPy's or CuPy's, as a chunk of results of a dtype.

    Its samples stay what they are: backends cast them where they read them.
    """
    layout = canonical_shape(x.shape, axis)
    x = x if x.flags.c_contiguous else x.copy(order="C")
    return Chunk((x.reshape(layout),), layout, dtype)


def lay_out_states(problem: Any, entry: Any, shape: tuple[int, ...]) -> np.ndarray:
    """States (states, other axes), broadcast, as (states, outer, inner) in host memory."""
    if entry is None:
        outer, _, inner = canonical_shape(shape, problem.axis)
        return np.zeros((problem.cascade.states, outer, inner), problem.state_dtype)
    return np.ascontiguousarray(spread_states(problem, to_host(entry), shape))


def spread_states(problem: Any, entry: Any, shape: tuple[int, ...]) -> Any:
    """States (states, other axes), broadcast, as (states, outer, inner) where they are."""
    outer, _, inner = canonical_shape(shape, problem.axis)
    states = problem.cascade.states
    rows = shape[: problem.axis] + shape[problem.axis + 1 :]
    full = np.broadcast_to(entry.astype(problem.state_dtype), (states, *rows))
    return full.reshape(states, outer, inner)
