"""Exponentially weighted means, sums, variances and correlations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...arrays.arguments import as_axis
from ...arrays.kinds import check_together, is_lazy, is_on_gpu, refuse_capture
from ...arrays.segments import as_reset
from ...families.ewm.recurrence import ewm_problem
from ...families.ewm.weights import Weights
from ...placement import solve, takes_foreign
from ...placement.expressions import keeps_kind
from ..filters.chunks import chunked_like, without_empty_chunks
from .by_recurrences import by_recurrences, largest_size, mean_without_gaps
from .door import as_gaps, as_series, as_weights


@takes_foreign
@keeps_kind
def ewm(
    x: Any,
    *,
    alpha: float | None = None,
    span: float | None = None,
    halflife: Any = None,
    com: float | None = None,
    adjust: bool = True,
    axis: int = -1,
    statistic: str = "mean",
    other: Any = None,
    min_periods: int | None = 0,
    ignore_na: bool = False,
    times: Any = None,
    bias: bool = False,
    reset: Any = None,
) -> Any:
    """Exponentially weighted statistics along an axis, as pandas' ``ewm`` has them.

    Each value weighs 1 − α times what the value after it weighs. One of `alpha`, `span`,
    `halflife` and `com` must be given.

    The result is the statistic itself: pandas' ``x.ewm(span=3).std()`` is
    ``ewm(x, span=3, statistic="std")``, while ``ewm(x, span=3).std()`` is one number, the standard
    deviation of the means.

    Parameters
    ----------
    x : array_like, CuPy or dask.array.Array
        Real numbers. nan and inf count as missing, as in pandas.
    alpha : float, optional
        α itself, 0 < α ≤ 1.
    span : float, optional
        α = 2/(span + 1), span ≥ 1.
    halflife : float, or timedelta with `times`, optional
        The steps in which a weight halves: α = 1 − 2**(−1/halflife), halflife > 0. With `times`
        a span of time: numpy.timedelta64, datetime.timedelta, or a text that pandas reads.
    com : float, optional
        The centre of mass: α = 1/(1 + com), com ≥ 0.
    adjust : bool, optional
        True: divide by the sum of the weights. False: the first value stands for all before
        it, y_i = (1 − α)·y_{i−1} + α·x_i.
    axis : int, optional
        The last one when not given, as of filters; pandas runs down a table, along axis 0.
    statistic : {"mean", "sum", "var", "std", "cov", "corr"}, optional
    other : array_like, optional
        The second series of "cov" and "corr", of the shape of `x`. A step counts where both are
        there.
    min_periods : int, optional
        Results of fewer values are nan.
    ignore_na : bool, optional
        Weights fall with every value that is there, and not with those that are missing.
    times : array_like, optional
        When each step was, 1-d: datetime64, or numbers with a number as `halflife`. Weights
        fall by 2**(−Δt/halflife), or with `alpha`, `span` or `com` by (1 − α)**(Δt/halflife).
    bias : bool, optional
        False: variances and covariances are divided by 1 − Σw²/(Σw)².
    reset : array_like, optional
        Where a statistic starts anew: a mask, or labels of groups that follow each other; see
        :func:`mgrec.linear_recurrence`.

    Returns
    -------
    array or dask.array.Array
        float64, or float32 if `x` (and `other`) is. nan before the first value.

    Raises
    ------
    TypeError
        `x` is complex, a weight is no number, or a flag is no bool.
    RuntimeError
        A CUDA graph is being captured: the host looks for missing values.
    ValueError
        None or several of the weights are given, or one is out of its range; shapes do not fit;
        `adjust` is False for a sum; `other` is missing, or not wanted.

    Notes
    -----
    *Accuracy.* Everything is computed in float64, whatever the dtype is. The error of a mean y_i
    is at most 4·(min(i, 1/α) + 1)·2⁻⁵³ of the largest size among x_0 … x_i, and that of float32
    one more unit in the last place; larger only where α·x is a subnormal number, and where
    differences of values overflow. CuPy takes subnormal float32 numbers for 0.

    *Variances* are those of exact arithmetic but for relative rounding errors of the weights. Of
    one value they are 0 with `bias` and nan without, also after steps without a value. Of two they
    are (x_1 − x_2)²/2 without `bias`, however little the first one weighs. pandas subtracts Σw²
    from (Σw)², and has nan or fewer digits where one value has nearly all the weight. nan without
    `bias` means that one value has all of it: the only one, or every new one with α = 1.

    *As pandas.* Where α is 1/2 and `adjust` is False, a new value weighs 1 less what the mean so
    far weighs, 2**−g after g steps: pandas does so for com = 1. pandas refuses `times` for all
    but the mean.

    *Cost.* In host memory one pass that reads `x` and writes the results, and a second one that
    reads over several Dask chunks. On a GPU a mean without missing values is one filter. All
    else are linear recurrences one after the other, 3 for a mean and 5 for a variance; there
    the variance of a constant series may be a rounding error instead of 0.

    References
    ----------
    .. [1] D. H. D. West, "Updating mean and variance estimates: an improved method", Comm. ACM 22
       (1979): the steps.
    .. [2] T. F. Chan, G. H. Golub and R. J. LeVeque, "Updating formulae and a pairwise algorithm
       for computing sample variances" (1979): across chunks.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.signal import ewm
    >>> ewm(np.array([1.0, 2.0, 3.0]), alpha=0.5, adjust=False)
    array([1.  , 1.5 , 2.25])
    >>> ewm(np.array([1.0, np.nan, 3.0]), span=3)
    array([1. , 1. , 2.6])
    >>> ewm(np.array([1.0, 2.0, 4.0]), com=1, statistic="std")
    array([       nan, 0.70710678, 1.58113883])

    By time: a day after a value its weight is half.

    >>> days = np.array(["2026-01-01", "2026-01-02", "2026-01-05"], "M8[D]")
    >>> ewm(np.array([1.0, 2.0, 4.0]), times=days, halflife=np.timedelta64(1, "D"))
    array([1.        , 1.66666667, 3.63157895])
    """
    rates = {"alpha": alpha, "span": span, "halflife": halflife, "com": com}
    weights = as_weights(rates, times is not None, statistic, adjust, ignore_na, bias, min_periods)
    series = as_series(x, other, statistic)
    x = series["x"]
    axis = as_axis(axis, x.shape)
    if times is not None:
        series["gaps"] = as_gaps(times, halflife, x, axis)
    if reset is not None:
        check_together([("x", x), ("reset", reset)], [])
        series["marks"] = as_reset(reset, x.shape, axis, False)
    is_narrow = all(each.dtype.char == "f" for name, each in series.items() if name in "xy")
    dtype = np.dtype(np.float32 if is_narrow else np.float64)
    if 0 in x.shape:
        return x.astype(dtype)
    if not is_on_gpu(x):
        return solve(ewm_problem(weights, series, axis, dtype))
    return _on_gpu(weights, series, axis, dtype)


def _on_gpu(weights: Weights, series: dict[str, Any], axis: int, dtype: np.dtype[Any]) -> Any:
    x = series["x"]
    if not is_lazy(x):
        refuse_capture("ewm", "the host looks for missing values")
    if set(series) == {"x"} and weights.statistic == "mean" and weights.least == 1:
        largest = math.nan if is_lazy(x) else largest_size(x)
        if math.isfinite(largest):
            return mean_without_gaps(x, largest, weights, axis).astype(dtype, copy=False)
    full = {name: without_empty_chunks(each) for name, each in series.items()}
    return chunked_like(by_recurrences(weights, full, axis, dtype), x)
