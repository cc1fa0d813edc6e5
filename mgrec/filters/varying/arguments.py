"""Validation of filters whose coefficients vary in time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...core.arrays.array_types import cast, in_one_memory, is_lazy
from ...core.arrays.chunk import move_axis
from ...core.arrays.elements import merge_numbers
from ...core.arrays.resets import as_reset
from ...core.arrays.validation import as_any_array, as_axis, broadcasts_to, check_dtype, check_out, is_one_of
from ...core.contract.problem import Composed, Problem
from ...scans.matrix.arguments import along_rows, is_in_gpu_memory
from ..arguments import as_signal, as_states, result_dtype
from .recurrence import VaryingFilter

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
FORMS = ("transposed", "direct")
LARGEST_ORDER = 64


def varies(b: Any, a: Any) -> bool:
    """Return whether coefficients have an axis of steps."""
    return any(
        as_any_array(name, coefficients).ndim > 1
        if isinstance(coefficients, (list, tuple))
        else np.ndim(coefficients) > 1
        for name, coefficients in (("b", b), ("a", a))
    )


def check_form(form: Any) -> None:
    """Raise ValueError unless a form is one of FORMS."""
    if not is_one_of(form, FORMS):
        raise ValueError(f"form must be 'transposed' or 'direct'; got {form!r}")


def check_varying(
    b: Any, a: Any, x: Any, axis: Any, zi: Any, form: Any, reset: Any, out: Any, reverse: bool
) -> Problem | Composed:
    """Return the problem of ``lfilter`` with coefficients that vary, validated."""
    check_form(form)
    x = as_signal(x)
    axis = as_axis(axis, x.shape)
    b, a = (_as_coefficients(name, c, x, axis) for name, c in (("b", b), ("a", a)))
    order = max(b.shape[-1], a.shape[-1]) - 1
    if not 1 <= order <= LARGEST_ORDER:
        raise ValueError(
            f"the order of coefficients that vary must be from 1 to {LARGEST_ORDER}; got {order}"
        )
    data = [("x", x)]
    b, a = in_one_memory(data, [("b", b), ("a", a)])
    if zi is not None:
        zi = as_states(zi, x, (*x.shape[:axis], order, *x.shape[axis + 1 :]), fixed=(axis,))
    dtype = result_dtype(b, a, x, zi)
    if x.dtype.char in "?e":
        x = cast(x, _FLOAT32)
    b, a = (cast(c, _FLOAT64) if c.dtype.char not in "fdFD" else c for c in (b, a))
    marks = None if reset is None else as_reset(reset, x.shape, axis, reverse, data)
    results = () if any(map(is_lazy, (x, b, a))) else check_out(out, x.shape, dtype, [x, b, a])
    counts = b.shape[-1], a.shape[-1]
    state_dtype = np.result_type(dtype, _FLOAT64)
    states = None if zi is None else cast(move_axis(zi, axis, -1), state_dtype)
    arrays = [x[..., None], merge_numbers(b, 1), merge_numbers(a, 1)]
    if marks is not None:
        rows = np.zeros(order, state_dtype) if states is None else states
        arrays += [marks[..., None], along_rows(rows, x.shape, axis)]
    recurrence = VaryingFilter.over(
        arrays,
        x.shape,
        dtype,
        axis=axis,
        reverse=reverse,
        state_dtype=state_dtype,
        state_shape=(order,),
        states=order,
        returns_final_state=zi is not None,
        counts=counts,
        form=form,
        numbers=1,
        state_numbers=order * (1 + (dtype.kind == "c")),
    )
    if is_in_gpu_memory([x, b, a]):
        from .cuda import solve_on_gpu

        return Composed("lfilter", lambda: solve_on_gpu(recurrence, b, a, x, states, marks, results))
    initial = () if states is None else (move_axis(states, -1, 0)[..., None],)
    out = results[0][..., None] if results else out
    return Problem(recurrence, tuple(arrays), initial, (*x.shape, 1), out=out)


def without_numbers(problem: Problem, out: Any) -> Problem:
    """Return the problem, whose results lose their last axis."""
    to_return_value = problem.to_return_value

    def squeezed(results: Any, final_state: Any) -> Any:
        y = results[0][..., 0] if out is None else out
        return to_return_value((y,), None if final_state is None else final_state[..., 0])

    return replace(problem, to_return_value=squeezed)


def along_axes(coefficients: Any, ndim: int, axis: int) -> Any:
    """Return coefficients with the axes of x, of which there are `ndim`, before the last one."""
    if coefficients.ndim < 2:
        return coefficients.reshape((1,) * ndim + (-1,))
    if coefficients.ndim > 2 or ndim == 1:
        return coefficients
    index: list[Any] = [None] * ndim
    index[axis] = slice(None)
    return coefficients[tuple(index)]


def _as_coefficients(name: str, values: Any, x: Any, axis: int) -> Any:
    """Return coefficients as an array with the axes of x, or with no axis but the last."""
    array = as_any_array(name, values)
    check_dtype(name, array, values, "?")
    array = along_axes(array, x.ndim, axis)
    if array.ndim != x.ndim + 1 or not broadcasts_to(array.shape[:-1], x.shape):
        raise ValueError(
            f"{name} must have shape (order + 1,), ({x.shape[axis]}, order + 1), with the steps "
            f"along axis {axis} of x, or leading axes that broadcast to {x.shape}; got "
            f"{np.shape(values)}"
        )
    return array
