"""Weighted scans (Hou, Wang & Feng 2018)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..core.algebra.operators import MAX_PLUS, PLUS_PLUS, PLUS_TIMES, Operators, as_operators
from ..core.arrays.array_types import cast, in_one_memory, is_lazy, is_narrow, result_type, widened
from ..core.arrays.chunk import has_unknown_sizes
from ..core.arrays.validation import as_array, as_axis, as_flag, as_scalar, broadcast_shape, check_out
from ..distributed.expressions import accepts_expressions
from ..distributed.groups.calls import CALL
from ..distributed.groups.ends import beyond, outermost, start_of_part
from ..solve import with_interop
from ..solve.functions import broadcast_to, concatenate, full_like
from .functions import linear_recurrence, scan
from .maps import max_plus, min_plus

Index = tuple[slice, ...]


@partial(with_interop, takes_group=True)
@accepts_expressions
def weighted_scan(
    x: Any,
    weights: Any,
    *,
    operators: tuple[str, str] = ("+", "*"),
    axis: int = -1,
    inclusive: bool = False,
    out: Any = None,
) -> Any:
    """Accumulate all elements before each one, weighted by the steps between them.

    The weighted scan of [1]_ is B_j = ◇_{u<j} (x_u ∘ w_{u+1} ∘ w_{u+2} ∘ … ∘ w_j), where w_j is the
    weight of the step from j − 1 to j. It is the result of this loop::

        B[0], C[0] = identity, x[0]
        for j in range(1, n):
            B[j] = C[j - 1] ∘ w[j]
            C[j] = B[j] ◇ x[j]

    Parameters
    ----------
    x : array_like, CuPy or dask.array.Array
        Integers or floats; also complex numbers if ◇ is "+".
    weights : scalar, array_like, CuPy or dask.array.Array
        w, which broadcasts against `x`. A scalar is a constant weight. w_0 has no effect, but must
        be finite.
    operators : (str, str), optional
        ◇ and ∘: ("+", "*"), ("max", "+"), ("min", "+") or ("+", "+"). In the last pair ∘ does not
        distribute over ◇, and each weight is added once:
        B_j = x_0 + … + x_{j−1} + w_1 + … + w_j.
    axis : int, optional
        Axis of the broadcast operands along which to accumulate. The default is the last, or the
        index of a DataFrame.
    inclusive : bool, optional
        If True, return C_j = B_j ◇ x_j.
    out : array, optional
        C-contiguous array of the shape and dtype of the result, into which the result is written.
        It must not share memory with an operand. Not supported for Dask arrays.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the axis. See :ref:`guide-ranks`.

    Returns
    -------
    array or dask.array.Array
        B, or C if `inclusive`, of the broadcast shape and of dtype ``numpy.result_type(x,
        weights)``. The array type is that of the operands, as for :func:`mgrec.linear_recurrence`.
        B_0 is the identity of ◇: 0 for "+"; for "max" and "min" an infinity, or the lowest or
        highest integer of the dtype.

    Raises
    ------
    RuntimeError
        If a CUDA graph that is being captured cannot contain the :func:`mgrec.linear_recurrence`,
        or the scan, that solves this.
    TypeError
        If a dtype is not supported, or NumPy and CuPy arrays are mixed.
    ValueError
        If `operators` are not such a pair, shapes do not broadcast, or `axis` is out of range.

    See Also
    --------
    mgrec.linear_recurrence : Accuracy and special values of ("+", "*") and ("+", "+").
    mgrec.scan : The same of ("max", "+") and ("min", "+"), by ``maps.max_plus`` and
        ``maps.min_plus``.

    Notes
    -----
    *Accuracy.* Integers are exact modulo 2**bits for ("+", "*") and ("+", "+"). For the other pairs
    they are exact as long as no value leaves the range of the dtype. For ("+", "+") the loop adds
    x_j + w_j to C_{j−1}.

    *Cost.* C takes one scan; B takes one more pass.

    References
    ----------
    .. [1] K. Hou, H. Wang, W. Feng, J. S. Vetter and S. Lee, "Highly efficient
       compensation-based parallelism for wavefront loops on GPUs", IPDPS 2018.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> mgrec.weighted_scan(np.array([1.0, 2.0, 3.0, 4.0]), 0.5)
    array([0.   , 0.5  , 1.25 , 2.125])

    The value at each position of the best score so far, if each step costs 2:

    >>> scores = np.array([0, 5, 1, 0, 7, 0])
    >>> mgrec.weighted_scan(scores, -2, operators=("max", "+"), inclusive=True)
    array([0, 5, 3, 1, 7, 5])
    """
    if (call := CALL.get()) is not None:
        call.is_composed = True
        if out is not None:
            raise TypeError("out must be None with a group: results are new arrays")
    pair = as_operators(operators)
    x, weights = _checked(pair, x, weights)
    shape = broadcast_shape({"x": x, "weights": weights})
    axis, inclusive = as_axis(axis, shape), as_flag("inclusive", inclusive)
    if inclusive and pair != PLUS_PLUS:
        return _inclusive(pair, x, weights, axis, shape, out)
    if has_unknown_sizes([shape]):
        raise ValueError(
            "x and weights must be in chunks of known sizes, unless results are inclusive and ∘ is "
            "not ◇: call compute_chunk_sizes() on them"
        )
    solve = _inclusive if inclusive else _exclusive
    dtype = np.result_type(x.dtype, weights.dtype)
    if not is_narrow(dtype):
        return solve(pair, x, weights, axis, shape, out)
    # Results are rounded once, not those of each operation.
    result = cast(solve(pair, widened(x), widened(weights), axis, shape, None), dtype)
    if out is None:
        return result
    _target(result, (x, weights), out)[...] = result
    return out


def _checked(pair: Operators, x: Any, weights: Any) -> list[Any]:
    """Return both operands as arrays whose dtypes promote to that of the result."""
    named = {"x": as_array("x", x), "weights": as_array("weights", weights)}
    in_one_memory(list(named.items()))
    dtype = result_type([getattr(value, "dtype", value) for value in named.values()])
    if dtype.kind == "c" and pair.accumulate != "+":
        names = pair.accumulate, pair.distribute
        raise TypeError(f"x and weights must be real for operators {names}; got {dtype}")
    return [
        as_scalar(name, value, dtype)
        if not hasattr(value, "dtype")
        else cast(value, dtype)
        if value.dtype.kind == "b"
        else value
        for name, value in named.items()
    ]


def _inclusive(pair: Operators, x: Any, w: Any, axis: int, shape: Any, out: Any) -> Any:
    if pair == PLUS_TIMES:
        return linear_recurrence(w, x, axis=axis, out=out)
    if pair == PLUS_PLUS:
        terms = _with_first(_value(x) + _value(w), x, axis, shape)
        return linear_recurrence(1, terms, axis=axis, out=out)
    transfer_map = max_plus if pair == MAX_PLUS else min_plus
    return scan(transfer_map, w, x, initial=_start(pair, x, w, axis, shape), axis=axis, out=out)


def _with_first(terms: Any, x: Any, axis: int, shape: Any) -> Any:
    """Return x_0, followed by the terms of all later steps."""
    first = _steps(0, 1, axis, shape)
    if is_lazy(terms):
        before = broadcast_to(x, shape)[first]
        return _joined(before, terms[_steps(1, None, axis, shape)], axis, terms.chunks)
    if start_of_part(shape[axis]) == 0:
        terms[first] = _part(x, first, shape)
    return terms


def _joined(first: Any, later: Any, axis: int, chunks: Any) -> Any:
    """Concatenate lazy steps, and restore the chunks of all steps."""
    if first.shape[axis] == 0:
        return later.rechunk(chunks)
    return concatenate([first, later], axis).rechunk(chunks)


def _start(pair: Operators, x: Any, w: Any, axis: int, shape: Any) -> Any:
    """Return the state that gives x_0 after the first step: max(start + w_0, x_0) = x_0."""
    dtype = np.result_type(x.dtype, w.dtype)
    if dtype.kind == "f":
        return pair.identity(dtype)
    # Modulo 2**bits; the lowest integer itself would wrap around.
    first = _steps(0, 1, axis, shape)
    x_0, w_0 = (_part(operand, first, shape).astype(dtype) for operand in (x, w))
    start = x_0 - w_0
    if CALL.get() is not None:
        start, _ = outermost(start, axis, 1)
    if start.shape[axis] == 0:
        return np.zeros(shape[:axis] + shape[axis + 1 :], dtype)
    return start[(slice(None),) * axis + (0,)]


def _exclusive(pair: Operators, x: Any, w: Any, axis: int, shape: Any, out: Any) -> Any:
    """Return B from C: C delayed by one step and weighted once more."""
    before, after = _steps(0, -1, axis, shape), _steps(1, None, axis, shape)
    distribute = np.multiply if pair.distribute == "*" else np.add
    c = _inclusive(pair, x, w, axis, shape, None)
    identity = pair.identity(c.dtype)
    if CALL.get() is not None:
        return _delayed_on_group(distribute, c, w, identity, axis, shape)
    result = _target(c, (x, w), out)
    factors = _part(w, after, shape)
    if is_lazy(c):
        moved = distribute(c[before], factors)
        first = full_like(c[_steps(0, 1, axis, shape)], identity)
        return _joined(first, moved, axis, c.chunks)
    distribute(c[before], factors, out=result[after], casting="same_kind")
    result[_steps(0, 1, axis, shape)] = identity
    return result


def _delayed_on_group(distribute: Any, c: Any, w: Any, identity: Any, axis: int, shape: Any) -> Any:
    """Return C of a rank delayed by one step, whose first one is the last one of other ranks."""
    edge, first = beyond(c, axis, -1), _steps(0, 1, axis, shape)
    if not shape[axis]:
        return c
    before = edge if edge.shape[axis] else full_like(c[first], identity)
    result = concatenate([before, c[_steps(0, -1, axis, shape)]], axis)
    distribute(result, _part(w, _steps(0, None, axis, shape), shape), out=result, casting="same_kind")
    if not edge.shape[axis]:
        result[first] = identity
    return result


def _target(c: Any, operands: tuple[Any, ...], out: Any) -> Any:
    if out is None:
        return None if is_lazy(c) else np.empty_like(c)
    if is_lazy(c):
        raise TypeError("out must be None where an operand is a Dask array: results are lazy")
    return check_out(out, c.shape, c.dtype, operands, None)[0]


def _value(operand: Any) -> Any:
    """Return a 0-d array as a scalar: NumPy arrays with axes cannot be mixed with CuPy arrays."""
    return operand[()] if operand.ndim == 0 and not is_lazy(operand) else operand


def _part(operand: Any, index: Index, shape: Any) -> Any:
    """Return some steps of an operand; a scalar is the same in all steps."""
    if operand.ndim == 0:
        return _value(operand)
    return broadcast_to(operand, shape)[index]


def _steps(start: int, stop: int | None, axis: int, shape: Any) -> Index:
    """Return an index of some steps of all rows."""
    return tuple(slice(start, stop) if k == axis else slice(None) for k in range(len(shape)))
