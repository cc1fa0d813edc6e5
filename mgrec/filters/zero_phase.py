"""Forward-backward filters, with zero phase and twice the order."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import isnan
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast, chunked_like, is_lazy, widened, without_empty_chunks
from ..core.arrays.chunk import as_contiguous, has_unknown_sizes, reversed_copy
from ..core.arrays.validation import as_axis, as_flag, as_integer, is_one_of
from ..core.backends import backend_of
from ..core.contract.recurrence import filter_chunk
from ..distributed.expressions import accepts_expressions
from ..distributed.groups.calls import CALL, GroupCall
from ..distributed.groups.ends import backward_in_time, outermost
from ..solve import solve, solve_labelled, with_interop
from .arguments import (
    as_coefficients,
    as_result_dtype,
    as_sections,
    as_signal,
    as_transfer_function,
    result_dtype,
)
from .cascade import Cascade
from .causal import sosfilt_zi, steady_states
from .extension import along, beyond, joined
from .overlap import OverlappedFilter, PaddedEnds, counts_of_results, has_many_rows, reach_over_chunks
from .recurrence import filter_problem


@partial(with_interop, labelled=partial(solve_labelled, by_value=("b", "a")), takes_group=True)
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
    *,
    dtype: Any = None,
    assume_finite: bool = False,
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
        Axis along which to filter. The default is the last, or the index of a DataFrame.
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
    dtype : dtype, optional
        Dtype of the result, which is computed in that of SciPy, and then cast. The default is
        SciPy's: float64 for a signal of integers. float32 halves the memory of the result. On a
        GPU it also rounds outputs of the forward pass: see the notes.
    assume_finite : bool, optional
        Whether a Dask array of floating numbers contains neither nan nor inf, as integers do. Its
        chunks then depend on their neighbours only. See the notes.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the axis. See :ref:`guide-ranks`.

    Returns
    -------
    array or dask.array.Array
        Filtered signal, of the shape and the chunks of `x`.

    Raises
    ------
    RuntimeError
        If a CUDA graph is being captured: the initial states are copied to the device.
    ValueError
        If `padtype` or `method` is unknown, `irlen` is below 1, `x` is not longer than `padlen`, or
        its chunks have unknown sizes.
    TypeError
        If `dtype` is neither float32 nor float64, or complex for a complex result.

    Notes
    -----
    *Memory.* NumPy arrays of many rows or columns are filtered block by block. Others need one more
    array of the size of the result.

    *Dask arrays.* A chunk of integers is filtered with as many samples of its neighbours as change
    its results, and with no others: the results of a recording larger than memory are written while
    it is read. This applies if the response decays within two chunks; otherwise all chunks are kept
    in memory. So are chunks of floating numbers, because a nan or inf changes all samples of a row;
    with `assume_finite`, it changes its chunk and the neighbours. "gust" also solves a
    least-squares problem with about 10·max(len(a), len(b)) numbers for each of 2·irlen samples, or
    for each sample of a row if `irlen` is not given.

    *Rounding.* On a GPU, the forward pass over 16 or more columns of integers stores its outputs as
    float32 if `dtype` is float32. This adds an error of at most 2⁻²⁴·Σ|h| times the largest of
    these outputs, where h is the impulse response.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.signal import filtfilt
    >>> filtfilt([0.5, 0.5], [1.0], np.array([0.0, 0.0, 4.0, 0.0, 0.0]), padlen=1)
    array([0., 1., 2., 1., 0.])
    """
    if not is_one_of(method, ("pad", "gust")):
        raise ValueError(f"method must be 'pad' or 'gust'; got {method!r}")
    is_finite = as_flag("assume_finite", assume_finite)
    (x, axis), (b, a) = _check_signal(x, axis), as_transfer_function(b, a)
    if method == "gust":
        if CALL.get() is not None:
            raise NotImplementedError("method must be 'pad' with a group; got 'gust'")
        length = None if irlen is None else as_integer("irlen", irlen)
        if length is not None and length < 1:
            raise ValueError(f"irlen must be at least 1; got {irlen}")
        result = _filtfilt_gust(b, a, x, axis, length)
        return cast(result, as_result_dtype(dtype, result.dtype))
    cascade, states = Cascade.of_polynomials(b, a), steady_states(b, a)
    computed = result_dtype(b, a, x, states)
    edge = edge_of(padtype, padlen, padding_of_polynomials(b, a))
    wanted = as_result_dtype(dtype, computed)
    ends = PaddedEnds(padtype, edge, tuple(states.tolist()))
    return solve_directed(OverlappedFilter(cascade, computed, 0, True, ends), x, axis, wanted, is_finite)


