"""Adjoint of linear recurrences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.algebra.transfer_map import TransferMap, affine
from ..core.arrays.array_types import computed_dtype, is_lazy, is_narrow
from ..core.arrays.chunk import Chunk, canonical_shape, shape_of
from ..core.arrays.interop import library_of
from ..core.arrays.validation import as_axis
from ..core.backends import Backend, backend_of
from ..core.contract.kernels import CacheMiss
from ..core.contract.scan import LARGE_ON_GPU
from ..distributed.groups.ends import gradient_call
from ..solve.adjoint import Steps, adjoint_function, along, conj, shifted, times_shifted, widened, with_axis
from ..solve.prepared import CacheEntry, PreparedSequence, cache_entry, prepare_sequence
from ..solve.rules import broadcast_shapes, common_dtype, rule_of_adjoint
from . import functions
from .kernels import kernels_of


@partial(adjoint_function, function="mgrec.linear_recurrence", result="w", arrays=("s", "t", "initial"))
def linear_recurrence(
    grad: Any,
    w: Any,
    s: Any,
    t: Any,
    initial: Any = None,
    *,
    axis: int = -1,
    reverse: bool = False,
    reset: Any = None,
    of: Collection[str] | None = None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of ``w = mgrec.linear_recurrence(s, t, initial)``.

    The adjoint of the recurrence w_i = s_i·w_{i-1} + t_i is the recurrence in the other direction,

        λ_i = g_i + conj(s_{i+1})·λ_{i+1}

    where g is the gradient of w. The gradients of t_i, s_i and the initial state are λ_i,
    λ_i·conj(w_{i-1}) and conj(s_1)·λ_1. With `reset`, λ is reset to 0 before each marked step,
    whose gradients are those of a first step.

    Notes
    -----
    Of `t` only the shape and the dtype are used. A :class:`mgrec.Coefficient` has no gradient.

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
    steps = Steps.of(w, axis, reverse, reset)
    axis, axis_of_s, adjoint, before = steps.axis, along(s, w.ndim, steps.axis), None, None
    if axis_of_s is not None and steps.marks is None and _is_uncopied(s, grad):
        if gradient_call() is None:
            adjoint = _solve_uncopied(s, grad, axis, steps.forward == 1)
        else:
            adjoint, before = _solve_linked(s, grad, w, axis, steps.forward == 1)
    if adjoint is None:
        grad, w, s, initial = map(widened, (grad, w, s, initial))
        later = conj(s) if axis_of_s is None else shifted(conj(s), axis_of_s, steps.forward)
        adjoint = functions.linear_recurrence(later, grad, **steps.backward)

    def of_s() -> Any:
        if steps.marks is not None:
            return adjoint * conj(steps.before(w, initial))
        first = None if initial is None else with_axis(initial, w, axis)
        return times_shifted(adjoint, w, axis, -steps.forward, first, before)

    def of_initial() -> Any:
        first = conj(s) if axis_of_s is None else steps.first(conj(s), axis_of_s)
        return steps.sum_at_starts(first * steps.first(adjoint))

    return of_s, adjoint, of_initial


def _lift(s: Any, t: Any) -> tuple[Any, Any]:
    return s, t


def _compose(earlier: Any, later: Any) -> tuple[Any, Any]:
    s, t = later
    return s * earlier[0], np.where(earlier[1] == 0, t, s * earlier[1] + t)


def _apply(step: Any, w: Any) -> Any:
    s, t = step
    return np.where(w == 0, t, s * w + t)


_FORGETFUL = TransferMap(
    _lift, _compose, _apply, (1, 0), "adjoint", check_laws=False, capabilities=affine.capabilities
)
"""The map w = s·w + t that does not read s if w is 0. So a row may begin with the coefficient of
another row, even if that is nan or inf."""


def _is_uncopied(s: Any, grad: Any) -> bool:
    """Return whether `_solve_uncopied` can be called: real CuPy arrays in C order.

    Sums of narrow rows over axes are computed in float32, after a cast.
    """
    if library_of(grad) or is_lazy(grad) or is_lazy(s) or backend_of(grad).is_host:
        return False
    is_real = grad.dtype.char in "fd" or is_narrow(grad.dtype)
    has_same_form = shape_of(s) == grad.shape and s.dtype == grad.dtype and is_real
    return has_same_form and grad.size > 0 and s.flags.c_contiguous and grad.flags.c_contiguous


def _solve_uncopied(s: Any, grad: Any, axis: int, is_forward: bool) -> Any:
    """Return the adjoint without a shifted copy of s, which would take as long as the recurrence.

    The coefficients of all rows but one are s, shifted by one step in memory. The first one that a
    row then reads is that of another row, and multiplies a state of 0.
    """
    shape, layout = grad.shape, canonical_shape(grad.shape, axis)
    outer, steps, inner = layout
    s, grad, adjoint = (array.reshape(layout) for array in (s, grad, np.empty_like(grad)))
    size = (outer - 1) * steps * inner
    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    if outer > 1:
        start = inner if is_forward else (steps - 1) * inner
        later = s.reshape(-1)[start : start + size].reshape(outer - 1, steps, inner)
        rows = slice(None, -1) if is_forward else slice(1, None)
        options = {"initial": 0.0, "axis": 1, "reverse": is_forward, "out": adjoint[rows]}
        calls.append((functions.scan, (_FORGETFUL, later, grad[rows]), options))
    row, end = (-1, -1) if is_forward else (0, 0)
    kept, later_steps = slice(None, -1), slice(1, None)
    if not is_forward:
        kept, later_steps = later_steps, kept
    adjoint[row, end] = grad[row, end]
    if steps > 1:
        operands = s[row, later_steps], grad[row, kept], grad[row, end]
        options = {"axis": 0, "reverse": is_forward, "out": adjoint[row, kept]}
        calls.append((functions.linear_recurrence, operands, options))
    for function, operands, options in calls:
        function(*operands, **options)
    key = _solve_uncopied, layout, s.dtype, backend_of(s).device_number(s), is_forward
    cached: CacheEntry[PreparedSequence] = cache_entry(key)
    if cached.prepared is None and _are_aligned(map(backend_of(s).address, (s, grad, adjoint))):
        parts = [(call[0].rule.read(*call[1:]), call[2]["out"]) for call in calls]
        cached.prepared = prepare_sequence(parts, (s, grad, adjoint))
    return adjoint.reshape(shape)


def _solve_linked(s: Any, grad: Any, w: Any, axis: int, is_forward: bool) -> tuple[Any, Any]:
    """Return this rank's part of the adjoint without a shifted copy of s, and the states before it.

    Both are None if the call needs other messages. The last step of a part needs the first
    coefficient of the next rank, a link, and the first step the last states of the rank before. The
    kernels send them with the summary of the other steps: no message follows.
    """
    call, backend, shape, dtype = gradient_call(), backend_of(s), grad.shape, grad.dtype
    layout = outer, steps, inner = canonical_shape(shape, axis)
    prepare = kernels_of(backend).prepare_linked
    is_uncopied = w.dtype == dtype and w.flags.c_contiguous and backend_of(w) is backend
    if call is None or not call.may_guess or prepare is None or not is_uncopied:
        return None, None
    if outer > 1 or steps < 2:
        return None, None
    s, grad, w, adjoint = (x.reshape(layout) for x in (s, grad, w, np.empty_like(grad)))
    kept, later, first, last = slice(None, -1), slice(1, None), 0, -1
    if not is_forward:
        kept, later, first, last = later, kept, last, first
    before = np.empty_like(w[:, last])
    edges = s[:, first], w[:, last], adjoint[:, last], before
    arrays, result = (s[:, later], grad[:, kept], grad[:, last], *edges), adjoint[:, kept]
    addresses = [*map(backend.address, arrays)]
    alignment = tuple([address % 16 for address in (*addresses, backend.address(result))])
    key = _solve_linked, layout, dtype, is_forward, alignment, backend.device_number(s)
    solve = call.group.prepared.get(key)
    if solve is None:
        chunk = Chunk(arrays[:2], (1, steps - 1, inner), computed_dtype(dtype), is_forward)
        is_large = 2 * chunk.shape[1] * inner * chunk.dtype.itemsize >= LARGE_ON_GPU
        solve = call.group.prepared[key] = prepare(chunk, arrays[2], result, is_large)
    if solve.message_bytes > call.group.frame:
        return None, None
    options = call.function, "adjoint", inner, dtype.name, is_forward
    try:
        call.solve_on_device(solve, options, addresses, [backend.address(result)], is_last=True)
    except CacheMiss:
        return None, None
    return adjoint.reshape(shape), before.reshape(*shape[:axis], 1, *shape[axis + 1 :])


def _are_aligned(addresses: Iterable[int]) -> bool:
    return not any(address % 16 for address in addresses)


def _differentiate_at(
    backend: Backend,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    device: int,
    addresses: Sequence[int],
    results: Sequence[int],
    options: dict[str, Any],
) -> bool:
    """Write the gradients of contiguous arrays of one shape; return False if no call is prepared."""
    if len(addresses) != 3 or not _are_aligned((*addresses, *results)):
        return False
    (grad, w, s), (of_s, adjoint, *_) = addresses, results
    layout, reverse = canonical_shape(shape, as_axis(options["axis"], shape)), options["reverse"]
    prepared = cache_entry((_solve_uncopied, layout, dtype, device, not reverse)).prepared
    multiply = kernels_of(backend).multiply_by_states
    if prepared is None or multiply is None:
        return False
    prepared.solve_at((s, grad, adjoint))
    multiply(layout, dtype, device, reverse, grad, adjoint, w, of_s)
    return True


def _outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    s, t, initial = arguments["s"], arguments["t"], arguments["initial"]
    return [(broadcast_shapes(s.shape, t.shape), common_dtype(s, t, initial))]


RULES = [
    rule_of_adjoint(
        linear_recurrence,
        functions.linear_recurrence,
        {"axis": ("int", -1), "reverse": ("bool", False)},
        _outlines,
        unread=("t",),
        takes_bfloat16=True,
        differentiate_at=_differentiate_at,
    )
]
