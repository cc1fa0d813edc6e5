"""Kinds of calls: all that what is prepared for a call depends on."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
_MOST_STEPS = 1 << 16
"""Of NumPy arrays: larger calls take long beside what is prepared for them."""


class Call(NamedTuple):
    """A call whose kind can be told.

    Attributes
    ----------
    kind : tuple
    leaves : list
        The arrays that it is given, in order, all CuPy's on the current device or all NumPy's, and
        the numbers whose values the kind does not tell.
    out : array, or tuple of these, optional
    is_on_host : bool
    """

    kind: tuple[Any, ...]
    leaves: list[Any]
    out: Any
    is_on_host: bool


@dataclass(frozen=True)
class Function:
    """A public function, as far as kinds of its calls depend on it.

    Attributes
    ----------
    build : callable
        Of its arguments.
    places : dict
        Of its parameters, by name.
    by_value : frozenset of str and int
        Parameters that are known by their values alone, by name and place: coefficients of a
        filter.
    by_numbers : bool
        Numbers are of different kinds where their values differ. Otherwise, of those among
        operands and states, the types count alone.
    is_on_host : bool
        Calls of NumPy arrays are prepared as well.
    """

    build: Callable[..., Any]
    places: dict[str, int]
    by_value: frozenset[str | int]
    by_numbers: bool
    is_on_host: bool

    @classmethod
    def of(
        cls, build: Callable[..., Any], by_value: Sequence[str], by_numbers: bool, is_on_host: bool
    ) -> Function:
        places = {name: place for place, name in enumerate(inspect.signature(build).parameters)}
        values = frozenset([*by_value, *map(places.__getitem__, by_value)])
        return cls(build, places, values, by_numbers, is_on_host)

    def call(self, operands: Sequence[Any], options: dict[str, Any]) -> Call | None:
        """A call; None where something hinders that its kind is told."""
        cupy, types = sys.modules.get("cupy"), {*map(type, operands), *map(type, options.values())}
        if cupy is not None and cupy.ndarray in types:
            teller: _Teller = _OnDevice(cupy)
        elif self.is_on_host and np.ndarray in types:
            teller = _OnHost()
        else:
            return None
        teller.kind += (self.build, *options)
        if not self._tell(teller, operands, options):
            return None
        is_on_host = type(teller) is _OnHost
        return Call(tuple(teller.kind), teller.leaves, options.get("out"), is_on_host)

    def _tell(self, teller: _Teller, operands: Sequence[Any], options: dict[str, Any]) -> bool:
        """Add all that is given, `out` last; False where something hinders."""
        array, tell_array, by_type = teller.array, teller.tell_array, not self.by_numbers
        for place, value in enumerate(operands):
            if place in self.by_value:
                is_told = teller.tell_value(value)
            elif type(value) is array:  # most, and the quicker for it
                is_told = tell_array(value, by_type)
            else:
                is_told = teller.tell(value, by_type)
            if not is_told:
                return False
        for name, value in options.items():
            if name == "out":
                continue
            if name in self.by_value:
                is_told = teller.tell_value(value)
            else:
                is_told = teller.tell(value, by_type and name not in _SETTINGS)
            if not is_told:
                return False
        out = options.get("out")
        return out is None or teller.tell(out, False)

    def ordered(
        self, operands: Sequence[Any], options: dict[str, Any], call: Call
    ) -> tuple[list[tuple[int, Any]], tuple[int, ...]]:
        """The leaves of a call, numbered, in the order of parameters; those of `out`."""
        numbered = iter(enumerate(call.leaves))

        def own(place: str | int, value: Any) -> list[tuple[int, Any]]:
            if place in self.by_value or place in _SETTINGS:
                return []
            return [next(numbered) for _ in _leaves(value, call.leaves)]

        found = {place: own(place, value) for place, value in enumerate(operands)}
        named = {name: own(name, value) for name, value in options.items()}
        outs = tuple([number for number, _ in numbered])
        # Of those by name after those by place.
        later = sorted(named, key=self.places.__getitem__)
        groups = [*found.values(), *(named[name] for name in later)]
        return [leaf for group in groups for leaf in group], outs


class _Teller:
    """Tells a kind, value by value.

    Attributes
    ----------
    kind, leaves : list
        As far as they are told.
    array : type
        Of the arrays whose values a kind does not tell.
    """

    array: Any

    def __init__(self) -> None:
        self.kind: list[Any] = []
        self.leaves: list[Any] = []

    def tell_array(self, value: Any, by_type: bool) -> bool:
        """Add one of these; False where it hinders."""
        raise NotImplementedError

    def tell(self, value: Any, by_type: bool) -> bool:
        """Add a value; False where it hinders. Of numbers `by_type` the type counts alone."""
        own = type(value)
        if own is self.array:
            return self.tell_array(value, by_type)
        if own in _NUMBERS:
            if not by_type:
                return self.tell_value(value)
            self.kind.append(own)
            self.leaves.append(value)
            return True
        if own in _PLAIN:
            self.kind += (own, value)
            return True
        if own is TransferMap:
            self.kind.append(value)
            return True
        if own is tuple or own is list:
            self.kind += (own, len(value))
            return all([self.tell(item, by_type) for item in value])
        if own is Coefficient:
            self.kind += (own, value.function)
            return self.tell(value.arrays, by_type)
        return self._tell_numpy(value, by_type)

    def _tell_numpy(self, value: Any, by_type: bool) -> bool:
        if not by_type:
            return self.tell_value(value)
        if not isinstance(value, (np.generic, np.ndarray)) or value.ndim:
            return False
        self.kind += (type(value), value.dtype)
        self.leaves.append(value)
        return True

    def tell_value(self, value: Any) -> bool:
        """Add numbers that a kind tells, all of them; False where they are none, or too many."""
        own = type(value)
        if isinstance(value, (np.generic, np.ndarray)):
            if value.nbytes > _MOST_BYTES:
                return False
            self.kind += (own, value.dtype, value.shape, value.tobytes())
            return True
        if own is tuple or own is list:
            self.kind += (own, len(value))
            return all([self.tell_value(item) for item in value])
        self.kind += (own, repr(value) if own in _NUMBERS else None)  # 0.0 is not -0.0
        return own in _NUMBERS


class _OnDevice(_Teller):
    """Of CuPy arrays on the current device."""

    def __init__(self, cupy: Any) -> None:
        self.array, self.device = cupy.ndarray, cupy.cuda.runtime.getDevice()
        self.kind, self.leaves = [self.device], []

    def tell_array(self, value: Any, by_type: bool) -> bool:
        memory = value.data
        self.kind += (value.shape, value.strides, value.dtype, memory.ptr & 15)
        self.leaves.append(value)
        return bool(memory.device_id == self.device)


class _OnHost(_Teller):
    """Of NumPy arrays."""

    array = np.ndarray

    def tell_array(self, value: Any, by_type: bool) -> bool:
        if not value.ndim:
            return self._tell_numpy(value, by_type)
        self.kind += (value.shape, value.strides, value.dtype)
        self.leaves.append(value)
        return bool(value.size <= _MOST_STEPS)


def _leaves(value: Any, known: Sequence[Any]) -> Iterator[Any]:
    if any(value is leaf for leaf in known):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item, known)
    elif isinstance(value, Coefficient):
        yield from _leaves(value.arrays, known)
