"""Forward-backward filters, with zero phase and twice the order."""

from __future__ import annotations

from functools import partial
from math import isnan
from typing import Any

import numpy as np

from ..core.arrays.array_types import (
    chunked_like,
    without_empty_chunks,
)
from ..core.arrays.chunk import has_unknown_sizes, reversed_copy
from ..core.arrays.validation import as_axis, as_integer, is_one_of
from ..core.backends import backend_of
from ..distributed.expressions import accepts_expressions
from ..solve import solve, solve_labelled, with_interop
from ..solve.functions import concatenate
from .arguments import (
    as_coefficients,
    as_sections,
    as_signal,
    as_transfer_function,
    result_dtype,
)
from .cascade import Cascade
from .causal import lfilter_zi, sosfilt_zi
from .recurrence import filter_problem


@partial(with_interop, labelled=partial(solve_labelled, by_value=("b", "a")))
@accepts_expressions
def filtfilt(
    b: Any,
    a: Any,
    x: Any,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
    method: str = "pad",
    irlen: int | None = None,
) -> Any:
    """Filter data forward and backward with a rational transfer function.

    The arguments and results are those of ``scipy.signal.filtfilt``.

    Parameters
    ----------
    b, a : array_like
        Numerator and denominator, 1-d.
    x : array_like, CuPy or dask.array.Array
        Signal, longer than `padlen` along `axis`.
    axis : int, optional
        Axis along which to filter. The default is the last.
    padtype : {"odd", "even", "constant", None}, optional
        Extension of the signal at its ends.
    padlen : int, optional
        Number of samples by which each end is extended. The default is 3·max(len(a), len(b)).
    method : {"pad", "gust"}, optional
        "pad" extends the signal. "gust" (Gustafsson 1996) chooses the initial states so that
        filtering forward-backward and backward-forward gives the same result; Dask arrays do not
        support it.
    irlen : int, optional
        Length at which "gust" truncates the impulse response.

    Returns
    -------
    array or dask.array.Array
        Filtered signal, of the shape of `x`.

    Raises
    ------
    RuntimeError
        If a CUDA graph is being captured: the initial states are copied to the device.
    ValueError
        If `padtype` or `method` is unknown, `irlen` is below 1, or `x` is not longer than `padlen`.

    Notes
    -----
    *Memory.* One array of the size of the result, in addition to it. "gust" also solves a
    least-squares problem with about 10·max(len(a), len(b)) numbers for each of 2·irlen samples, or
    for each sample of a row if `irlen` is not given.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.signal import filtfilt
    >>> filtfilt([0.5, 0.5], [1.0], np.array([0.0, 0.0, 4.0, 0.0, 0.0]), padlen=1)
    array([0., 1., 2., 1., 0.])
    """
    if not is_one_of(method, ("pad", "gust")):
        raise ValueError(f"method must be 'pad' or 'gust'; got {method!r}")
    (x, axis), (b, a) = _check_signal(x, axis), as_transfer_function(b, a)
    if method == "gust":
        length = None if irlen is None else as_integer("irlen", irlen)
        if length is not None and length < 1:
            raise ValueError(f"irlen must be at least 1; got {irlen}")
        return _filtfilt_gust(b, a, x, axis, length)
    cascade, states = Cascade.of_polynomials(b, a), lfilter_zi(b, a)
    edge = _edge(padtype, padlen, max(b.size, a.size))
    dtype = result_dtype(b, a, x, states)
    return _forward_backward(cascade, states, x, axis, padtype, edge, dtype)


