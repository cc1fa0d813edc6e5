"""NumPy's functions over arrays of every kind.

``np.concatenate`` of Dask arrays calls what ``dask.array`` has of that name: where query planning
is on, a function of expressions, which knows nothing of arrays with graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays.array_types import is_lazy


def concatenate(arrays: Sequence[Any], axis: int) -> Any:
    return _function("concatenate", *arrays)(arrays, axis=axis)


def where(condition: Any, x: Any, y: Any) -> Any:
    return _function("where", condition, x, y)(condition, x, y)


def broadcast_to(array: Any, shape: Any) -> Any:
    return _function("broadcast_to", array)(array, shape)


def full_like(array: Any, value: Any) -> Any:
    return _function("full_like", array)(array, value)


def _function(name: str, *arrays: Any) -> Any:
    if not any(map(is_lazy, arrays)):
        return getattr(np, name)
    from ..distributed.graph import functions

    return getattr(functions, name)