@partial(with_interop, labelled=partial(solve_labelled, by_value=("sos",)), takes_group=True)
@accepts_expressions
def sosfiltfilt(
    sos: Any,
    x: Any,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
    *,
    dtype: Any = None,
    assume_finite: bool = False,
) -> Any:
    """Filter data forward and backward with second-order sections.

    The arguments and results are those of ``scipy.signal.sosfiltfilt``.

    Parameters
    ----------
    sos : array_like (sections, 6)
        Coefficients b_0, b_1, b_2, 1, a_1, a_2 of each section.
    padlen : int, optional
        Number of samples by which each end is extended. The default is 3·(2·sections + 1 − the
        number of trailing zeros that b and a have in common), as in SciPy.
    x, axis, padtype, dtype, assume_finite
        As for :func:`filtfilt`.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the axis. See :ref:`guide-ranks`.

    Returns
    -------
    array or dask.array.Array
        Filtered signal, of the shape and the chunks of `x`.

    Raises
    ------
    RuntimeError, TypeError, ValueError
        As for :func:`filtfilt`.

    Notes
    -----
    The notes of :func:`filtfilt` on memory, Dask arrays and rounding hold here too.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.signal import sosfiltfilt
    >>> sosfiltfilt([[0.5, 0.5, 0, 1, 0, 0]], np.array([0.0, 0.0, 4.0, 0.0, 0.0]), padlen=1)
    array([0., 1., 2., 1., 0.])
    """
    (x, axis), sos = _check_signal(x, axis), as_sections(sos)
    states = sosfilt_zi(sos)
    computed = result_dtype(sos, x, states)
    edge = edge_of(padtype, padlen, padding_of_sections(sos))
    ends = PaddedEnds(padtype, edge, tuple(states.ravel().tolist()))
    wanted, is_finite = as_result_dtype(dtype, computed), as_flag("assume_finite", assume_finite)
    directed = OverlappedFilter(Cascade.of_sections(sos), computed, 0, True, ends)
    return solve_directed(directed, x, axis, wanted, is_finite)


def _check_signal(x: Any, axis: Any) -> tuple[Any, int]:
    x = widened(as_signal(x))
    axis = as_axis(axis, x.shape)
    backend_of(x).raise_if_capturing("a filter", "the initial states are copied to the device")
    return x, axis


def padding_of_polynomials(b: np.ndarray, a: np.ndarray) -> int:
    """Return SciPy's default of `padlen` for ``filtfilt``."""
    return 3 * max(b.size, a.size)


def padding_of_sections(sos: np.ndarray) -> int:
    """Return SciPy's default of `padlen` for ``sosfiltfilt``."""
    zeros = min((sos[:, 2] == 0).sum(), (sos[:, 5] == 0).sum())
    return 3 * (2 * len(sos) + 1 - int(zeros))


def edge_of(padtype: Any, padlen: Any, default: int) -> int:
    """Return the number of samples by which each end is extended."""
    if not (padtype is None or is_one_of(padtype, ("even", "odd", "constant"))):
        raise ValueError(
            f"Unknown value '{padtype}' given to padtype: it must be 'even', 'odd', 'constant', or None."
        )
    if padtype is None:
        return 0
    return default if padlen is None else max(0, as_integer("padlen", padlen))


def solve_directed(
    directed: OverlappedFilter, x: Any, axis: int, dtype: np.dtype[Any], is_finite: bool
) -> Any:
    """Return the filtered signal in a dtype, in the chunks of x.

    The reach of the filter is not used. `is_finite` says whether floating samples are known to be finite.
    """
    if (call := CALL.get()) is not None:
        return _solve_on_group(directed, call, x, axis, dtype, is_finite)
    chunks_like, x = x, without_empty_chunks(x)
    _check_length(directed, x, axis)
    if is_lazy(x):
        reach = reach_over_chunks(directed.cascade, x.chunks[axis], is_finite or x.dtype.kind in "biu")
    else:
        reach = 0 if has_many_rows(x, axis) or not backend_of(x).is_host else None
    if reach is None:
        result = cast(_filter_all(directed, x, axis), dtype)
    elif is_lazy(x):
        from ..distributed.graph.build import solve_filter

        counts = counts_of_results(x.chunks[axis], directed.step)
        result = solve_filter(replace(directed, reach=reach), x, axis, dtype, counts)
    else:
        _, recipe = directed.plan((x.shape[axis],), 0)
        return filter_chunk(directed, x, axis, dtype, recipe, (), True)
    return chunked_like(result, chunks_like) if directed.step == 1 else without_empty_chunks(result)


