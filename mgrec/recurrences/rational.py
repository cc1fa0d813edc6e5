"""Rational (Möbius) recurrences."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..families.problem import Problem
from ..families.transfer.door import as_rows, check
from ..placement import solved_by_kind
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
        The coefficients; they broadcast against each other. Real.
    initial : scalar or array_like
        p before the first step; ``numpy.inf`` is a state like any other.
    axis, reverse, reset, memory, method, out
        See :func:`mgrec.linear_recurrence`.

    Returns
    -------
    array or dask.array.Array
        p, of the broadcast shape and of dtype ``numpy.result_type`` of all arguments, float64
        where these are integers.

    Raises
    ------
    TypeError, ValueError
        As :func:`mgrec.linear_recurrence`; complex numbers are refused.

    Notes
    -----
    The state is projective: a zero denominator gives inf, and the next step gives a/c, where
    a naive loop would give inf/inf = nan. 0/0, of a singular map, is nan.

    A run of steps is the product of its 2×2 matrices, whose columns are the images of infinity
    and 0. Each column has its own scale, a power of two, which is exact: the columns may drift
    apart by any factor, as they do around a repelling fixed point, and none is lost. Only states
    over- and underflow. One above the largest number is inf, one below the smallest is 0, and the
    next steps in the same piece of the row continue from there, as in a plain loop (inf stays inf
    until a step has c ≠ 0). The first state of the next piece comes from composed maps, which
    neither over- nor underflow: it is right, where a plain loop has lost it. Pieces are the chunks
    of a Dask array, the threads' shares of a long row and, on a GPU, the steps of one thread. An
    infinite coefficient stands for its limit. Steps whose coefficients are all subnormal lose
    digits, as in a plain loop.

    *Accuracy.* Let M_i = [[a_i, b_i], [c_i, d_i]], (x_i, y_i) = M_i···M_1 (initial, 1) and
    (X_i, Y_i) = |M_i|···|M_1| (|initial|, 1). In exact arithmetic p_i = x_i / y_i, and

        |p_i − exact| ≤ 8·(i + 1)·u·(X_i + |p_i|·Y_i) / |y_i|

    to first order in u, for any chunks, as long as no state over- or underflows: every rounding
    is a relative change of an entry of one M. Where all coefficients are positive this is
    16·(i + 1)·u·|p_i|.

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

    Through infinity:

    >>> mgrec.rational_recurrence(2.0, 1.0, np.array([1.0, 1.0]), [-1.0, 0.0], initial=1.0)
    array([inf,  2.])
    """
    operands = {"a": a, "b": b, "c": c, "d": d}
    options = {"memory": memory, "method": method, "out": out, "reset": reset}
    return check(mobius, operands, as_rows(initial), axis, reverse, "f", **options)
