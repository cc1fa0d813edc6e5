"""Recurrences of any transfer map, ready-made or your own."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..core.algebra.transfer_map import TransferMap
from ..core.contract.problem import Problem
from ..core.contract.recurrence import Arrays
from ..solve import solved_by_kind
from .arguments import check
from .maps import mobius


@partial(solved_by_kind, by_numbers=False)
def scan(
    transfer_map: TransferMap,
    *operands: Any,
    initial: Any,
    axis: int = -1,
    reverse: bool = False,
    reset: Any = None,
    memory: str = "stream",
    method: str = "auto",
    out: Any = None,
) -> Problem:
    """Solve a recurrence whose steps are transfer maps.

    Parameters
    ----------
    transfer_map : TransferMap
        Map of :mod:`mgrec.maps`, or your own :class:`mgrec.TransferMap`.
    *operands : scalar, array_like or Coefficient
        Arguments of ``transfer_map.lift``, in its order. They broadcast against each other.
    initial : scalar or array_like, or tuple of these
        State before the first step; a tuple if the state is a tuple. Each element is a scalar, or
        an array of the shape of the result without `axis`.
    axis, reverse, reset, memory, method, out
        See :func:`mgrec.linear_recurrence`. `out` is a tuple if the state is a tuple.

    Returns
    -------
    array, dask.array.Array, or tuple of these
        State after each step, one array for each scalar of the state, of dtype
        ``numpy.result_type`` of the operands and `initial`. States and maps are computed in that
        dtype (float16 in float32), so that a map of your own over integers keeps no fractions.
        ``maps.mobius`` converts integers to float64.

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
    if not isinstance(transfer_map, TransferMap):
        raise TypeError(f"transfer_map must be a TransferMap; got {transfer_map!r}")
    named = dict(zip(_names(transfer_map, len(operands)), operands, strict=True))
    dtype_kinds = "f" if transfer_map == mobius else "iufc"
    problem = check(
        transfer_map, named, initial, axis, reverse, dtype_kinds,
        memory=memory, method=method, out=out, reset=reset,
    )  # fmt: skip
    dtype = problem.recurrence.dtype
    _check_maps(transfer_map, dtype, len(operands))
    _check_state(transfer_map, dtype, len(initial) if isinstance(initial, tuple) else 0)
    return replace(problem, to_return_value=_states) if problem.is_several else problem


def _states(results: Arrays, carry_out: Any) -> Arrays:
    return results


def _names(transfer_map: TransferMap, count: int) -> tuple[str, ...]:
    """Return the names of the parameters of ``lift``, for messages."""
    code = transfer_map.lift.__code__
    most = code.co_argcount
    least = most - len(transfer_map.lift.__defaults__ or ())
    if not least <= count <= most:
        raise ValueError(
            f"lift of {transfer_map.name} takes {most} operands "
            f"{code.co_varnames[:most]}; got {count}"
        )
    return code.co_varnames[:count]


@lru_cache(maxsize=1024)
def _check_maps(transfer_map: TransferMap, dtype: np.dtype[Any], operands: int) -> None:
    """Raise TypeError unless `lift` and `compose` return tuples as long as the identity.

    Both are called with zeros.
    """
    zero, width = dtype.type(0), len(transfer_map.identity)
    step = (zero,) * width
    _check_count("compose", transfer_map, "(earlier, later)", step, step)
    _check_count("apply", transfer_map, "(map, state)", step, zero)
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


def _check_count(role: str, transfer_map: TransferMap, wanted: str, *arguments: Any) -> None:
    """Raise unless a function of a map takes the given number of arguments."""
    signature = inspect.signature(getattr(transfer_map, role))
    try:
        signature.bind(*arguments)
    except TypeError:
        raise TypeError(
            f"{role} of {transfer_map.name} must take {wanted}; got a function of {signature}"
        ) from None


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
                f"initial must be a state that apply of {transfer_map.name} takes; got {got} "
                f"({error})"
            ) from error
    if (len(state) if isinstance(state, tuple) else 0) != count:
        wanted = f"a tuple of {len(state)}" if isinstance(state, tuple) else "one scalar"
        raise ValueError(
            f"initial must be {wanted}, as the state that apply of {transfer_map.name} "
            f"returns; got {got}"
        )
