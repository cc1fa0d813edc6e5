"""Kinds of calls: all that what is prepared for a call depends on."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from ...algebra.coefficient import Coefficient
from ...algebra.transfer_map import TransferMap

_PLAIN = {bool, str, type(None)}
_NUMBERS = {int, float, complex}
_SETTINGS = {"axis", "reverse", "memory", "method", "out"}
"""Options whose numbers are none that a recurrence computes with."""
_MOST_BYTES = 4096
"""Of a NumPy array whose values tell a kind: coefficients of a filter."""


class Call(NamedTuple):
    """A call whose kind can be told.

    Attributes
    ----------
    kind : tuple
    leaves : list
        The CuPy arrays that it is given, in order, on the current device, and the numbers whose
        values the kind does not tell.
    out : CuPy array, or tuple of these, optional
    """

    kind: tuple[Any, ...]
    leaves: list[Any]
    out: Any


Tell = tuple[list[Any], list[Any]]
"""A kind and the leaves, as far as they are told."""


def call_of(
    function: Any, operands: Sequence[Any], options: dict[str, Any], by_numbers: bool
) -> Call | None:
    """A call of a public function; None where something hinders: most are of NumPy arrays.

    Where not `by_numbers`, of numbers among operands and states the types count alone.
    """
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return None
    ndarray = cupy.ndarray
    if ndarray not in map(type, operands) and ndarray not in map(type, options.values()):
        return None
    device = cupy.cuda.runtime.getDevice()
    told: Tell = ([function, device, *options], [])
    kind, leaves = told
    for value in operands:
        if type(value) is ndarray:  # most, and the quicker for it
            memory = value.data
            if memory.device_id != device:
                return None
            kind += (value.shape, value.strides, value.dtype, memory.ptr & 15)
            leaves.append(value)
        elif not _tell(told, value, ndarray, device, not by_numbers):
            return None
    out = None
    for name, value in options.items():
        if name == "out":
            out = value
        elif not _tell(told, value, ndarray, device, not by_numbers and name not in _SETTINGS):
            return None
    if out is not None and not _tell(told, out, ndarray, device, False):
        return None
    return Call(tuple(kind), leaves, out)


def _tell(told: Tell, value: Any, ndarray: Any, device: int, by_type: bool) -> bool:
    """Add a value; False where it hinders. Of numbers `by_type` the type counts alone."""
    own, (kind, leaves) = type(value), told
    if own is ndarray:
        memory = value.data
        kind += (value.shape, value.strides, value.dtype, memory.ptr & 15)
        leaves.append(value)
        return bool(memory.device_id == device)
    if own in _NUMBERS:
        if by_type:
            kind.append(own)
            leaves.append(value)
        else:
            kind += (own, repr(value))  # 0.0 is not -0.0
        return True
    if own in _PLAIN:
        kind += (own, value)
        return True
    if own is TransferMap or isinstance(value, (type, np.dtype)):
        kind.append(value)
        return True
    if own is tuple or own is list:
        kind += (own, len(value))
        return all(_tell(told, item, ndarray, device, by_type) for item in value)
    if own is Coefficient:
        kind += (own, value.function)
        return _tell(told, value.arrays, ndarray, device, by_type)
    return _tell_numpy(told, value, by_type)


def _tell_numpy(told: Tell, value: Any, by_type: bool) -> bool:
    if not isinstance(value, (np.generic, np.ndarray)):
        return False
    kind, leaves = told
    kind += (type(value), value.dtype)
    if by_type:
        leaves.append(value)
        return value.ndim == 0
    kind += (value.shape, value.tobytes())
    return value.nbytes <= _MOST_BYTES


def ordered_leaves(
    build: Callable[..., Any], operands: Sequence[Any], options: dict[str, Any], call: Call
) -> tuple[list[tuple[int, Any]], tuple[int, ...]]:
    """The leaves of a call, numbered, in the order of the function's parameters; those of `out`.

    Parameters
    ----------
    build : callable
        The public function, of these arguments.
    call : Call
    """
    names = [name for name in options if name not in _SETTINGS]
    values = [*operands, *(options[name] for name in names)]
    numbered = iter(enumerate(call.leaves))
    own = [[next(numbered) for _ in _leaves(value, call.leaves)] for value in values]
    outs = tuple([number for number, _ in numbered])
    numbers = count(len(operands))
    bound = inspect.signature(build).bind_partial(
        *range(len(operands)), **{name: next(numbers) for name in names}
    )
    order = [number for value in bound.arguments.values() for number in _flat(value)]
    return [leaf for number in order for leaf in own[number]], outs


def _leaves(value: Any, known: Sequence[Any]) -> Iterator[Any]:
    if any(value is leaf for leaf in known):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item, known)
    elif isinstance(value, Coefficient):
        yield from _leaves(value.arrays, known)


def _flat(value: Any) -> Sequence[int]:
    return value if isinstance(value, tuple) else (value,)
