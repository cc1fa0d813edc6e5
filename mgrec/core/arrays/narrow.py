"""Dtypes of two bytes: arrays are stored in float16 or bfloat16, and computed in float32.

bfloat16 is the dtype of ``ml_dtypes``, which need not be installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

WIDE = np.dtype(np.float32)


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is that of bfloat16."""
    char: str = dtype.char
    return char == "E" and dtype.itemsize == 2


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Return whether numbers of a dtype are computed in float32.

    Examples
    --------
    >>> is_narrow(np.dtype("float16")), is_narrow(np.dtype("float32"))
    (True, False)
    """
    return dtype.char == "e" or is_bfloat16(dtype)


def computed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the computation for results of a dtype."""
    return WIDE if is_narrow(dtype) else dtype


def result_type(values: Sequence[Any]) -> np.dtype[Any]:
    """Return the dtype that NumPy promotes dtypes, and numbers of Python, to.

    Integers and numbers do not promote bfloat16, as in torch and jax; NumPy has no rule for them.
    """
    if not any(isinstance(value, np.dtype) and is_bfloat16(value) for value in values):
        return np.result_type(*values)
    others = [value for value in values if not _is_weak(value)]
    return np.result_type(WIDE, *others) if others else bfloat16()


def _is_weak(value: Any) -> bool:
    if isinstance(value, np.dtype):
        return value.kind in "biu" or is_bfloat16(value)
    return isinstance(value, (int, float))


@cache
def has_bfloat16() -> bool:
    """Return whether ``ml_dtypes`` is installed."""
    return importlib.util.find_spec("ml_dtypes") is not None


def bfloat16() -> np.dtype[Any]:
    """Return the dtype of bfloat16; needs ``ml_dtypes``."""
    from ml_dtypes import bfloat16  # type: ignore[import-not-found, unused-ignore]

    return np.dtype(bfloat16)
