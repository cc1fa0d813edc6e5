"""The public functions for linear, rational and any other recurrences of transfer maps."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..core.algebra.transfer_map import TransferMap, affine
from ..core.contract.problem import Composed, Problem
from ..core.contract.recurrence import Arrays
from ..solve import prepared_function
from .arguments import as_rows, check
from .maps import mobius
from .matrix.arguments import check_matrix_scan, matrix_problem
from .matrix.maps import MatrixMap


@partial(prepared_function, by_numbers=False, takes_group=True)
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
        Axis of the broadcast operands along which the recurrence runs. The default is the last, or
        the index of a DataFrame. `dim` names one of a DataArray.
    reverse : bool, optional
        If True, solve w_i = s_i·w_{i+1} + t_i, from the last step to the first.
    reset : array_like, optional
        Mask or labels that divide the axis into segments. The state is reset to `initial` before
        each true element of a mask, and at each change of label. See :ref:`guide-reset`.
    lengths : array_like of int, optional
        Lengths of the segments, in place of `reset`. Their sum is the number of steps.
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
    group : mgrec.collective.Group, optional
        Processes that call the function together, each with its part of the axis. See
        :ref:`guide-ranks`.

    Returns
    -------
    array or dask.array.Array
        w, of the broadcast shape and of dtype ``numpy.result_type(s, t, initial)``, computed in
        that dtype (float16 and bfloat16 in float32). The array type is that of the operands: NumPy,
        CuPy on the operands' device and the current stream, or a lazy Dask array with the chunks
        of `t` if any operand is a Dask array. `out` is returned if it is given.

    Raises
    ------
    TypeError
        If a dtype is not supported (object, longdouble, dates), an array is masked, NumPy
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


@partial(prepared_function, by_numbers=False, takes_group=True)
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
    axis, reverse, reset, lengths, memory, method, out, group
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


@partial(prepared_function, by_numbers=False, takes_group=True)
def scan(
    transfer_map: TransferMap | MatrixMap,
    *operands: Any,
    initial: Any,
    axis: int = -1,
    reverse: bool = False,
    reset: Any = None,
    memory: str = "stream",
    method: str = "auto",
    out: Any = None,
) -> Problem | Composed:
    """Solve a recurrence whose steps are transfer maps.

    Parameters
    ----------
    transfer_map : TransferMap or MatrixMap
        Map of :mod:`mgrec.maps`, or your own :class:`mgrec.TransferMap`. The operands and the
        result of :func:`mgrec.maps.matrix` have further axes, which that function describes.
    *operands : scalar, array_like or Coefficient
        Arguments of ``transfer_map.lift``, in its order. They broadcast against each other.
    initial : scalar or array_like, or tuple of these
        State before the first step; a tuple if the state is a tuple. Each element is a scalar, or
        an array of the shape of the result without `axis`.
    axis, reverse, reset, lengths, memory, method, out, group
        See :func:`mgrec.linear_recurrence`. `out` is a tuple if the state is a tuple.

    Returns
    -------
    array, dask.array.Array, or tuple of these
        State after each step, one array for each scalar of the state, of dtype
        ``numpy.result_type`` of the operands and `initial`. States and maps are computed in that
        dtype (float16 and bfloat16 in float32), so that a map of your own over integers keeps no
        fractions. ``maps.mobius`` converts integers to float64.

    Raises
    ------
    TypeError
        If `transfer_map` is not a :class:`TransferMap`, its functions cannot be compiled or do not
        return tuples of the length of its identity, or a dtype is not supported (``maps.mobius`` is
        real).
    ValueError
        If shapes or chunks do not match, ``lift`` takes another number of operands, ``apply`` does
        not accept `initial`, or a map of your own breaks a law on sampled steps of the first call.
        Dask arrays raise the last one when the first chunk is computed.
    RuntimeError
        As for :func:`mgrec.linear_recurrence`.

    Notes
    -----
    *Accuracy.* On one thread ``apply`` alone computes the states, which have the bits of the
    sequential loop. Several threads and Dask chunks also use ``compose``, and are as accurate as it
    is; :doc:`/how/linear` states when bits and special values differ.

    *Cost.* The first call with a map of your own, and the first one with at least 128 steps,
    compiles ``compose`` and checks the laws on some of its steps, which takes some 10 ms.
    :func:`mgrec.check_laws` tests more.

    Examples
    --------
    Waiting times in a queue with one server, W = max(W + s, 0), where s is the service time
    of a customer minus the time to the next arrival (Lindley 1952):

    >>> import numpy as np, mgrec
    >>> s = np.array([2.0, -1.0, -3.0, 4.0, -1.0])
    >>> mgrec.scan(mgrec.maps.max_plus, s, 0.0, initial=0.0)
    array([2., 1., 0., 4., 3.])

    Fibonacci's recurrence, of second order, has a state of two scalars:

    >>> ones = np.ones(6, dtype=np.int64)
    >>> x, y = mgrec.scan(mgrec.maps.matrix2, ones, 1, 1, 0, 0, 0, initial=(1, 0))
    >>> x
    array([ 1,  2,  3,  5,  8, 13])
    """
    if isinstance(transfer_map, MatrixMap):
        return matrix_problem(
            check_matrix_scan(transfer_map, operands, initial, axis, reverse, reset, memory, method, out)
        )
    if not isinstance(transfer_map, TransferMap):
        raise TypeError(f"transfer_map must be a TransferMap; got {transfer_map!r}")
    named = dict(zip(operand_names(transfer_map, len(operands)), operands, strict=True))
    dtype_kinds = "f" if transfer_map == mobius else "iufc"
    problem = check(
        transfer_map,
        named,
        initial,
        axis,
        reverse,
        dtype_kinds,
        memory=memory,
        method=method,
        out=out,
        reset=reset,
    )
    dtype = problem.recurrence.dtype
    _check_maps(transfer_map, dtype, len(operands))
    _check_state(transfer_map, dtype, len(initial) if isinstance(initial, tuple) else 0)
    return replace(problem, to_return_value=_states) if problem.is_several else problem


def _states(results: Arrays, carry_out: Any) -> Arrays:
    return results


def operand_names(transfer_map: TransferMap, count: int) -> tuple[str, ...]:
    """Return the names of the parameters of ``lift``, for messages."""
    code = transfer_map.lift.__code__
    most = code.co_argcount
    least = most - len(transfer_map.lift.__defaults__ or ())
    if not least <= count <= most:
        raise ValueError(
            f"lift of {transfer_map.name} takes {most} operands {code.co_varnames[:most]}; got {count}"
        )
    return code.co_varnames[:count]


@lru_cache(maxsize=1024)
def _check_maps(transfer_map: TransferMap, dtype: np.dtype[Any], operands: int) -> None:
    """Raise TypeError unless `lift` and `compose` return tuples as long as the identity."""
    zero, width = dtype.type(0), len(transfer_map.identity)
    step = (zero,) * width
    pairs = ("compose", "(earlier, later)", step), ("apply", "(map, state)", zero)
    for role, wanted, second in pairs:
        signature = inspect.signature(getattr(transfer_map, role))
        try:
            signature.bind(step, second)
        except TypeError:
            raise TypeError(
                f"{role} of {transfer_map.name} must take {wanted}; got a function of {signature}"
            ) from None
    for role, arguments in (("lift", (zero,) * operands), ("compose", (step, step))):
        with np.errstate(all="ignore"):
            try:
                returned = getattr(transfer_map, role)(*arguments)
            except Exception:
                continue  # The compiler decides: math.log(0) raises in Python alone.
        if not isinstance(returned, tuple) or len(returned) != width:
            raise TypeError(
                f"{role} of {transfer_map.name} must return a tuple of {width}, as the identity "
                f"is; got {returned!r}"
            )


@lru_cache(maxsize=1024)
def _check_state(transfer_map: TransferMap, dtype: np.dtype[Any], count: int) -> None:
    """Call `apply` with zeros: a state of `count` scalars (0: no tuple) must give another."""
    zero = dtype.type(0)
    got = f"a tuple of {count}" if count else "one scalar"
    with np.errstate(all="ignore"):
        try:
            state = transfer_map.apply(
                (zero,) * len(transfer_map.identity), (zero,) * count if count else zero
            )
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"initial must be a state that apply of {transfer_map.name} takes; got {got} ({error})"
            ) from error
    if (len(state) if isinstance(state, tuple) else 0) != count:
        wanted = f"a tuple of {len(state)}" if isinstance(state, tuple) else "one scalar"
        raise ValueError(
            f"initial must be {wanted}, as the state that apply of {transfer_map.name} returns; got {got}"
        )
