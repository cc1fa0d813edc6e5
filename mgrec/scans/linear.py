"""Linear recurrences of first order."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..core.algebra.transfer_map import affine
from ..core.contract.problem import Problem
from ..solve import solved_by_kind
from .arguments import as_rows, check


@partial(solved_by_kind, by_numbers=False)
def linear_recurrence(
    s: Any,
    t: Any,
    initial: Any = None,
    *,
    axis: int = -1,
    reverse: bool = False,
    reset: Any = None,
    memory: str = "stream",
    method: str = "auto",
    out: Any = None,
) -> Problem:
    """Solve w_i = s_i·w_{i-1} + t_i along an axis.

    Parameters
    ----------
    s : scalar, array_like or Coefficient
        Coefficients. A scalar is constant and is never expanded to an array. An array broadcasts
        against `t`. A :class:`mgrec.Coefficient` is computed on the fly.
    t : array_like, scalar or Coefficient
        Inhomogeneous terms: integers, floats or complex numbers of at most 64 bits a component, in
        a NumPy, CuPy or Dask array, or in an array of another library (see Notes).
    initial : scalar or array_like, optional
        w before the first step: a scalar, or an array of the shape of the result without `axis`.
        The default is 0.
    axis : int, optional
        Axis of the broadcast operands along which the recurrence runs. The default is the last.
    reverse : bool, optional
        If True, solve w_i = s_i·w_{i+1} + t_i, from the last step to the first.
    reset : array_like, optional
        Mask or labels that divide the axis into segments. The state is reset to `initial` before
        each true element of a mask, and at each change of label. See :ref:`guide-reset`.
    memory : {"stream", "two-pass"}, optional
        Memory use of Dask arrays. "stream" keeps the operands of a group of chunks between the
        phases; "two-pass" reads each chunk twice instead. See :ref:`guide-chunks`.
    method : {"auto", "single-pass", "p-scheme"}, optional
        Method for arrays on a GPU. "single-pass" reads each operand once. "p-scheme" is Wakatani's
        P-scheme/G [1]_, which reads them twice; :mod:`mgrec.tuning` has its constants. "auto"
        chooses the faster one, currently always "single-pass".
    out : array, optional
        C-contiguous NumPy or CuPy array of the shape and dtype of the result, into which w is
        written. It must not share memory with an operand. Not supported for Dask arrays.

    Returns
    -------
    array or dask.array.Array
        w, of the broadcast shape and of dtype ``numpy.result_type(s, t, initial)``, computed in
        that dtype (float16 in float32). The array type is that of the operands: NumPy, CuPy on the
        operands' device and the current stream, or a lazy Dask array with the chunks of `t` if any
        operand is a Dask array. `out` is returned if it is given.

    Raises
    ------
    TypeError
        If a dtype is not supported (bool, object, longdouble, dates), an array is masked, NumPy
        and CuPy arrays are mixed, or a Coefficient cannot be compiled.
    ValueError
        If shapes, chunks or devices do not match, or `axis` is out of range.
    RuntimeError
        If a CUDA graph that is being captured cannot contain the call; see
        :ref:`guide-cuda-graphs`.

    See Also
    --------
    mgrec.scan : Solve recurrences of any transfer map.

    Notes
    -----
    *Accuracy.* Let u be the unit roundoff and W_i = |s_i|·W_{i-1} + |t_i|, W_0 = |initial|. If W
    stays finite in the dtype, the error of w_i is at most 4·(i + 1)·u·W_i, plus a term for
    subnormal numbers; complex numbers have four times this bound. The sequential loop has half of
    it. Integers are exact modulo 2**bits.

    *Special values.* nan, +inf and -inf occur in the same elements as in the sequential loop, and
    results are finite where the loop's are. :doc:`/how/linear` lists the exceptions: overflows
    that rounding alone decides, complex numbers, and segments on a GPU.

    *Cost.* One thread reads the operands once. Several threads, and Dask chunks, read them twice
    unless the recurrence is contractive. An unstable recurrence over many Dask chunks runs at the
    speed of one worker. :doc:`/how/linear` derives all bounds and conditions.

    *Other arrays and repeated calls.* See :ref:`guide-dlpack`, :ref:`guide-tables`,
    :ref:`guide-xarray` and :ref:`guide-prepared-calls`.

    References
    ----------
    .. [1] A. Wakatani, the P-scheme (2004) and, for GPUs, P-scheme/G (2012, 2013).

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> s = np.array([0.5, 0.0, 2.0])
    >>> mgrec.linear_recurrence(s, np.ones((2, 3)), initial=[1.0, 2.0], reverse=True)
    array([[1.5, 1. , 3. ],
           [1.5, 1. , 5. ]])
    """
    start = 0 if initial is None else as_rows(initial)
    options = {"memory": memory, "method": method, "out": out, "reset": reset}
    return check(affine, {"s": s, "t": t}, start, axis, reverse, **options)
