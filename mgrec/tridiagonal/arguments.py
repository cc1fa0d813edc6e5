"""The door of tridiagonal systems: three diagonals and right-hand sides, checked once."""

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
    as_scalar,
    broadcast_shape,
    is_one_of,
)
from ..core.contract.problem import Problem, varying
from .recurrence import TridiagonalSystem
from .sides import apart

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
    """Arguments of ``solve_tridiagonal``."""
    named = {"dl": dl, "d": d, "du": du, "b": b}
    checked = {name: as_array(name, value) for name, value in named.items()}
    check_same_device(list(checked.items()), [])
    dtype = _dtype_of(checked)
    if rhs_axis is not None:
        checked, rhs_axis = apart(checked, axis, rhs_axis)
    shape = _shape_of(checked, named)
    build = _system if isinstance(method, str) else _system.__wrapped__
    system = build(
        dtype,
        shape,
        tuple([shape_of(value) for value in checked.values()]),
        as_axis(axis, shape),
        None if rhs_axis is None else rhs_axis % len(shape),
        method,
        as_flag("check_finite", check_finite),
        _as_periodic(periodic, method),
    )
    operands = tuple([_promoted(name, value, dtype) for name, value in checked.items()])
    return Problem(system, operands, (), shape, memory, out)


@lru_cache(maxsize=256)
def _system(
    dtype: np.dtype[Any], shape: tuple[Any, ...], shapes: tuple[tuple[Any, ...], ...], axis: int,
    rhs_axis: int | None, method: str, check_finite: bool, is_periodic: bool,
) -> TridiagonalSystem:  # fmt: skip
    """The recurrence of operands of these shapes: calls of a kind share it."""
    return TridiagonalSystem(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple(varying(own, shape) for own in shapes),
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
    known = set(TridiagonalSystem.methods) - set(TridiagonalSystem.by_partitions)
    if is_periodic and is_one_of(method, known):
        raise ValueError(
            f"method must be 'auto' or 'partition' for periodic systems; got {method!r}"
        )
    return is_periodic


def _dtype_of(checked: dict[str, Any]) -> np.dtype[Any]:
    given = [getattr(value, "dtype", value) for value in checked.values()]
    is_one = isinstance(given[0], np.dtype) and given.count(given[0]) == len(given)
    dtype = given[0] if is_one else np.result_type(*given)
    if dtype.kind in "iu":
        return np.dtype(np.float64)
    if dtype.char not in _COMPUTED:
        raise TypeError(f"dl, d, du and b must be of 32 bits a component or more; got {dtype}")
    return dtype


def _shape_of(checked: dict[str, Any], named: dict[str, Any]) -> tuple[Any, ...]:
    """The broadcast shape; the message tells the shapes as they were given."""
    try:
        return broadcast_shape(checked)
    except ValueError as error:
        shapes = {name: shape_of(value) for name, value in named.items()}
        if not any(shapes.values()):
            raise
        given = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
        if _lacks_an_end(shapes):
            raise ValueError(
                f"dl and du must have as many entries as there are unknowns; got {given}. dl[0] "
                f"and du[-1] do not count: put a 0 before dl and one after du"
            ) from error
        raise ValueError(
            f"shapes of dl, d, du and b must broadcast, those of the diagonals without the "
            f"rhs_axis of b if it is given; got {given}. Give rhs_axis where b has an axis of "
            f"right-hand sides that the diagonals do not have"
        ) from error


def _lacks_an_end(shapes: dict[str, tuple[Any, ...]]) -> bool:
    """Whether `dl` or `du` has one entry less than there are unknowns, as LAPACK takes them."""
    full = shapes["d"] or shapes["b"]
    others = [shape for shape in (shapes["dl"], shapes["du"]) if len(shape) == len(full)]
    missing = [[n - k for n, k in zip(full, shape, strict=True)] for shape in others]
    return any(sorted(each) == [0] * (len(full) - 1) + [1] for each in missing)


def _promoted(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    if hasattr(value, "dtype"):
        return cast(value, dtype)
    return as_scalar(name, value, dtype)
