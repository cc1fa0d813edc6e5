"""Coefficients that kernels compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .fingerprint import StepFunction, warn_of_variants


class Coefficient:
    """A coefficient that kernels compute instead of reading it from memory.

    Parameters
    ----------
    function : callable, ``(index, *values) -> scalar``
        Plain Python function on scalars, of arithmetic and NumPy ufuncs. ``index`` is the position
        of the step along the axis: an int64, 0 for the first element in either direction.
    *arrays : array_like
        Further operands of the function. Each one broadcasts against the operands of the
        recurrence, and the function gets its value at the step.

    Notes
    -----
    *Dtype.* A coefficient has the dtype of the recurrence, like a Python scalar, and never changes
    the dtype of the result. The function computes in the dtypes of NumPy's promotion: a Python
    float times the index is float64.

    *Cost.* A coefficient costs no memory. Its arithmetic is executed twice for an array that is
    divided into chunks: in precompute and in determine.

    *Accuracy on a GPU.* In a float32 recurrence, sines and cosines of float64 are within 2**-30 of
    their values if only sums and products combine them to the coefficient. The coefficient is then
    within 0.63 units in its last place of the function's value. In all other cases, and in float64,
    they are CUDA's own.

    *Constants.* Values that the function reads from modules and its closure are read once, at
    compilation. A function with other values is compiled again: see :class:`mgrec.TransferMap`.
    Pass numbers that change from call to call in `arrays`, where a scalar stays a scalar:
    ``mgrec.Coefficient(lambda i, rate: rate / (i + 1), rate)``.

    References
    ----------
    A. Wakatani's papers on the P-scheme for GPUs (P-scheme/G, 2012 and 2013): their cases L,
    M and H differ in the operations of such a function.

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
        """Return a coefficient of the same function with other arrays."""
        coefficient = object.__new__(cls)
        coefficient.function, coefficient.arrays = function, arrays
        return coefficient

    def map_arrays(self, function: Callable[[Any], Any]) -> Coefficient:
        """Return a coefficient with ``function(arrays)`` as its arrays."""
        return Coefficient.of(self.function, *function(self.arrays))

    def __repr__(self) -> str:
        name = getattr(self.function.function, "__name__", "function")
        return f"Coefficient({name}, {len(self.arrays)} arrays)"