@partial(with_interop, labelled=partial(solve_labelled, by_value=("sos",)))
@accepts_expressions
def sosfiltfilt(
    sos: Any, x: Any, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None
) -> Any:
    """Filter data forward and backward with second-order sections.

    The arguments and results are those of ``scipy.signal.sosfiltfilt``.

    Parameters
    ----------
    sos : array_like (sections, 6)
        Coefficients b_0, b_1, b_2, 1, a_1, a_2 of each section.
    x : array_like, CuPy or dask.array.Array
        Signal, longer than `padlen` along `axis`.
    axis : int, optional
        Axis along which to filter. The default is the last.
    padtype : {"odd", "even", "constant", None}, optional
        Extension of the signal at its ends.
    padlen : int, optional
        Number of samples by which each end is extended. The default is 3·(2·sections + 1 − the
        number of trailing zeros that b and a have in common), as in SciPy.

    Returns
    -------
    array or dask.array.Array
        Filtered signal, of the shape of `x`.

    Raises
    ------
    RuntimeError
        If a CUDA graph is being captured: the initial states are copied to the device.
    ValueError
        If `padtype` is unknown, or `x` is not longer than `padlen`.

    Notes
    -----
    *Memory.* One array of the size of the result, in addition to it.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.signal import sosfiltfilt
    >>> sosfiltfilt([[0.5, 0.5, 0, 1, 0, 0]], np.array([0.0, 0.0, 4.0, 0.0, 0.0]), padlen=1)
    array([0., 1., 2., 1., 0.])
    """
    (x, axis), sos = _check_signal(x, axis), as_sections(sos)
    taps = 2 * len(sos) + 1 - min((sos[:, 2] == 0).sum(), (sos[:, 5] == 0).sum())
    cascade, states = Cascade.of_sections(sos), sosfilt_zi(sos)
    edge = _edge(padtype, padlen, int(taps))
    dtype = result_dtype(sos, x, states)
    return _forward_backward(cascade, states, x, axis, padtype, edge, dtype)


def _check_signal(x: Any, axis: Any) -> tuple[Any, int]:
    x = as_signal(x)
    axis = as_axis(axis, x.shape)
    backend_of(x).raise_if_capturing("a filter", "the initial states are copied to the device")
    return x, axis


def _edge(padtype: Any, padlen: Any, taps: int) -> int:
    """Return the number of samples by which each end is extended."""
    if not (padtype is None or is_one_of(padtype, ("even", "odd", "constant"))):
        raise ValueError(
            f"Unknown value '{padtype}' given to padtype: it must be 'even', 'odd', 'constant', "
            f"or None."
        )
    if padtype is None:
        return 0
    return 3 * taps if padlen is None else as_integer("padlen", padlen)


def _forward_backward(
    cascade: Cascade, states: np.ndarray, x: Any, axis: int, padtype: Any, edge: int, dtype: Any
) -> Any:
    """Filter twice, each time from the steady state of the first sample.

    `states` is the steady state for an input of ones.
    """
    extended = _extended(without_empty_chunks(x), axis, padtype, edge, dtype)
    steady_states = backend_of(x).from_host(states.reshape(-1, *[1] * (x.ndim - 1)), x)

    def filtered(data: Any) -> Any:
        carry_in = steady_states * _part(data, axis, 0)
        return solve(filter_problem(cascade, data, carry_in, axis, dtype))

    # At most two arrays are in memory: each is released after it has been read.
    forward = filtered(extended)
    del extended
    reversed_forward = reversed_copy(forward, axis)
    del forward
    backward = _part(filtered(reversed_forward), axis, slice(None, None, -1))
    inside = slice(edge, backward.shape[axis] - edge)
    return chunked_like(_part(backward, axis, inside) if edge > 0 else backward, x)


def _part(x: Any, axis: int, index: Any) -> Any:
    """Return the elements of an array at an index or slice of an axis."""
    return x[(slice(None),) * axis + (index,)]


def _extended(x: Any, axis: int, padtype: Any, edge: int, dtype: np.dtype[Any]) -> Any:
    """Return the signal with `edge` more samples at each end."""
    length = x.shape[axis]
    if isnan(length) or (edge > 0 and has_unknown_sizes(getattr(x, "chunks", ()))):
        raise ValueError(
            "x must be in chunks of known sizes to be filtered forward and backward: call "
            "compute_chunk_sizes() on it"
        )
    if not length > edge:
        raise ValueError(
            f"The length of the input vector x must be greater than padlen, which is {edge}; "
            f"got {length} along axis {axis}."
        )
    if edge <= 0:
        return x
    first, last = _part(x, axis, slice(0, 1)), _part(x, axis, slice(length - 1, length))
    if padtype == "constant":
        shape = [edge if k == axis else 1 for k in range(x.ndim)]
        ones = backend_of(x).from_host(np.ones(shape, x.dtype), x)
        before, after = first * ones, last * ones
    else:
        before = _part(x, axis, slice(edge, 0, -1))
        after = _part(x, axis, slice(-2, -edge - 2, -1))
    if padtype == "odd":
        before, after = 2 * first - before, 2 * last - after
    parts = [before, x, after]
    if type(x) is np.ndarray:  # Cast here, because a filter would cast in a copy.
        return np.concatenate(parts, axis, dtype=dtype)
    return concatenate(parts, axis)


