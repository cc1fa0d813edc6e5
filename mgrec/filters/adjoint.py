"""Adjoints of filters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.arrays.array_types import computed_dtype
from ..core.arrays.chunk import reversed_copy
from ..core.arrays.interop import library_of
from ..core.arrays.validation import as_any_array, as_axis
from ..core.backends import Backend
from ..distributed.groups.ends import backward_in_time, beyond, gradient_call, is_first_part
from ..solve.adjoint import (
    Steps,
    adjoint_function,
    check_same_shape,
    conj,
    from_host,
    inner,
    part,
    shifted,
    sum_to,
    widened,
)
from ..solve.functions import concatenate, flip, full_like, where
from ..solve.prepared import CacheEntry, PreparedCall, cache_entry
from ..solve.rules import numpy_dtype, rule_of_adjoint
from . import causal
from .arguments import as_sections, as_signal, as_states, as_transfer_function, signal_dtype
from .coefficient_adjoint import AdjointCoefficients, differentiate_coefficients, padded
from .kernels import kernels_of
from .varying.adjoint import gradients_in_time
from .varying.arguments import check_form, varies


@partial(adjoint_function, function="mgrec.signal.lfilter", result="y", arrays=("b", "a", "x", "zi"))
def lfilter(
    grad: Any,
    y: Any,
    b: Any,
    a: Any,
    x: Any,
    axis: int = -1,
    zi: Any = None,
    *,
    form: str = "transposed",
    reset: Any = None,
    grad_zf: Any = None,
    of: Collection[str] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Return the gradients of ``y = mgrec.signal.lfilter(b, a, x, zi=zi)``.

    The adjoint of a filter is the filter with conjugate coefficients, backward in time. Let g be
    the gradient of y, a_0 = 1, and

        u_n = g_n − conj(a_1)·u_{n+1} − … − conj(a_N)·u_{n+N}

    where u after the last sample is the gradient of the states `zf`, or 0. The gradients are

        x_n: Σ_k conj(b_k)·u_{n+k},    b_k: Σ_n u_n·conj(x_{n−k}),    a_k: −Σ_n u_n·conj(y_{n−k})

    and u_n for the n-th state of `zi`. For another a_0, b and a are divided by a_0 first. With
    `reset`, each segment is differentiated as a signal of its own. :ref:`guide-gradients-varying`
    has the equations of coefficients that vary. Gradients are in the memory of `x`.

    Notes
    -----
    The gradient of `x` costs one filter. Those of the coefficients and of `zi` cost a second one,
    and one sum over the signal for each coefficient. With `reset` and `grad_zf`, each filter runs
    twice.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> b, a, x = [1.0], [1.0, -0.5], np.array([1.0, 0.0, 0.0])
    >>> y = mgrec.signal.lfilter(b, a, x)
    >>> grad_b, grad_a, grad_x, _ = mgrec.adjoint.lfilter(np.ones(3), y, b, a, x)
    >>> grad_x
    array([1.75, 1.5 , 1.  ])
    >>> grad_a
    array([-2.75, -2.  ])
    """
    is_in_time = varies(b, a) or not (type(form) is str and form == "transposed")
    if gradient_call() is not None and (is_in_time or reset is not None):
        raise NotImplementedError("gradients on a group with reset, or coefficients that vary")
    if is_in_time:
        if reset is not None:
            raise NotImplementedError("gradients of coefficients that vary with reset")
        if library_of(x) is None:
            check_form(form)
            x, b, a = as_signal(x), as_any_array("b", b), as_any_array("a", a)
            check_same_shape("y", y, "x", x)
        grad, y, *operands = map(widened, (grad, y, b, a, x, zi))
        return gradients_in_time(grad, y, operands, as_axis(axis, x.shape), form, grad_zf, {*(of or ())})
    if library_of(x) is None:
        x, (b, a) = as_signal(x, takes_bfloat16=True), as_transfer_function(b, a)
    steps, coefficients = Steps.of(x, axis, False, reset), AdjointCoefficients(b, a)
    axis, order = steps.axis, coefficients.count - 1
    if library_of(x) is None:
        expected = (*x.shape[:axis], order, *x.shape[axis + 1 :])
        zi, grad_zf = _checked_states(y, x, expected, (axis,), zi, grad_zf)
    grad, y, x = map(widened, (grad, y, x))
    marks = _backward_marks(steps)
    solve = partial(_solve_backward, coefficients, _reversed(grad, axis), axis, grad_zf, marks)

    wanted, of_x, of_b, of_a = {*(of or ())}, None, None, None
    if "x" in wanted:
        of_x = _reversed(solve(coefficients.numerator), axis)
    if wanted <= {"x"}:
        return None, None, of_x, None
    # Sums read a reversed view.
    adjoint = flip(solve(coefficients.one), axis)
    if (after := _after(adjoint, axis, order, grad_zf)) is not None:
        adjoint = concatenate([adjoint, after], axis)
    if not wanted.isdisjoint(("b", "a")):
        of_b, of_a = (
            differentiate_coefficients(adjoint, (x, y), axis, coefficients)
            if steps.marks is None
            else coefficients.gradients(_sums(adjoint, (x, y), (len(b), len(a)), steps))
        )

    def of_zi() -> Any:
        of_states = _of_states(adjoint, order, steps)
        return of_states if is_first_part(1) else 0 * of_states

    return of_b, of_a, of_x, of_zi


