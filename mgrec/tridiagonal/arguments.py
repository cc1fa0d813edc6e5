"""Validation of the arguments of tridiagonal systems: three diagonals and right-hand sides."""

from __future__ import annotations

from functools import lru_cache
from math import isnan
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast, check_same_device
from ..core.arrays.chunk import shape_of
from ..core.arrays.validation import (
    as_array,
    as_axis,
    as_flag,
    as_integer,
    as_scalar,
    broadcast_shape,
    is_one_of,
)
from ..core.contract.problem import Problem, varying
from .recurrence import TridiagonalSystem

_COMPUTED = "fdFD"


def check_system(
    dl: Any,
    d: Any,
    du: Any,
    b: Any,
    axis: Any,
    rhs_axis: Any,
    memory: str,
    method: str,
    periodic: Any,
    check_finite: Any,
    out: Any,
) -> Problem:
    """Return the problem of the arguments of ``solve_tridiagonal``; raise if one is invalid."""
    arguments = {"dl": dl, "d": d, "du": du, "b": b}
    operands = {name: as_array(name, value) for name, value in arguments.items()}
    check_same_device(list(operands.items()), [])
    dtype = _common_dtype(operands)
    if rhs_axis is not None:
        operands, rhs_axis = insert_rhs_axis(operands, axis, rhs_axis)
    shape = _broadcast_shape(operands, arguments)
    build = _system if isinstance(method, str) else _system.__wrapped__
    system = build(
        dtype,
        shape,
        tuple([shape_of(value) for value in operands.values()]),
        as_axis(axis, shape),
        None if rhs_axis is None else rhs_axis % len(shape),
        method,
        as_flag("check_finite", check_finite),
        _as_periodic(periodic, method),
    )
    promoted = tuple([_promote(name, value, dtype) for name, value in operands.items()])
    return Problem(system, promoted, (), shape, memory, out)


@lru_cache(maxsize=256)
def _system(
    dtype: np.dtype[Any], shape: tuple[Any, ...], shapes: tuple[tuple[Any, ...], ...], axis: int,
    rhs_axis: int | None, method: str, check_finite: bool, is_periodic: bool,
) -> TridiagonalSystem:  # fmt: skip
    return TridiagonalSystem(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple(varying(operand_shape, shape) for operand_shape in shapes),
        block_dtypes=(dtype,) * len(shapes),
        method=method,
        axis=axis,
        state_dtype=dtype,
        states=4,
        length=-1 if isnan(shape[axis]) else int(shape[axis]),
        rhs_axis=rhs_axis,
        check_finite=check_finite,
        is_periodic=is_periodic,
    )


def _as_periodic(periodic: Any, method: str) -> bool:
    is_periodic = as_flag("periodic", periodic)
    unsupported = set(TridiagonalSystem.methods) - set(TridiagonalSystem.pivoting_methods)
    if is_periodic and is_one_of(method, unsupported):
        raise ValueError(
            f"method must be 'auto' or 'partition' for periodic systems; got {method!r}"
        )
    return is_periodic


def _common_dtype(operands: dict[str, Any]) -> np.dtype[Any]:
    dtypes = [getattr(value, "dtype", value) for value in operands.values()]
    is_one = isinstance(dtypes[0], np.dtype) and dtypes.count(dtypes[0]) == len(dtypes)
    dtype = dtypes[0] if is_one else np.result_type(*dtypes)
    if dtype.kind in "iu":
        return np.dtype(np.float64)
    if dtype.char not in _COMPUTED:
        raise TypeError(f"dl, d, du and b must be of 32 bits a component or more; got {dtype}")
    return dtype


def _broadcast_shape(operands: dict[str, Any], arguments: dict[str, Any]) -> tuple[Any, ...]:
    """Return the shape of the result; an error lists the shapes of the caller's arguments."""
    try:
        return broadcast_shape(operands)
    except ValueError as error:
        shapes = {name: shape_of(value) for name, value in arguments.items()}
        if not any(shapes.values()):
            raise
        got = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
        raise ValueError(
            f"shapes of dl, d, du and b must broadcast, those of the diagonals without the "
            f"rhs_axis of b if it is given; got {got}. Give rhs_axis where b has an axis of "
            f"right-hand sides that the diagonals do not have. Where dl and du have one entry less "
            f"than there are unknowns, put a 0 before dl and one after du"
        ) from error


def _promote(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    if hasattr(value, "dtype"):
        return cast(value, dtype)
    return as_scalar(name, value, dtype)


def insert_rhs_axis(
    operands: dict[str, Any], axis: Any, rhs_axis: Any
) -> tuple[dict[str, Any], int]:
    """Insert an axis of length 1 into the diagonals where b has its right-hand sides.

    `axis` and `rhs_axis` are axes of the result. The returned `rhs_axis` counts from the end.
    """
    *diagonals, b = operands.values()
    ndims = [len(shape_of(operand)) for operand in (*diagonals, b)]
    ndim = max(ndims[3], 1 + max(ndims[:3]))
    number = as_integer("rhs_axis", rhs_axis)
    if not -ndim <= number < ndim:
        raise ValueError(f"rhs_axis must be from {-ndim} to {ndim - 1}, an axis of b; got {number}")
    if number % ndim == as_integer("axis", axis) % ndim:
        raise ValueError(
            f"rhs_axis must be another axis than axis={axis}, that of the unknowns; got {number}"
        )
    axes_after = ndim - 1 - number % ndim
    if ndims[3] <= axes_after:
        raise ValueError(
            f"b must have the axis rhs_axis={rhs_axis} of {ndim} axes, one more than the "
            f"diagonals; got shape {shape_of(b)}"
        )
    names = list(operands)[:-1]
    widened = {name: insert_axis(operands[name], axes_after) for name in names}
    return {**widened, "b": b}, -axes_after - 1


def insert_axis(array: Any, axes_after: int) -> Any:
    """Return an array with an axis of length 1 before its last `axes_after` axes."""
    axes_before = len(shape_of(array)) - axes_after
    if axes_before <= 0:
        return array
    return array[(slice(None),) * axes_before + (None,)]
