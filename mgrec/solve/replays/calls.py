"""Kinds of calls: all that what is prepared for a call depends on."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.algebra.coefficient import Coefficient
from .tellers import OnDevice, OnHost, Teller

SETTINGS = {"axis", "reverse", "memory", "method", "out"}
"""Options whose numbers are none that a recurrence computes with."""


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
    positions: dict[str, int]
    by_value: frozenset[str | int]
    by_numbers: bool
    is_on_host: bool

    @classmethod
    def of(
        cls, build: Callable[..., Any], by_value: Sequence[str], by_numbers: bool, is_on_host: bool
    ) -> Function:
        positions = {
            name: position for position, name in enumerate(inspect.signature(build).parameters)
        }
        values: set[str | int] = {*by_value, *map(positions.__getitem__, by_value)}
        return cls(build, positions, frozenset(values), by_numbers, is_on_host)

    def call(self, operands: Sequence[Any], options: dict[str, Any]) -> Call | None:
        """A call; None where something hinders that its kind is told."""
        cupy, types = sys.modules.get("cupy"), {*map(type, operands), *map(type, options.values())}
        if cupy is not None and cupy.ndarray in types:
            teller: Teller = OnDevice(cupy)
        elif self.is_on_host and np.ndarray in types:
            teller = OnHost()
        else:
            return None
        teller.kind += (self.build, *options)
        try:
            if not self._tell(teller, operands, options):
                return None
        except RecursionError:  # a list that contains itself
            return None
        is_on_host = type(teller) is OnHost
        return Call(tuple(teller.kind), teller.leaves, options.get("out"), is_on_host)

    def _tell(self, teller: Teller, operands: Sequence[Any], options: dict[str, Any]) -> bool:
        """Add all that is given, `out` last; False where something hinders."""
        array, tell_array, by_type = teller.array, teller.tell_array, not self.by_numbers
        for position, value in enumerate(operands):
            if position in self.by_value:
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
                is_told = teller.tell(value, by_type and name not in SETTINGS)
            if not is_told:
                return False
        out = options.get("out")
        return out is None or teller.tell(out, False)

    def ordered(
        self, operands: Sequence[Any], options: dict[str, Any], call: Call
    ) -> tuple[list[tuple[int, Any]], tuple[int, ...]]:
        """The leaves of a call, numbered, in the order of parameters; those of `out`."""
        numbered = iter(enumerate(call.leaves))

        def own(position: str | int, value: Any) -> list[tuple[int, Any]]:
            if position in self.by_value or position in SETTINGS:
                return []
            return [next(numbered) for _ in _leaves(value, call.leaves)]

        found = {position: own(position, value) for position, value in enumerate(operands)}
        named = {name: own(name, value) for name, value in options.items()}
        outs = tuple([number for number, _ in numbered])
        # Of those by name after those by place.
        later = sorted(named, key=self.positions.__getitem__)
        groups = [*found.values(), *(named[name] for name in later)]
        return [leaf for group in groups for leaf in group], outs


def _leaves(value: Any, known: Sequence[Any]) -> Iterator[Any]:
    if any(value is leaf for leaf in known):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item, known)
    elif isinstance(value, Coefficient):
        yield from _leaves(value.arrays, known)
