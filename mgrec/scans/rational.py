"""Rational (Möbius) recurrences."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..core.contract.problem import Problem
from ..solve import solved_by_kind
from .arguments import as_rows, check
from .maps import mobius


@partial(solved_by_kind, by_numbers=False)
def rational_recurrence(
    a: Any,
    b: Any,
    c: Any,
    d: Any,
    initial: Any,
    *,
    axis: int = -1,
    reverse: bool = False,
    reset: Any = None,
    memory: str = "stream",
    method: str = "auto",
    out: Any = None,
) -> Problem:
    """Solve p_i = (a_i·p_{i-1} + b_i) / (c_i·p_{i-1} + d_i) along an axis.

    Parameters
    ----------
    a, b, c, d : scalar, array_like or Coefficient
        Real coefficients, which broadcast against each other.
    initial : scalar or array_like
        p before the first step. ``numpy.inf`` is a valid state.
    axis, reverse, reset, memory, method, out
        See :func:`mgrec.linear_recurrence`.

    Returns
    -------
    array or dask.array.Array
        p, of the broadcast shape and of the dtype ``numpy.result_type`` of all arguments; float64
        for integers.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        As for :func:`mgrec.linear_recurrence`. Complex numbers raise TypeError.

    Notes
    -----
    *Accuracy.* Let M_i = [[a_i, b_i], [c_i, d_i]], (x_i, y_i) = M_i···M_1 (initial, 1) and (X_i,
    Y_i) = |M_i|···|M_1| (|initial|, 1). To first order in the unit roundoff u, for any chunks and
    as long as no state overflows or underflows,

        |p_i − exact| ≤ 8·(i + 1)·u·(X_i + |p_i|·Y_i) / |y_i|

    This is 16·(i + 1)·u·|p_i| if all coefficients are positive.

    *Special values.* The state is projective: a zero denominator gives inf, and the next step gives
    a/c, where a plain loop would give inf/inf = nan. 0/0, of a singular map, is nan. A state above
    the largest number is inf, and one below the smallest is 0. :doc:`/how/linear` describes how
    pieces of a row continue from there.

    References
    ----------
    .. [1] H. S. Stone, "An efficient parallel algorithm for the solution of a tridiagonal
       linear system of equations", J. ACM 20 (1973): linear fractional recurrences by
       products of matrices.

    Examples
    --------
    The golden ratio as a continued fraction, p = 1 + 1/p:

    >>> import numpy as np, mgrec
    >>> mgrec.rational_recurrence(1.0, np.ones(6), 1.0, 0.0, initial=1.0)
    array([2.        , 1.5       , 1.66666667, 1.6       , 1.625     ,
           1.61538462])

    A state that passes through infinity:

    >>> mgrec.rational_recurrence(2.0, 1.0, np.array([1.0, 1.0]), [-1.0, 0.0], initial=1.0)
    array([inf,  2.])
    """
    operands = {"a": a, "b": b, "c": c, "d": d}
    options = {"memory": memory, "method": method, "out": out, "reset": reset}
    return check(mobius, operands, as_rows(initial), axis, reverse, "f", **options)
