"""Signatures of calls: all properties of the arguments that a prepared call depends on.

A signature has the function, the shapes, strides, dtypes and alignment of CuPy arrays or of short
NumPy arrays, the types of the numbers that recurrences compute with, and the values of everything
else. Computing it takes a microsecond an array.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..core.algebra.coefficient import Coefficient
from ..core.algebra.transfer_map import TransferMap

MOST_STEPS = 1 << 17
"""Size of the largest NumPy arrays: longer calls gain little from preparation. 10^5 float64 steps
took 137 microseconds without it, and take 67."""
_MOST_BYTES = 4096
"""Size of the largest NumPy array whose values are part of a signature, such as coefficients."""
_SETTINGS = ("axis", "reverse", "memory", "method")
"""Options that recurrences do not compute with."""
_PLAIN = {bool, str, type(None), type}
_NUMBERS = {int, float, complex}


class Call(NamedTuple):
    """The signature of a call and its arguments.

    Attributes
    ----------
    signature : tuple
    arguments : list
        In the order of parameters, `out` last: the arrays, all of CuPy on the current device or all
        of NumPy, and the numbers whose values are not part of the signature.
    out : tuple of arrays
        Where to write the results; empty if the call has no `out`.
    is_on_host : bool
    """

    signature: tuple[Any, ...]
    arguments: list[Any]
    out: tuple[Any, ...]
    is_on_host: bool


class SignatureRule:
    """How the calls of one public function are turned into signatures.

    Parameters
    ----------
    build : callable
        Builds the problem from the arguments of a call.
    by_value : sequence of str
        Parameters whose values are part of the signature: coefficients of a filter.
    by_numbers : bool
        Whether the values of all numbers are part of the signature. Otherwise only the types of
        those among operands and states are.
    is_on_host : bool
        Whether calls of NumPy arrays are prepared too.
    """

    def __init__(
        self, build: Callable[..., Any], by_value: Sequence[str], by_numbers: bool, is_on_host: bool
    ) -> None:
        positions = {name: k for k, name in enumerate(inspect.signature(build).parameters)}
        positions["out"] = len(positions)
        self._build, self._by_type, self._is_on_host = build, not by_numbers, is_on_host
        self._by_value = {*by_value, *map(positions.__getitem__, by_value), *_SETTINGS}
        # The build refuses a name that is no parameter.
        self._in_order = lru_cache(
            lambda names: sorted(names, key=lambda name: positions.get(name, -1))
        )

    def read(self, operands: Sequence[Any], options: dict[str, Any]) -> Call | None:
        """Return the call with its signature, or None if the call cannot be cached."""
        cupy, types = sys.modules.get("cupy"), {*map(type, operands), *map(type, options.values())}
        if cupy is not None and cupy.ndarray in types:
            reader = _Reader(cupy.ndarray, cupy.cuda.runtime.getDevice())
        elif self._is_on_host and np.ndarray in types:
            reader = _Reader(np.ndarray, None)
        else:
            return None
        names, by_value, by_type = tuple(options), self._by_value, self._by_type
        reader.signature += (self._build, names, reader.device)
        out = options.get("out")
        results = out if type(out) is tuple else () if out is None else (out,)
        try:
            for position, value in enumerate(operands):
                is_value = position in by_value
                if not (reader.add_value(value) if is_value else reader.add(value, by_type)):
                    return None
            for name in self._in_order(names) if len(names) > 1 else names:
                value, is_value = options[name], name in by_value
                if not (reader.add_value(value) if is_value else reader.add(value, by_type)):
                    return None
        except RecursionError:  # a list that contains itself
            return None
        if results:
            if {*map(type, results)} != {reader.array}:
                return None
            if reader.device is None:
                reader.signature += [array.flags.writeable for array in results]
        return Call(tuple(reader.signature), reader.arguments, results, reader.device is None)


class _Reader:
    """A signature under construction. Methods return False if the call cannot be cached.

    Attributes
    ----------
    signature, arguments : list
        See :class:`Call`.
    array : type
        Type of the arrays whose values are not part of the signature.
    device : int or None
        Device of these arrays; None for NumPy.
    """

    def __init__(self, array: Any, device: int | None) -> None:
        self.array, self.device = array, device
        self.signature: list[Any] = []
        self.arguments: list[Any] = []

    def add(self, value: Any, by_type: bool) -> bool:
        """Add an argument; with `by_type` only the types of numbers."""
        value_type, device = type(value), self.device
        if value_type is self.array and (device is not None or value.ndim):
            self.arguments.append(value)
            if device is None:
                self.signature += (value.shape, value.strides, value.dtype, value.flags.aligned)
                return bool(value.size <= MOST_STEPS)
            memory = value.data
            self.signature += (value.shape, value.strides, value.dtype, memory.ptr & 15)
            return bool(memory.device_id == device)
        if by_type and value_type in _NUMBERS:
            self.signature.append(value_type)
            self.arguments.append(value)
        elif by_type and _is_numpy(value):
            self.signature += (value_type, value.dtype)
            self.arguments.append(value)
            return not value.ndim
        elif value_type is TransferMap or isinstance(value, np.dtype):
            self.signature.append(value)
        elif value_type is tuple or value_type is list:
            self.signature += (value_type, len(value))
            return all(self.add(item, by_type) for item in value)
        elif value_type is Coefficient:
            self.signature += (value_type, value.function)
            return self.add(value.arrays, by_type)
        else:
            return self.add_value(value)
        return True

    def add_value(self, value: Any) -> bool:
        """Add a value; False if it is an array of many numbers, or another object."""
        value_type = type(value)
        if value_type in _PLAIN:
            self.signature += (value_type, value)
        elif value_type in _NUMBERS:
            self.signature += (value_type, repr(value))  # 0.0 is not -0.0
        elif _is_numpy(value) and value.nbytes <= _MOST_BYTES:
            self.signature += (value_type, value.dtype, value.shape, value.tobytes())
        elif value_type is tuple or value_type is list:
            self.signature += (value_type, len(value))
            return all(self.add_value(item) for item in value)
        else:
            return False
        return True


def _is_numpy(value: Any) -> bool:
    """Return whether a value is an array or a number of NumPy; a subclass may be masked."""
    return type(value) is np.ndarray or isinstance(value, np.generic)
