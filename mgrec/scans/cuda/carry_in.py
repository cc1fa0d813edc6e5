"""States before the first step, as kernels take them: numbers, or arrays on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.array_types import is_on_gpu, raise_if_capturing
from ...core.arrays.chunk import Chunk
from ...engines.cuda.launches import is_value

Arrays = tuple[Any, ...]


def states_of(carry_in: Arrays, chunk: Chunk) -> Arrays:
    """A number is in host memory, and of all rows; an array is of (outer, inner)."""
    return tuple([_state(part.astype(chunk.dtype, copy=False)) for part in carry_in])


def _state(array: Any) -> Any:
    import cupy

    if not is_on_gpu(array) and array.size == 1:
        return np.asarray(array).reshape(())
    if not is_on_gpu(array):
        raise_if_capturing("a call with initial states in host memory", "they are copied once")
    return cupy.ascontiguousarray(cupy.asarray(array))


def spread(state: Any, chunk: Chunk) -> Any:
    """A state as an array of all rows."""
    import cupy

    return cupy.full(chunk.row_shape, state[()], state.dtype) if is_value(state) else state
