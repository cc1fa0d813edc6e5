"""Signatures of calls: all properties of the arguments that a prepared call depends on.

A signature has the function, the shapes, strides, dtypes and alignment of CuPy arrays or of short
NumPy arrays, the types of the numbers that recurrences compute with, and the values of everything
else. Computing it takes a microsecond an array.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.algebra.coefficient import Coefficient
from ..core.algebra.transfer_map import TransferMap

MOST_STEPS = 1 << 16
"""Size of the largest NumPy arrays: longer calls gain little from preparation."""
_MOST_BYTES = 4096
"""Size of the largest NumPy array whose values are part of a signature, such as coefficients."""
_SETTINGS = {"axis", "reverse", "memory", "method", "out"}
"""Options that recurrences do not compute with."""
_PLAIN = {bool, str, type(None), type}
_NUMBERS = {int, float, complex}


class Call(NamedTuple):
    """The signature of a call and its arguments.

    Attributes
    ----------
    signature : tuple
    arguments : list
        In the order of the call: the arrays, all of CuPy on the current device or all of NumPy,
        and the numbers whose values are not part of the signature.
    out : array, or tuple of arrays, optional
    is_on_host : bool
    """

    signature: tuple[Any, ...]
    arguments: list[Any]
    out: Any
    is_on_host: bool


@dataclass(frozen=True)
class SignatureRule:
    """How the calls of one public function are turned into signatures.

    Attributes
    ----------
    build : callable
        Builds the problem from the arguments of a call.
    positions : dict
        Position of each parameter.
    by_value : frozenset of str and int
        Names and positions of parameters whose values are part of the signature: coefficients of
        a filter.
    by_numbers : bool
        Whether the values of all numbers are part of the signature. Otherwise only the types of
        those among operands and states are.
    is_on_host : bool
        Whether calls of NumPy arrays are prepared too.
    """

    build: Callable[..., Any]
    positions: dict[str, int]
    by_value: frozenset[str | int]
    by_numbers: bool
    is_on_host: bool

    @classmethod
    def of(
        cls, build: Callable[..., Any], by_value: Sequence[str], by_numbers: bool, is_on_host: bool
    ) -> SignatureRule:
        positions = {
            name: position for position, name in enumerate(inspect.signature(build).parameters)
        }
        values: set[str | int] = {*by_value, *map(positions.__getitem__, by_value)}
        return cls(build, positions, frozenset(values), by_numbers, is_on_host)

    def read(self, operands: Sequence[Any], options: dict[str, Any]) -> Call | None:
        """Return the call with its signature, or None if the call cannot be cached."""
        cupy, types = sys.modules.get("cupy"), {*map(type, operands), *map(type, options.values())}
        if cupy is not None and cupy.ndarray in types:
            builder: _SignatureBuilder = _OnDevice(cupy)
        elif self.is_on_host and np.ndarray in types:
            builder = _OnHost()
        else:
            return None
        builder.signature += (self.build, *options)
        try:
            if not self._add(builder, operands, options):
                return None
        except RecursionError:  # a list that contains itself
            return None
        is_on_host = type(builder) is _OnHost
        return Call(tuple(builder.signature), builder.arguments, options.get("out"), is_on_host)

    def _add(
        self, builder: _SignatureBuilder, operands: Sequence[Any], options: dict[str, Any]
    ) -> bool:
        """Add all arguments, `out` last; return False if the call cannot be cached."""
        array, add_array, by_type = builder.array, builder.add_array, not self.by_numbers
        for position, value in enumerate(operands):
            if position in self.by_value:
                is_added = builder.add_value(value)
            elif type(value) is array:  # the most frequent case, without a further call
                is_added = add_array(value, by_type)
            else:
                is_added = builder.add(value, by_type)
            if not is_added:
                return False
        for name, value in options.items():
            if name == "out":
                continue
            if name in self.by_value:
                is_added = builder.add_value(value)
            else:
                is_added = builder.add(value, by_type and name not in _SETTINGS)
            if not is_added:
                return False
        out = options.get("out")
        return out is None or builder.add(out, False)

    def order(
        self, operands: Sequence[Any], options: dict[str, Any], call: Call
    ) -> tuple[list[tuple[int, Any]], tuple[int, ...]]:
        """Return the numbered arguments of a call in the order of parameters, and those of `out`.

        A number is the index in `call.arguments`.
        """
        numbered = iter(enumerate(call.arguments))

        def arguments_of(parameter: str | int, value: Any) -> list[tuple[int, Any]]:
            if parameter in self.by_value or parameter in _SETTINGS:
                return []
            return [next(numbered) for _ in _flatten(value, call.arguments)]

        by_position = [arguments_of(position, value) for position, value in enumerate(operands)]
        by_name = {name: arguments_of(name, value) for name, value in options.items()}
        outs = tuple([number for number, _ in numbered])
        names = sorted(by_name, key=self.positions.__getitem__)
        groups = [*by_position, *(by_name[name] for name in names)]
        return [argument for group in groups for argument in group], outs


def _flatten(value: Any, arguments: Sequence[Any]) -> Iterator[Any]:
    """Yield those of the arguments that a value is or contains."""
    if any(value is argument for argument in arguments):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _flatten(item, arguments)
    elif isinstance(value, Coefficient):
        yield from _flatten(value.arrays, arguments)


class _SignatureBuilder:
    """A signature under construction. Methods return False if the call cannot be cached.

    Attributes
    ----------
    signature, arguments : list
        See :class:`Call`.
    array : type
        Type of the arrays whose values are not part of the signature.
    """

    array: Any

    def __init__(self) -> None:
        self.signature: list[Any] = []
        self.arguments: list[Any] = []

    def add_array(self, value: Any, by_type: bool) -> bool:
        """Add an array of the type `array`."""
        raise NotImplementedError

    def add(self, value: Any, by_type: bool) -> bool:
        """Add an argument; with `by_type` only the types of numbers."""
        value_type = type(value)
        if value_type is self.array:
            return self.add_array(value, by_type)
        if value_type in _NUMBERS:
            if not by_type:
                return self.add_value(value)
            self.signature.append(value_type)
            self.arguments.append(value)
            return True
        if value_type in _PLAIN:
            self.signature += (value_type, value)
            return True
        if value_type is TransferMap:
            self.signature.append(value)
            return True
        if value_type is tuple or value_type is list:
            self.signature += (value_type, len(value))
            return all(self.add(item, by_type) for item in value)
        if value_type is Coefficient:
            self.signature += (value_type, value.function)
            return self.add(value.arrays, by_type)
        if isinstance(value, np.dtype):
            self.signature.append(value)
            return True
        return self._add_numpy(value, by_type)

    def _add_numpy(self, value: Any, by_type: bool) -> bool:
        if not by_type:
            return self.add_value(value)
        if not _is_numpy(value) or value.ndim:
            return False
        self.signature += (type(value), value.dtype)
        self.arguments.append(value)
        return True

    def add_value(self, value: Any) -> bool:
        """Add the values of numbers; False if there are too many, or other objects."""
        value_type = type(value)
        if _is_numpy(value):
            if value.nbytes > _MOST_BYTES:
                return False
            self.signature += (value_type, value.dtype, value.shape, value.tobytes())
            return True
        if value_type is tuple or value_type is list:
            self.signature += (value_type, len(value))
            return all(self.add_value(item) for item in value)
        is_number = value_type in _NUMBERS
        self.signature += (value_type, repr(value) if is_number else None)  # 0.0 is not -0.0
        return is_number


def _is_numpy(value: Any) -> bool:
    """Return whether a value is an array or a number of NumPy; a subclass may be masked."""
    return type(value) is np.ndarray or isinstance(value, np.generic)


class _OnDevice(_SignatureBuilder):
    """The signature of a call with CuPy arrays on the current device."""

    def __init__(self, cupy: Any) -> None:
        self.array, self.device = cupy.ndarray, cupy.cuda.runtime.getDevice()
        self.signature, self.arguments = [self.device], []

    def add_array(self, value: Any, by_type: bool) -> bool:
        memory = value.data
        self.signature += (value.shape, value.strides, value.dtype, memory.ptr & 15)
        self.arguments.append(value)
        return bool(memory.device_id == self.device)


class _OnHost(_SignatureBuilder):
    """The signature of a call with NumPy arrays."""

    array = np.ndarray

    def add_array(self, value: Any, by_type: bool) -> bool:
        if not value.ndim:
            return self._add_numpy(value, by_type)
        self.signature += (value.shape, value.strides, value.dtype, value.flags.aligned)
        self.arguments.append(value)
        return bool(value.size <= MOST_STEPS)
