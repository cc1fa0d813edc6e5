"""Functions of NumPy for NumPy, CuPy and Dask arrays, and for arrays of torch and jax.

``np.concatenate`` of Dask arrays calls ``dask.array.concatenate``. With query planning that is a
function of expressions, which does not support arrays with graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays.array_types import is_lazy
from ..core.arrays.interop import namespace_of
from ..distributed.expressions import function_of_graphs


def concatenate(arrays: Sequence[Any], axis: int) -> Any:
    return _function("concatenate", *arrays)(arrays, axis=axis)


def stack(arrays: Sequence[Any]) -> Any:
    """Return the arrays along a new last axis, which is one chunk."""
    joined = concatenate([array[..., None] for array in arrays], -1)
    return joined.rechunk({joined.ndim - 1: -1}) if is_lazy(joined) else joined


def where(condition: Any, x: Any, y: Any) -> Any:
    return _function("where", condition, x, y)(condition, x, y)


def broadcast_to(array: Any, shape: Any) -> Any:
    return _function("broadcast_to", array)(array, shape)


def full_like(array: Any, value: Any) -> Any:
    return _function("full_like", array)(array, value)


def apply(function: Any, signature: str, width: int, *arrays: Any) -> Any:
    """Apply a function of arrays in memory, a generalised ufunc, to these or to Dask arrays.

    The result has `width` numbers of float64 along its last axis, the ``w`` of the signature.
    """
    if not any(map(is_lazy, arrays)):
        return function(*arrays)
    return _function("apply_gufunc", *filter(is_lazy, arrays))(
        function,
        signature,
        *arrays,
        output_sizes={"w": width},
        output_dtypes=[np.float64],
        allow_rechunk=True,
    )


def exp(array: Any) -> Any:
    return namespace_of(array, np).exp(array)


def largest(array: Any) -> Any:
    """Return the maximum along the last axis."""
    return array.amax(-1) if hasattr(array, "amax") else array.max(-1)


def flip(array: Any, axis: int) -> Any:
    return namespace_of(array, np).flip(array, (axis,))


def _function(name: str, *arrays: Any) -> Any:
    if not any(map(is_lazy, arrays)):
        return getattr(namespace_of(arrays[-1], np), name)
    return function_of_graphs(name)
