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


class Teller:
    """Tells the kind of a call, value after value."""

    def __init__(self, ndarray: Any, device: int) -> None:
        self.ndarray, self.device = ndarray, device
        self.kind: list[Any] = [device]
        self.leaves: list[Any] = []

    def tell(self, value: Any, by_type: bool) -> bool:
        """Add a value; False where it hinders. Of numbers `by_type` the type counts alone."""
        own = type(value)
        if own is self.ndarray:
            memory = value.data
            self.kind += (value.shape, value.strides, value.dtype, memory.ptr % 16)
            self.leaves.append(value)
            return bool(memory.device_id == self.device)
        if own in _NUMBERS:
            if by_type:
                self.kind.append(own)
                self.leaves.append(value)
            else:
                self.kind += (own, repr(value))  # 0.0 is not -0.0
            return True
        if own in _PLAIN:
            self.kind += (own, value)
            return True
        return self._tell_other(value, own, by_type)

    def _tell_other(self, value: Any, own: Any, by_type: bool) -> bool:
        if own is tuple or own is list:
            self.kind += (own, len(value))
            return all(self.tell(item, by_type) for item in value)
        if own is TransferMap:
            self.kind.append(value)
            return True
        if own is Coefficient:
            self.kind += (own, value.function, len(value.arrays))
            return all(self.tell(array, by_type) for array in value.arrays)
        return self._tell_numpy(value, by_type)

    def _tell_numpy(self, value: Any, by_type: bool) -> bool:
        if not isinstance(value, (np.generic, np.ndarray)):
            return False
        self.kind += (type(value), value.dtype)
        if by_type:
            self.leaves.append(value)
            return bool(value.ndim == 0)
        self.kind += (value.shape, value.tobytes())
        return bool(value.nbytes <= _MOST_BYTES)


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
    if ndarray not in map(type, (*operands, *options.values())):
        return None
    teller = Teller(ndarray, cupy.cuda.runtime.getDevice())
    teller.kind += (function, *options)
    for value in operands:
        if not teller.tell(value, not by_numbers):
            return None
    for name, value in options.items():
        if name != "out" and not teller.tell(value, not by_numbers and name not in _SETTINGS):
            return None
    out = options.get("out")
    if not teller.tell(out, False):
        return None
    return Call(tuple(teller.kind), teller.leaves, out)


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
    values = [*operands, *(value for name, value in options.items() if name != "out")]
    numbered = iter(enumerate(call.leaves))
    own = [[next(numbered) for _ in _leaves(value, call.leaves)] for value in values]
    outs = tuple([number for number, _ in numbered])
    names = [name for name in options if name != "out"]
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