def _solve_on_group(
    directed: OverlappedFilter, call: GroupCall, x: Any, axis: int, dtype: np.dtype[Any], is_finite: bool
) -> Any:
    """Return the filtered signal for the part of this rank."""
    from ..distributed.groups.solve import filter_part, gather_signal

    is_finite = is_finite or x.dtype.kind in "biu" or bool(np.isfinite(x).all())
    lengths, are_finite = gather_signal(call, x, axis, dtype, is_finite)
    _check_total(directed, sum(lengths), axis)
    reach = reach_over_chunks(directed.cascade, [*filter(None, lengths)], are_finite)
    if reach is not None:
        return filter_part(call, replace(directed, reach=reach), x, axis, dtype, lengths)
    call.is_composed = True
    start, count = sum(lengths[: call.group.rank]), x.shape[axis]
    is_first, is_last = count > 0 and start == 0, count > 0 and start + count == sum(lengths)
    return cast(_filter_all(directed, x, axis, start, is_first, is_last), dtype)


def _check_length(directed: OverlappedFilter, x: Any, axis: int) -> None:
    """Raise ValueError unless x is longer than its extension at either end."""
    if isnan(x.shape[axis]) or (directed.ends.edge > 0 and has_unknown_sizes(getattr(x, "chunks", ()))):
        purpose = "filtered forward and backward" if directed.has_zero_phase else "decimated"
        raise ValueError(
            f"x must be in chunks of known sizes to be {purpose}: call compute_chunk_sizes() on it"
        )
    _check_total(directed, x.shape[axis], axis)


def _check_total(directed: OverlappedFilter, length: int, axis: int) -> None:
    """Raise ValueError unless a signal of this length can be extended."""
    if directed.has_zero_phase and not length > directed.ends.edge:
        raise ValueError(
            f"The length of the input vector x must be greater than padlen, which is "
            f"{directed.ends.edge}; got {length} along axis {axis}."
        )


def _filter_all(
    directed: OverlappedFilter, x: Any, axis: int, start: int = 0, is_first: bool = True, is_last: bool = True
) -> Any:
    """Filter all samples forward, then all backward; each time from a steady state.

    On a group the part of this rank begins at sample `start`, and may be the first and the last one.
    """
    ends, dtype, offset = directed.ends, directed.dtype, -start % directed.step

    def filtered(data: Any, carry_in: Any) -> Any:
        return solve(filter_problem(directed.cascade, data, carry_in, axis, dtype))

    if not directed.has_zero_phase:
        return _every(filtered(x, None), axis, slice(offset, None, directed.step))
    states = np.array(ends.states).reshape(-1, *[1] * (x.ndim - 1))
    states = backend_of(x).from_host(states, x)
    is_whole = CALL.get() is None
    first, last = (x, x) if is_whole else outermost(x, axis, ends.edge + 1)
    signal = x
    if ends.edge:
        first, last = (
            beyond(end, axis, ends.padtype, ends.edge, side) for end, side in ((first, -1), (last, 1))
        )
        pieces = [*[first] * is_first, x, *[last] * is_last]
        signal = joined(pieces, axis, dtype)
    # At most two arrays are in memory: each is released after it has been read.
    forward = filtered(signal, states * along(first, axis, 0))
    del signal
    last = forward if is_whole else outermost(forward, axis, 1)[1]
    carry_in = states * along(last, axis, -1)
    del last
    reversed_forward = reversed_copy(forward, axis)
    del forward
    with backward_in_time():
        backward = filtered(reversed_forward, carry_in)
    kept = slice(ends.edge * is_first + offset, backward.shape[axis] - ends.edge * is_last, directed.step)
    return _every(along(backward, axis, slice(None, None, -1)), axis, kept)


def _every(result: Any, axis: int, kept: slice) -> Any:
    """Return some results along an axis, without those between them in memory."""
    kept_results = along(result, axis, kept)
    return kept_results if kept.step == 1 or is_lazy(result) else as_contiguous(kept_results)


def _filtfilt_gust(b: np.ndarray, a: np.ndarray, x: Any, axis: int, irlen: int | None) -> Any:
    """Filter so that forward-backward and backward-forward filtering give the same result.

    Let O (n, order) be the responses to the states at the start, and S those responses filtered
    backwards. Let y_fb and y_bf be the results from states of 0. The states x_0 at the start and
    x_N at the end solve, in the sense of least squares (eq. 6),

        [Sᴿ − O, Oᴿ − S]·[x_0; x_N] = y_bf − y_fb,

    and the result is y_fb + [Sᴿ, Oᴿ]·[x_0; x_N] (eq. 7), where ᴿ reverses the rows.

    `irlen` is the number of samples that the states affect at either end; None means all.

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
    observed = np.concatenate([filtered_along(np.zeros((1, affected)), carry_in=state) for state in states]).T
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
