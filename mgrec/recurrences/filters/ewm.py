"""The exponentially weighted mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...arrays.arguments import as_axis, as_flag, as_real
from ...arrays.kinds import is_on_gpu, refuse_capture
from ...arrays.layout import has_unknown_sizes
from ...families.filters.cascade import Cascade
from ...families.filters.door import as_signal, beside
from ...families.filters.recurrence import filter_problem
from ...placement import solve
from ..custom import scan
from ..linear import linear_recurrence
from ..maps import max_plus
from .causal import lfilter
from .chunks import chunked_like, without_empty_chunks

_RANGES = {
    "alpha": "0 < alpha <= 1", "span": "span >= 1", "halflife": "halflife > 0", "com": "com >= 0"
}  # fmt: skip
# Sizes of float32 that keep a filter of a gain of 1 far from overflow.
_SAFE = 2.0**100
# 1 − exp(−38) is 1 in float64.
_FULL = 38.0
# b and a of a filter that delays by one sample.
_ONE_STEP = np.array([0.0, 1.0], np.float32), np.ones(1, np.float32)


def ewm(
    x: Any,
    *,
    alpha: float | None = None,
    span: float | None = None,
    halflife: float | None = None,
    com: float | None = None,
    adjust: bool = True,
    axis: int = -1,
) -> Any:
    """Exponentially weighted mean along an axis, as ``pandas.DataFrame.ewm(...).mean()``.

    Each value weighs 1 − α times what the value after it weighs. One of `alpha`, `span`,
    `halflife` and `com` must be given.

    Parameters
    ----------
    x : array_like, CuPy or dask.array.Array
        Real numbers. nan and inf count as missing, as in pandas: they weigh nothing, and the
        weights of the values before them fall all the same (pandas' ``ignore_na=False``).
    alpha : float, optional
        α itself, 0 < α ≤ 1.
    span : float, optional
        α = 2/(span + 1), span ≥ 1.
    halflife : float, optional
        The steps in which a weight halves: α = 1 − 2**(−1/halflife), halflife > 0.
    com : float, optional
        The centre of mass: α = 1/(1 + com), com ≥ 0.
    adjust : bool, optional
        True: divide by the sum of the weights. False: the first value stands for all before
        it, y_i = (1 − α)·y_{i−1} + α·x_i.
    axis : int, optional
        The last one when not given, as of filters; pandas runs down a table, along axis 0.

    Returns
    -------
    array or dask.array.Array
        float64, or float32 if `x` is. nan before the first value.

    Raises
    ------
    TypeError
        `x` is complex, the weight is no number, or `adjust` is no bool.
    ValueError
        None or several of the weights are given, or one is out of its range.

    Notes
    -----
    *Accuracy.* Everything is computed in float64, whatever the dtype is. The error of y_i is at
    most 4·(min(i, 1/α) + 1)·2⁻⁵³ of the largest size among x_0 … x_i, and that of float32 one
    more unit in the last place; larger only where α·x is a subnormal number. CuPy takes
    subnormal float32 numbers for 0.

    A CUDA graph cannot capture it, since the host looks for missing values: RuntimeError.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.signal import ewm
    >>> ewm(np.array([1.0, 2.0, 3.0]), alpha=0.5, adjust=False)
    array([1.  , 1.5 , 2.25])
    >>> ewm(np.array([1.0, np.nan, 3.0]), span=3)
    array([1. , 1. , 2.6])
    """
    rate = _alpha(alpha, span, halflife, com)
    x = as_signal(x)
    axis, adjust = as_axis(axis, x.shape), as_flag("adjust", adjust)
    if x.dtype.kind not in "iuf":
        raise TypeError(f"x must be real; got {x.dtype}")
    dtype = np.dtype(np.float32 if x.dtype.char == "f" else np.float64)
    x = x.astype(np.float64) if x.dtype.char == "g" else x
    if 0 in x.shape:
        return x.astype(dtype)
    if not hasattr(x, "dask"):
        if is_on_gpu(x):
            refuse_capture("ewm", "the host looks for missing values")
        largest = _largest(x)
        if math.isfinite(largest):
            return _without_gaps(x, largest, rate, adjust, axis).astype(dtype, copy=False)
    return chunked_like(_with_gaps(without_empty_chunks(x), rate, adjust, axis, dtype), x)


def _alpha(
    alpha: float | None, span: float | None, halflife: float | None, com: float | None
) -> float:
    given = {"alpha": alpha, "span": span, "halflife": halflife, "com": com}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        got = " and ".join(names) or "none"
        raise ValueError(f"one of alpha, span, halflife and com must be given; got {got}")
    (name,) = names
    value = as_real(name, given[name], f"a finite number, {_RANGES[name]}")
    fits = {
        "alpha": 0 < value <= 1, "span": value >= 1, "halflife": value > 0, "com": value >= 0
    }  # fmt: skip
    if not fits[name] or math.isinf(value):
        raise ValueError(f"{name} must be a finite number, {_RANGES[name]}; got {value}")
    if name == "span":
        return 2 / (value + 1)
    if name == "halflife":
        return -math.expm1(-math.log(2) / value)
    return value if name == "alpha" else 1 / (1 + value)


def _largest(x: Any) -> float:
    """The largest size; nan or inf where a value is missing."""
    return 0.0 if x.dtype.kind in "iu" else max(-float(x.min()), float(x.max()))


def _without_gaps(x: Any, largest: float, rate: float, adjust: bool, axis: int) -> Any:
    whole = (slice(None),) * axis
    # The mean before the first value is the first value.
    entry = None if adjust else (1 - rate) * x[(*whole, 0)].astype(np.float64)[None]
    cascade = Cascade.of_polynomials([rate], [1.0, rate - 1.0])
    # Rows near overflow are done again in the dtype of the results: float32 is too coarse.
    is_narrow = x.dtype.char == "f" and largest < _SAFE
    dtype = np.dtype(np.float32 if is_narrow else np.float64)
    y = solve(filter_problem(cascade, x, entry, axis, dtype))
    if adjust:
        fall = -math.log1p(-rate) if rate < 1 else math.inf
        count = math.ceil(min(_FULL / fall, x.shape[axis]))
        weight = -np.expm1(-fall * np.arange(1, count + 1))
        head = y[(*whole, slice(0, count))]
        head /= beside(weight.reshape(-1, *[1] * (x.ndim - axis - 1)), x)
    return y


def _with_gaps(x: Any, rate: float, adjust: bool, axis: int, dtype: np.dtype[Any]) -> Any:
    """y_i = s_i·y_{i−1} + (1 − s_i)·x_i, where x_i is there; s_i = w_i/(w_i + v).

    w_i is what the mean so far weighs, 0 before the first value, and falls by 1 − α at every
    step; v is what a new value weighs: 1 where the weights are summed up, else α, and then
    the mean weighs 1.
    """
    decay, zero, one = np.float64(1 - rate), np.float64(0), np.float64(1)
    there = np.isfinite(x)
    last = _delayed(there, axis)
    kept = decay if adjust else np.where(last, zero, decay)
    share = linear_recurrence(kept, last * decay, axis=axis)
    share /= share + (one if adjust else np.float64(rate))
    values = one - share
    values *= np.where(there, x, x.dtype.type(0))
    y = linear_recurrence(np.where(there, share, one), values, axis=axis)
    return np.where(_seen(there, axis), y.astype(dtype, copy=False), dtype.type(np.nan))


def _delayed(there: Any, axis: int) -> Any:
    """Whether the value before each is there; there is none before the first."""
    if has_unknown_sizes(getattr(there, "chunks", ())):
        return lfilter(*_ONE_STEP, there.astype(np.float32), axis) > 0
    whole = (slice(None),) * axis
    head = there[(*whole, slice(0, 1))] & False
    delayed: Any = np.concatenate([head, there[(*whole, slice(0, -1))]], axis)
    return chunked_like(delayed, there)


def _seen(there: Any, axis: int) -> Any:
    """Whether there has been a value so far."""
    return scan(max_plus, np.int8(0), there.astype(np.int8), initial=np.int8(0), axis=axis) > 0
