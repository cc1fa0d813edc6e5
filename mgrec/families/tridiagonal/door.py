"""The door of tridiagonal systems: three diagonals and right-hand sides, checked once."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np

from ...arrays.arguments import as_axis
from ...arrays.door import as_array, as_scalar, broadcast
from ...arrays.kinds import check_together
from ..problem import Problem, varying
from .recurrence import TridiagonalSystem
from .whole import check_whole

_COMPUTED = "fdFD"


def check_system(
    dl: Any, d: Any, du: Any, b: Any, axis: Any, memory: str, method: str, out: Any
) -> Problem:
    """Arguments of ``solve_tridiagonal``."""
    named = {"dl": dl, "d": d, "du": du, "b": b}
    checked = {name: as_array(name, value) for name, value in named.items()}
    check_together(list(checked.items()), [])
    dtype = np.result_type(*(getattr(value, "dtype", value) for value in checked.values()))
    if dtype.kind in "iu":
        dtype = np.dtype(np.float64)
    if dtype.char not in _COMPUTED:
        raise TypeError(f"dl, d, du and b must be of 32 bits a component or more; got {dtype}")
    shape = broadcast(checked)
    axis = as_axis(axis, shape)
    check_whole(method, checked, axis, len(shape))
    operands = tuple(
        value.astype(dtype, copy=False)
        if hasattr(value, "dtype")
        else as_scalar(name, value, dtype)
        for name, value in checked.items()
    )
    system = TridiagonalSystem(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple(varying(operand.shape, shape) for operand in operands),
        block_dtypes=(dtype,) * len(operands),
        method=method,
        axis=axis,
        state_dtype=dtype,
        states=4,
        length=-1 if isnan(shape[axis]) else int(shape[axis]),
    )
    return Problem(system, operands, (), shape, memory, out)
