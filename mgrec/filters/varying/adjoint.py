"""Adjoints of filters whose coefficients vary in time.

The adjoint of each form is the other form, backward in time: see :func:`mgrec.adjoint.lfilter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.arrays.array_types import chunked_like, is_lazy
from ...core.arrays.interop import library_of
from ...core.backends import CPU, backend_of
from ...solve import public_function
from ...solve.adjoint import conj, from_host, part, sum_to
from ...solve.functions import concatenate, flip, full_like, stack
from .. import causal
from .arguments import FORMS, along_axes

_solve = public_function(causal.filtered_in_time)


def gradients_in_time(
    grad: Any, y: Any, operands: Sequence[Any], axis: int, form: str, grad_zf: Any, names: set[str]
) -> tuple[Any, Any, Any, Any]:
    """Return the gradients of b, a, x and zi that have these names, and None for others."""
    b, a, x, zi = operands
    is_direct = form == FORMS[1]
    taps, poles = (from_host(along_axes(c, x.ndim, axis), x) for c in (b, a))
    order, gain = max(taps.shape[-1], poles.shape[-1]) - 1, poles[..., :1]
    unit = gain
    if poles.shape[-1] <= order:  # The states of w are those of y.
        unit = concatenate([gain, *[full_like(gain, 0)] * order], -1)
    states = full_like(zi, 0) if grad_zf is None and "zi" in names else grad_zf

    def backward(numerator: Any) -> tuple[Any, Any]:
        arguments = conj(numerator), conj(poles), grad, axis, states
        return _backward(*arguments, FORMS[0] if is_direct else FORMS[1])

    grad_b = grad_a = grad_x = grad_zi = None
    if is_direct or not names & {"b", "a"}:
        grad_x, grad_zi = backward(taps)
    if names & {"b", "a"}:
        # The values that the states consist of.
        if is_direct:
            w, edge = y, None if zi is None else flip(zi, axis)
            if not (taps.shape[-1] == 1 and _are_equal(taps, gain)):
                results = causal.lfilter(unit, poles, x, axis, zi, form=form)
                w = results if zi is None else results[0]
        else:
            (w, grad_zi), edge = backward(unit), grad_zf
        edge = full_like(_first(w, axis, order), 0) if edge is None else edge
        pieces = [edge, w] if is_direct else [w, edge]
        lags = Lags(concatenate(pieces, axis), w, axis, order, is_direct)
        if grad_x is None:
            terms = [conj(taps[..., k]) * lags[k] for k in range(taps.shape[-1])]
            grad_x = sum(terms[1:], terms[0]) / conj(gain[..., 0])
        u, f, v, q = grad, grad_x, conj(y), conj(x)
        if not is_direct:
            u, f, v, q = conj(x), conj(y), grad_x, grad
        if "b" in names:
            grad_b = lags.times(u, gain, taps).reshape(b.shape)
        if "a" in names:
            grad_a = lags.times(f, gain, poles, (u, v, q)).reshape(a.shape)
    return grad_b, grad_a, grad_x if "x" in names else None, grad_zi if "zi" in names else None


def _backward(
    numerator: Any, denominator: Any, grad: Any, axis: int, states: Any, form: str
) -> tuple[Any, Any]:
    """Return a filter from the last step to the first; its last states, None without states."""
    if library_of(grad) is None:
        results = _solve(numerator, denominator, grad, axis, states, form, reverse=True)
        return (results, None) if states is None else results
    b, a, x = (c if c.shape[axis] == 1 else flip(c, axis) for c in (numerator, denominator, grad))
    results = causal.lfilter(b, a, x, axis, states, form=form)
    y, last = (results, None) if states is None else results
    return flip(y, axis), last


class Lags:
    """The values 0 to `order` steps after each step, or the conjugates of those before it.

    `extended`: the values of all steps, and `order` more.
    `like`: an array of all steps in the chunks of the result.
    """

    def __init__(self, extended: Any, like: Any, axis: int, order: int, is_before: bool) -> None:
        self.extended = conj(extended) if is_before else extended
        self.like, self.axis, self.order, self.is_before = like, axis, order, is_before

    def __getitem__(self, k: int) -> Any:
        first = self.order - k if self.is_before else k
        lag = part(self.extended, self.axis, first, first + self.like.shape[self.axis])
        return chunked_like(lag, self.like)

    def times(
        self, factor: Any, gain: Any, coefficients: Any, of_gain: tuple[Any, Any, Any] | None = None
    ) -> Any:
        """Return the products of a factor and the lags, summed to the shape of coefficients.

        They are divided by the conjugate of the gain a_0. With `of_gain` (u, v, q), f the factor
        and w the first lag they are negative, and the first is that of a_0: −(u·v + f·(w − q)).
        """
        if library_of(factor) is None and not is_lazy(factor) and backend_of(factor).is_host:
            from .cpu import multiply_lags

            summed = multiply_lags(
                self.extended, factor, conj(gain), coefficients, self.axis, self.is_before, of_gain
            )
            if summed is not None:
                return sum_to(summed, coefficients)
        scale = 1 / conj(gain[..., 0])
        scaled = scale * factor if of_gain is None else -scale * factor
        products = [self[k] * scaled for k in range(coefficients.shape[-1])]
        if of_gain is not None:
            u, v, q = of_gain
            products[0] = scaled * (self[0] - q) - scale * u * v
        columns = [sum_to(product, coefficients[..., k]) for k, product in enumerate(products)]
        return stack(columns)


def _first(w: Any, axis: int, count: int) -> Any:
    """Return `count` elements along an axis, whatever they are."""
    first = part(w, axis, 0, count)
    if first.shape[axis] == count:
        return first
    return concatenate([part(w, axis, 0, 1)] * count, axis)


def _are_equal(b: Any, gain: Any) -> bool:
    """Return whether b_0 is a_0 at all steps, as far as that is known without waiting."""
    is_known = all(library_of(c) is None and not is_lazy(c) for c in (b, gain))
    return is_known and backend_of(b) is backend_of(gain) is CPU and bool((b == gain).all())
