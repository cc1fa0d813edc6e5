"""Coefficients computed on the fly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .fingerprint import StepFunction
from .variants import warn_of_variants


class Coefficient:
    """A coefficient computed inside the kernels instead of read from memory.

    Parameters
    ----------
    function : callable, ``(index, *values) -> scalar``
        Plain Python on scalars: arithmetic and NumPy ufuncs. ``index`` is the position of
        the step along the axis, an int64, 0 for the first, in either direction.
    *arrays : array_like
        Further operands of the function; each broadcasts against the recurrence's others,
        and the function gets their values at the step.

    Notes
    -----
    A coefficient takes the dtype of the recurrence, like a Python scalar: it never changes
    the dtype of the result. It costs its arithmetic twice where an array is cut into chunks,
    once to precompute and once to determine, and no memory.

    The function computes in the dtypes in which NumPy would: a Python number times the index is
    float64. On a GPU sines and cosines of float64 in a float32 recurrence are within 2**-30 of
    themselves, where sums and products alone make of them a coefficient that is then within
    0.63 units in its last place of the function's value; elsewhere, and in float64, they are
    CUDA's own.

    Values that the function reads from modules and its closure are read once, when it is
    compiled; a function that reads other numbers is compiled anew: see :class:`mgrec.TransferMap`.
    Numbers that change from call to call belong in `arrays`, where a scalar stays a scalar:
    ``mgrec.Coefficient(lambda i, rate: rate / (i + 1), rate)``.

    References
    ----------
    A. Wakatani's papers on the P-scheme for GPUs (P-scheme/G, 2012 and 2013): their cases L,
    M and H differ in the operations that such a function takes.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> s = mgrec.Coefficient(lambda i: 1 / (i + 1))
    >>> mgrec.linear_recurrence(s, np.zeros(5), initial=1.0)  # 1 / n!
    array([1.        , 0.5       , 0.16666667, 0.04166667, 0.00833333])
    """

    def __init__(self, function: Callable[..., Any], *arrays: Any) -> None:
        if not hasattr(function, "__code__"):
            raise TypeError(
                f"function must be a plain Python function of the step's index, so that it "
                f"can be compiled; got {function!r}"
            )
        self.function = StepFunction(function)
        warn_of_variants("Coefficient", self.function.codes, self.function.fingerprint)
        self.arrays: tuple[Any, ...] = arrays

    @classmethod
    def of(cls, function: StepFunction, *arrays: Any) -> Coefficient:
        """The same function with other arrays."""
        coefficient = object.__new__(cls)
        coefficient.function, coefficient.arrays = function, arrays
        return coefficient

    def __repr__(self) -> str:
        name = getattr(self.function.function, "__name__", "function")
        return f"Coefficient({name}, {len(self.arrays)} arrays)"