def _solve_backward(
    coefficients: AdjointCoefficients, backward: Any, axis: int, grad_zf: Any, marks: Any, numerator: Any
) -> Any:
    """Return the filter backward in time with a numerator, in reversed order, as `marks` are.

    `backward` is the gradient of y in reversed order, and `grad_zf` that of the final states.
    """
    denominator = coefficients.denominator
    with backward_in_time():
        if grad_zf is None or coefficients.count == 1:
            return causal.lfilter(numerator, denominator, backward, axis, reset=marks)
        states = _states(numerator, denominator, grad_zf, axis)
        if marks is None:
            return causal.lfilter(numerator, denominator, backward, axis, states)[0]
        # The last segment alone follows from the gradients of the final states.
        zero = full_like(backward, 0)
        response = causal.lfilter(numerator, denominator, zero, axis, states)[0]
        is_last = (1 * marks).cumsum(axis) == 0
        filtered = causal.lfilter(numerator, denominator, backward, axis, reset=marks)
        return filtered + where(is_last, response, zero)


@partial(adjoint_function, function="mgrec.signal.sosfilt", result="y", arrays=("sos", "x", "zi"))
def sosfilt(
    grad: Any,
    y: Any,
    sos: Any,
    x: Any,
    axis: int = -1,
    zi: Any = None,
    *,
    reset: Any = None,
    grad_zf: Any = None,
    of: Collection[str] | None = None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of ``y = mgrec.signal.sosfilt(sos, x, zi=zi)``.

    The sections are differentiated from the last to the first, each as by :func:`lfilter`. The
    gradient of a_0 of each section, which must be 1, is 0.

    Notes
    -----
    The gradient of `x` alone costs one pass over all sections. Other gradients compute the outputs
    of all sections again, and keep them.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> sos, x = np.array([[1, 0, 0, 1, -0.5, 0]]), np.array([1.0, 0.0, 0.0])
    >>> y = mgrec.signal.sosfilt(sos, x)
    >>> grad_sos, grad_x, _ = mgrec.adjoint.sosfilt(np.ones(3), y, sos, x)
    >>> grad_sos
    array([[ 1.75,  1.5 ,  1.  ,  0.  , -2.  , -1.  ]])
    """
    if library_of(x) is None:
        x, sos = as_signal(x, takes_bfloat16=True), as_sections(sos)
    wanted, axis = {*(of or ())}, as_axis(axis, x.shape)
    if library_of(x) is None:
        expected = (len(sos), *x.shape[:axis], 2, *x.shape[axis + 1 :])
        zi, grad_zf = _checked_states(y, x, expected, range(len(expected)), zi, grad_zf)
    grad, y, x, zi = map(widened, (grad, y, x, zi))
    if wanted <= {"x"} and grad_zf is None:
        marks = _backward_marks(Steps.of(x, axis, False, reset))
        with backward_in_time():
            backward = causal.sosfilt(flip(conj(sos), 0), _reversed(grad, axis), axis, reset=marks)
        return None, _reversed(backward, axis), None
    sections = [(section[:3], section[3:]) for section in sos]
    states = [None] * len(sections) if zi is None else list(zi)
    signals = [x]
    for (b, a), state in zip(sections[:-1], states[:-1], strict=True):
        output = causal.lfilter(b, a, signals[-1], axis, state, reset=reset)
        signals.append(output if state is None else output[0])
    signals.append(y)
    of_sections, of_states = [], []
    for k in reversed(range(len(sections))):
        grad_b, grad_a, grad, grad_state = lfilter.compose(  # type: ignore[attr-defined]
            grad,
            signals[k + 1],
            *sections[k],
            signals[k],
            axis,
            states[k],
            reset=reset,
            grad_zf=None if grad_zf is None else grad_zf[k],
            of=("b", "a", "x", "zi") if "sos" in wanted else ("x", "zi"),
        )
        if "sos" in wanted:
            of_first = full_like(grad_a[:1], 0)
            of_sections.append(concatenate([grad_b, of_first, grad_a[1:]], 0)[None])
        if "zi" in wanted:
            of_states.append(grad_state[None])
    return lambda: concatenate(of_sections[::-1], 0), grad, lambda: concatenate(of_states[::-1], 0)


def _checked_states(
    y: Any, x: Any, expected: tuple[Any, ...], fixed: Sequence[int], zi: Any, grad_zf: Any
) -> tuple[Any, Any]:
    """Return `zi` and `grad_zf`; raise unless they have the states' shape, and y that of x."""
    check_same_shape("y", y, "x", x)
    states = ("zi", zi), ("grad_zf", grad_zf)
    before, after = (
        None if array is None else as_states(array, x, expected, fixed, name) for name, array in states
    )
    return before, after


def _after(adjoint: Any, axis: int, count: int, grad_zf: Any) -> Any:
    """Return the elements of the adjoint that follow the part of this rank, or None."""
    if gradient_call() is None:
        return grad_zf
    following = beyond(adjoint, axis, 1, count)
    if grad_zf is not None:
        following = concatenate([following, grad_zf], axis)
    return part(following, axis, 0, count)


def _reversed(array: Any, axis: int) -> Any:
    """Return a reversed array: a contiguous copy, for which calls are prepared, if it is native."""
    return flip(array, axis) if library_of(array) else reversed_copy(array, axis)


def _backward_marks(steps: Steps) -> Any:
    """Return the marks of the filter backward in time, in reversed order; None without marks."""
    marks = steps.backward["reset"]
    return None if marks is None else flip(marks, steps.axis)


def _lagged(array: Any, count: int, steps: Steps) -> Iterator[Any]:
    """Yield the elements k steps after each step for k below a count, 0 after a mark."""
    axis, length, later, is_other = steps.axis, steps.marks.shape[steps.axis], None, None
    for k in range(count):
        if k:
            array = shifted(array, axis, 1)
            later = shifted(steps.marks if later is None else later, axis, 1)
            is_other = later if is_other is None else is_other | later
        kept = part(array, axis, 0, length)
        yield kept if is_other is None else where(is_other, full_like(kept, 0), kept)


def _of_states(adjoint: Any, count: int, steps: Steps) -> Any:
    """Return the first `count` elements of the adjoint, with marks summed over all segments."""
    axis = steps.axis
    if steps.marks is None:
        return _first(adjoint, axis, count)
    sums = [steps.sum_at_starts(later) for later in _lagged(adjoint, count, steps)]
    return concatenate([total[(slice(None),) * axis + (None,)] for total in sums], axis)


def _first(adjoint: Any, axis: int, count: int) -> Any:
    """Return the first `count` elements along an axis, with zeros if there are fewer."""
    first = part(adjoint, axis, 0, count)
    missing = count - first.shape[axis]
    if missing > 0:
        # There may be no element to take the rows from.
        zero = full_like(first.sum(axis), 0)[(slice(None),) * axis + (None,)]
        first = concatenate([first, *[zero] * missing], axis)
    return first


def _states(numerator: Any, denominator: Any, grad_zf: Any, axis: int) -> Any:
    """Return the states of ``lfilter`` after the values `grad_zf` of u, the latest first.

    With Toeplitz matrices T and Hankel matrices H of the coefficients they are
    (T_a·H_b − T_b·H_a)·u: the numbers that, filtered by 1/a, give the outputs that follow from u.
    """
    order = len(numerator) - 1
    row, column = np.arange(order)[:, None], np.arange(order)
    toeplitz, hankel = np.where(row >= column, row - column, 2 * order), row + column + 1
    b, a = (padded(c, 2 * order + 1) for c in (numerator, denominator))
    matrix = a[toeplitz] @ b[hankel] - b[toeplitz] @ a[hankel]
    shape = (order,) + (1,) * (grad_zf.ndim - 1 - axis)
    terms = (
        from_host(matrix[:, k].reshape(shape), grad_zf) * part(grad_zf, axis, k, k + 1) for k in range(order)
    )
    return sum_to(sum(terms), grad_zf)


def _sums(adjoint: Any, signals: tuple[Any, Any], counts: tuple[int, int], steps: Steps) -> list[Any]:
    """Return the sums of the adjoint and each signal at lags below a count, inside of segments."""
    lagged = [*_lagged(adjoint, max(counts), steps)]
    return [
        concatenate([inner(later, signal).reshape(1) for later in lagged[:count]], 0)
        for signal, count in zip(signals, counts, strict=True)
    ]


def _differentiate_at(
    backend: Backend,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    device: int,
    addresses: Sequence[int],
    results: Sequence[int],
    options: dict[str, Any],
) -> bool:
    """Write the gradients of ``lfilter`` along rows; return False if no calls are prepared.

    Coefficients are options, as NumPy arrays. Calls are prepared if the same ones come again.
    """
    b, a, prepare = options.get("b"), options.get("a"), kernels_of(backend).prepare_adjoint
    if prepare is None or b is None or a is None or not b.ndim == a.ndim == 1:
        return False
    is_along_rows = options["axis"] in (-1, len(shape) - 1) and shape[-1] * dtype.itemsize % 16 == 0
    if not is_along_rows or 0 in shape or dtype.char not in "fdFD":
        return False
    if any(address % 16 for address in addresses) or results[-1] % 16:
        return False
    cached: CacheEntry[Any] = cache_entry(
        (_differentiate_at, shape, dtype, device, b.dtype, b.tobytes(), a.dtype, a.tobytes())
    )
    if cached.prepared is None:
        if not (cached.is_solved and cached.is_preparable):
            cached.is_solved = True
            return False
        coefficients, like = AdjointCoefficients(b, a), backend.empty(shape, dtype)
        calls = [
            _prepared_filter(numerator, coefficients.denominator, like)
            for numerator in (coefficients.numerator, coefficients.one)
        ]
        if None not in calls:
            cached.prepared = prepare(shape, dtype, device, coefficients, calls)
        cached.is_preparable = cached.prepared is not None
        if cached.prepared is None:
            return False
    cached.prepared(addresses, results)
    return True


def _prepared_filter(numerator: Any, denominator: Any, like: Any) -> PreparedCall | None:
    """Return the prepared call of a filter along rows, if it is cached."""
    operands = numerator, denominator, like, like.ndim - 1
    call = causal.lfilter.rule.read(operands, {"reset": None})  # type: ignore[attr-defined]
    prepared: PreparedCall | None = None if call is None else cache_entry(call.signature).prepared
    return prepared


def _outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    x, zi = arguments["x"], arguments["zi"]
    coefficients = [arguments[name] for name in ("sos", "b", "a") if name in arguments]
    dtypes = [numpy_dtype(array) for array in coefficients]
    if "form" in arguments and (varies(*coefficients) or arguments["form"] != "transposed"):
        dtype = np.result_type(*dtypes, *[numpy_dtype(array) for array in (x, zi) if array is not None])
    else:
        dtype = signal_dtype(dtypes, numpy_dtype(x), None if zi is None else numpy_dtype(zi))
    if zi is None:
        return [(x.shape, dtype)]
    shape, sections = list(x.shape), [len(arguments["sos"])] if "sos" in arguments else []
    shape[arguments["axis"]] = 2 if sections else max(c.shape[-1] for c in coefficients) - 1
    return [(x.shape, dtype), ((*sections, *shape), computed_dtype(dtype))]


def _read_on_host(arguments: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the coefficients of ``lfilter``, unless they vary."""
    is_in_time = varies(arguments["b"], arguments["a"]) or arguments["form"] != "transposed"
    return () if is_in_time else ("b", "a")


_AXIS = {"axis": ("int", -1)}
RULES = [
    rule_of_adjoint(
        lfilter,
        causal.lfilter,
        {**_AXIS, "form": ("str", "transposed")},
        _outlines,
        takes_bfloat16=True,
        differentiate_at=_differentiate_at,
        read_on_host=_read_on_host,
    ),
    rule_of_adjoint(
        sosfilt,
        causal.sosfilt,
        _AXIS,
        _outlines,
        takes_bfloat16=True,
        read_on_host=lambda arguments: ("sos",),
    ),
]
