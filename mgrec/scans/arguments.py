"""Argument validation of transfer maps: check and promote operands and states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.algebra.coefficient import Coefficient
from ..core.algebra.transfer_map import TransferMap, affine, segmented, signed_affine
from ..core.arrays.array_types import cast, computed_dtype, in_one_memory, is_lazy, is_narrow, result_type
from ..core.arrays.resets import as_reset
from ..core.arrays.validation import (
    arrays_of,
    as_array,
    as_axis,
    as_flag,
    as_plain_array,
    as_scalar,
    as_state,
    broadcast_shape,
)
from ..core.backends import backend_of, common_backend
from ..core.contract.problem import Problem
from .recurrence import TransferRecurrence


def check(
    transfer_map: TransferMap,
    operands: dict[str, Any],
    initial: Any,
    axis: int,
    reverse: bool,
    kinds: str = "iufc",
    *,
    memory: str = "stream",
    method: str = "auto",
    out: Any = None,
    reset: Any = None,
) -> Problem:
    """Return the validated problem of the arguments of :func:`mgrec.linear_recurrence`.

    Error messages use the names of the operands. `kinds` are the kinds of dtype to compute in;
    integers become floats unless "i" is one of them.
    """
    checked, states = _checked(operands, initial)
    shape = broadcast_shape(checked)
    axis = as_axis(axis, shape)
    result_dtype = _result_dtype(checked, states, kinds)
    dtype = computed_dtype(result_dtype)
    is_cast = transfer_map.capabilities.casts_operands
    uncast = set()
    if dtype != result_dtype and is_cast and reset is None and method == "auto":
        uncast = _uncast(checked, states, shape, result_dtype)
    promoted = [
        value if name in uncast else _promoted(name, value, dtype, is_cast) for name, value in checked.items()
    ]
    initial_states = tuple(
        [
            as_state(state, result_dtype if uncast and _is_array(state) else dtype, shape, axis)
            for state in states
        ]
    )
    reverse = as_flag("reverse", reverse)
    checks_laws = transfer_map.check_laws
    if reset is not None:
        backend = common_backend([*arrays_of(promoted), *initial_states])
        if transfer_map is affine and not backend.repairs_segments and dtype.kind == "f":
            transfer_map = signed_affine  # kernels of segments cannot redo rows
        transfer_map = segmented(transfer_map, len(states), len(operands))
        marks = as_reset(reset, shape, axis, reverse, _named(checked))
        states_after = [_along_rows(state, shape, axis, marks) for state in initial_states]
        promoted = [marks, *states_after, *promoted]
    slots, arrays = _slots(promoted)
    recurrence = TransferRecurrence.over(
        arrays,
        shape,
        dtype,
        result_dtype=result_dtype,
        method=method,
        axis=axis,
        reverse=reverse,
        state_dtype=dtype,
        states=len(states),
        transfer_map=transfer_map,
        operands=slots,
        checks_laws=checks_laws,
    )
    is_several = isinstance(initial, tuple)
    return Problem(recurrence, arrays, initial_states, shape, memory, out, is_several)


def _checked(operands: dict[str, Any], initial: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return operands and states as arrays and numbers, or raise if they cannot be combined."""
    checked = {name: _operand(name, value) for name, value in operands.items()}
    states = initial if isinstance(initial, tuple) else (initial,)
    if isinstance(initial, tuple) and len(initial) < 2:
        raise ValueError("initial must be a scalar where the state is one; got a tuple of 1")
    states = tuple([as_array("initial", state, takes_bfloat16=True) for state in states])
    in_one_memory(_named(checked), states=[("initial", state) for state in states])
    return checked, states


def _named(operands: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, array) for name, value in operands.items() for array in arrays_of([value])]


def _along_rows(state: Any, shape: tuple[Any, ...], axis: int, like: Any) -> Any:
    """Return a state as an operand, of length 1 along the axis."""
    if state.ndim == 0:
        return state
    full = state[(None,) * (len(shape) - 1 - state.ndim) + (...,)]
    return backend_of(like).from_host(np.expand_dims(full, axis), like)


def as_rows(initial: Any) -> Any:
    """Return `initial` of a recurrence whose state is one scalar: a tuple is an array of rows."""
    return as_plain_array("initial", initial) if isinstance(initial, tuple) else initial


def _operand(name: str, value: Any) -> Any:
    if isinstance(value, Coefficient):
        arrays = [as_array(f"array {k} of {name}", array) for k, array in enumerate(value.arrays)]
        return Coefficient.of(value.function, *arrays)
    return as_array(name, value, takes_bfloat16=True)


def _uncast(
    operands: dict[str, Any], states: Sequence[Any], shape: tuple[Any, ...], dtype: np.dtype[Any]
) -> set[str]:
    """Return the names of operands of a narrow dtype that kernels read without a cast.

    These have the shape and the dtype of the results, and so have arrays of states.
    """
    arrays = [*operands.values(), *states]
    reads_narrow = (
        common_backend(arrays).reads_narrow
        and not any(is_lazy(array) or isinstance(array, Coefficient) for array in arrays)
        and all(state.dtype == dtype for state in states if _is_array(state))
        and not any(backend_of(state).is_host for state in states if _is_array(state))
    )
    rows = {name for name, x in operands.items() if getattr(x, "shape", None) == shape}
    return {name for name in rows if operands[name].dtype == dtype} if reads_narrow else set()


def _is_array(state: Any) -> bool:
    """Return whether a state is an array, not a number in host memory."""
    return hasattr(state, "dtype") and not (backend_of(state).is_host and state.ndim == 0)


def _result_dtype(operands: dict[str, Any], states: Sequence[Any], kinds: str) -> np.dtype[Any]:
    values = [v for v in operands.values() if not isinstance(v, Coefficient)]
    promoting = [getattr(value, "dtype", value) for value in (*values, *states)]
    dtype = result_type(promoting)
    if dtype.kind in "iu" and (len(values) < len(operands) or "i" not in kinds):
        dtype = np.result_type(dtype, 1.0)
    if dtype.kind not in kinds and not is_narrow(dtype):
        raise TypeError(f"{', '.join(operands)} must be real; got {dtype}")
    return dtype


def _promoted(name: str, value: Any, dtype: np.dtype[Any], is_cast: bool) -> Any:
    if isinstance(value, Coefficient):
        arrays = [_promoted(name, array, dtype, False) for array in value.arrays]
        return Coefficient.of(value.function, *arrays)
    if type(value) in (int, float, complex):
        return as_scalar(name, value, dtype)
    if is_cast:
        return cast(value, dtype)
    return cast(value, np.dtype(np.int8) if value.dtype.kind == "b" else computed_dtype(value.dtype))


def _slots(operands: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the slots of the operands, and the arrays whose blocks fill them."""
    arrays: list[Any] = []

    def slot(array: Any) -> Any:
        if array.ndim == 0 and not is_lazy(array):
            return array.copy()
        arrays.append(array)
        return len(arrays) - 1

    slots = [
        (operand.function, tuple(map(slot, operand.arrays)))
        if isinstance(operand, Coefficient)
        else slot(operand)
        for operand in operands
    ]
    return tuple(slots), tuple(arrays)
