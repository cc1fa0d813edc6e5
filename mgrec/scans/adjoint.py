"""Adjoint of linear recurrences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.algebra.coefficient import Coefficient
from ..core.arrays.chunk import shape_of
from ..core.arrays.interop import library_of
from ..core.arrays.validation import as_axis, as_flag
from ..core.backends import backend_of
from ..solve.adjoint import (
    adjoint_function,
    along,
    as_operand,
    conj,
    part,
    selected,
    shifted,
    sum_to,
    times_shifted,
)
from ..solve.rules import Rule, broadcast_shapes, common_dtype
from . import functions


@adjoint_function
def linear_recurrence(
    grad: Any,
    w: Any,
    s: Any,
    t: Any,
    initial: Any = None,
    *,
    axis: int = -1,
    reverse: bool = False,
    of: Sequence[str] | None = None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of ``w = mgrec.linear_recurrence(s, t, initial)``.

    The adjoint of the recurrence w_i = s_i·w_{i-1} + t_i is the recurrence in the other direction,

        λ_i = g_i + conj(s_{i+1})·λ_{i+1}

    where g is the gradient of w. The gradients of t_i, s_i and the initial state are λ_i,
    λ_i·conj(w_{i-1}) and conj(s_1)·λ_1.

    Parameters
    ----------
    grad : array
        Gradient of w, of its shape.
    w : array
        Result of the recurrence.
    s, t, initial, axis, reverse
        Arguments of :func:`mgrec.linear_recurrence`. Of `t` only the shape and the dtype are used.
    of : sequence of {"s", "t", "initial"}, optional
        Arguments whose gradients are computed. The default is all that are given.

    Returns
    -------
    grad_s, grad_t, grad_initial : array
        Gradients, of the shapes and dtypes of the arguments: summed over axes that were broadcast.
        The gradient of integers or of a number has the dtype of λ. None for an argument that is not
        given, or not in `of`.

    Raises
    ------
    TypeError
        If `s` or `t` is a :class:`mgrec.Coefficient`, or as for :func:`mgrec.linear_recurrence`.
    ValueError
        If shapes do not match, or `of` has another name.

    Notes
    -----
    The gradient of a complex number x + i·y is that of torch, ∂L/∂x + i·∂L/∂y; jax has its
    conjugate.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> s, t = np.array([0.5, 0.5, 2.0]), np.ones(3)
    >>> w = mgrec.linear_recurrence(s, t)
    >>> grad_s, grad_t, _ = mgrec.adjoint.linear_recurrence(np.ones(3), w, s, t)
    >>> grad_t
    array([2.5, 3. , 1. ])
    >>> grad_s
    array([0. , 3. , 1.5])
    """
    if isinstance(s, Coefficient) or isinstance(t, Coefficient):
        raise TypeError("s and t must be arrays or numbers; got a Coefficient, without gradients")
    s, t, initial = as_operand("s", s), as_operand("t", t), as_operand("initial", initial)
    names = selected(of, {"s": s, "t": t, "initial": initial})
    axis, forward = as_axis(axis, w.shape), 1 if not as_flag("reverse", reverse) else -1
    axis_of_s = along(s, w.ndim, axis)
    following = conj(s) if axis_of_s is None else shifted(conj(s), axis_of_s, forward)
    adjoint = functions.linear_recurrence(following, grad, axis=axis, reverse=forward == 1)
    first = (0, 1) if forward == 1 else (-1, None)
    grad_s = grad_initial = None
    if "s" in names:
        edge = None if initial is None else _with_axis(initial, w, axis)
        grad_s = sum_to(times_shifted(adjoint, w, axis, -forward, edge), s)
    if "initial" in names:
        first_s = conj(s) if axis_of_s is None else part(conj(s), axis_of_s, *first)
        row = (first_s * part(adjoint, axis, *first))[(slice(None),) * axis + (0,)]
        grad_initial = sum_to(row, initial)
    return grad_s, sum_to(adjoint, t) if "t" in names else None, grad_initial


def _with_axis(initial: Any, w: Any, axis: int) -> Any:
    """Return states before the first step with an axis of length 1, where w has its `axis`."""
    shape = shape_of(initial)
    if not shape:
        return initial
    full_shape = (1,) * (w.ndim - 1 - len(shape)) + shape
    rows = initial.reshape((*full_shape[:axis], 1, *full_shape[axis:]))
    return rows if library_of(w) else backend_of(w).from_host(rows, w)


def _outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    s, t, initial = arguments["s"], arguments["t"], arguments["initial"]
    return [(broadcast_shapes(s.shape, t.shape), common_dtype(s, t, initial))]


def _compose(grad: Any, grad_zf: Any, w: Any, arguments: dict[str, Any], of: Sequence[str]) -> Any:
    return linear_recurrence.compose(grad, w, **arguments, of=of)  # type: ignore[attr-defined]


RULES = [
    Rule(
        functions.linear_recurrence,
        _compose,
        ("s", "t", "initial?"),
        {"axis": ("int", -1), "reverse": ("bool", False)},
        _outlines,
        unread=("t",),
    )
]