def _filtfilt_gust(b: np.ndarray, a: np.ndarray, x: Any, axis: int, irlen: int | None) -> Any:
    """Filter so that forward-backward and backward-forward filtering give the same result.

    Let O (n, order) be the responses to the states at the start, and S those responses filtered
    backwards. Let y_fb and y_bf be the results from states of 0. The states x_0 at the start and
    x_N at the end solve, in the sense of least squares (eq. 6),

        [Sᴿ − O, Oᴿ − S]·[x_0; x_N] = y_bf − y_fb,

    and the result is y_fb + [Sᴿ, Oᴿ]·[x_0; x_N] (eq. 7), where ᴿ reverses the rows.

    `irlen` is the number of samples that the states affect at either end; None means all.

    References
    ----------
    F. Gustafsson, Determining the initial states in forward-backward filtering, 1996.
    """
    if hasattr(x, "dask"):
        raise NotImplementedError(
            "method 'gust' solves one system over all samples: use method='pad' for Dask arrays"
        )
    order = max(b.size, a.size) - 1
    if order == 0:
        return (b[0] / a[0]) ** 2 * x
    cascade = Cascade.of_polynomials(b, a)

    def filtered_along(data: Any, axis: int = -1, carry_in: Any = None) -> Any:
        dtype = result_dtype(b, a, data, carry_in)
        return solve(filter_problem(cascade, data, carry_in, axis % data.ndim, dtype))

    if x.size == 0:
        return filtered_along(x, axis)
    x = np.moveaxis(x, axis, -1)
    length = x.shape[-1]
    affected = length if irlen is None or length <= 2 * irlen else irlen
    states = np.eye(order)[:, :, None]  # One state of each row is 1.
    observed = np.concatenate(
        [filtered_along(np.zeros((1, affected)), carry_in=state) for state in states]
    ).T
    filtered = filtered_along(observed[::-1], axis=0)
    if affected == length:
        matrix = np.hstack([filtered[::-1] - observed, observed[::-1] - filtered])
        weights = np.hstack([filtered[::-1], observed[::-1]])
        ends = [slice(None)]
    else:
        zeros = np.zeros_like(observed)
        matrix = np.block([[filtered[::-1] - observed, zeros], [zeros, observed[::-1] - filtered]])
        weights = np.block([[filtered[::-1], zeros], [zeros, observed[::-1]]])
        ends = [slice(affected), slice(length - affected, None)]

    def filtered_twice(data: Any) -> Any:
        first = filtered_along(data)
        backward = reversed_copy(first, first.ndim - 1)
        del first
        return filtered_along(backward)

    # Only the ends of the backward-forward result are kept.
    backward_forward = _joined(filtered_twice(x[..., ::-1]), ends)
    y = filtered_twice(x)[..., ::-1]
    difference = as_coefficients("x", backward_forward - _joined(y, ends))
    solution = np.linalg.lstsq(matrix, difference.reshape(-1, difference.shape[-1]).T)[0]
    correction = backend_of(x).from_host((weights @ solution).T.reshape(difference.shape), x)
    for number, end in enumerate(ends):
        y[..., end] += correction[..., number * affected : (number + 1) * affected]
    return np.moveaxis(y, -1, axis)


def _joined(x: Any, ends: list[slice]) -> Any:
    """Return the ends of all rows, joined along the last axis."""
    return np.concatenate([x[..., end] for end in ends], axis=-1)
