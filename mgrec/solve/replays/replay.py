"""Prepared calls of a kind: what was checked, laid out and compiled for one stands for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.contract.kernels import CacheMiss, PreparedSolver
from .calls import Call


@dataclass(frozen=True)
class Replay(ABC):
    """A call of a kind, prepared.

    Attributes
    ----------
    solve : callable
        Of :class:`mgrec.core.contract.kernels.Kernels`.
    given : tuple
        What it is given where the call does not tell.
    places : tuple of (int, int)
        Which of what it is given is which leaf of a call.
    arrays : tuple of int
        The leaves that are arrays.
    outs : tuple of int
        Leaves that the caller gives for the results.
    is_several : bool
        `out` is a tuple.
    count : int
        Results.
    empty : callable, ``() -> array``
        Memory for a result.
    to_return_value : callable, ``(results, final_state) -> return value``
    """

    solve: PreparedSolver
    given: tuple[Any, ...]
    positions: tuple[tuple[int, int], ...]
    arrays: tuple[int, ...]
    outs: tuple[int, ...]
    is_several: bool
    count: int
    empty: Callable[[], Any]
    to_return_value: Callable[[Any, Any], Any]

    @abstractmethod
    def __call__(self, call: Call) -> tuple[Any] | None:
        """The result, or None: the call is to be made as if it were the first."""

    def run(self, call: Call, leaves: Sequence[Any], results: Any, targets: Sequence[Any]) -> Any:
        """Solve by what stands for the leaves and the results."""
        given = list(self.given)
        for position, leaf in self.positions:
            given[position] = leaves[leaf]
        try:
            carry_out = self.solve(given, targets)
        except (CacheMiss, OverflowError, TypeError):  # or a number that the dtype does not hold
            return None
        return (self.to_return_value(results, carry_out),)

    def new(self) -> tuple[Any, ...]:
        return tuple([self.empty() for _ in range(self.count)])


@dataclass(frozen=True)
class OnDevice(Replay):
    """Of CuPy arrays: by addresses.

    Attributes
    ----------
    sizes : tuple of int
        Bytes of each leaf.
    """

    sizes: tuple[int, ...]

    def __call__(self, call: Call) -> tuple[Any] | None:
        leaves = list(call.leaves)
        for number in self.arrays:
            leaves[number] = leaves[number].data.ptr
        if not self.outs:
            results = self.new()
            return self.run(call, leaves, results, [result.data.ptr for result in results])
        if self._overlaps(leaves):
            return None
        results = call.out if self.is_several else (call.out,)
        return self.run(call, leaves, results, [leaves[number] for number in self.outs])

    def _overlaps(self, leaves: Sequence[Any]) -> bool:
        """Whether a result shares memory with an operand or another result."""
        sizes = self.sizes
        for out in self.outs:
            begin = leaves[out]
            end = begin + sizes[out]
            for number in self.arrays:
                first = leaves[number]
                if number != out and first < end and begin < first + sizes[number]:
                    return True
        return False


@dataclass(frozen=True)
class OnHost(Replay):
    """Of NumPy arrays."""

    def __call__(self, call: Call) -> tuple[Any] | None:
        if not self.outs:
            results = self.new()
            return self.run(call, call.leaves, results, results)
        results = call.out if self.is_several else (call.out,)
        if self._is_refused(call.leaves):
            return None
        return self.run(call, call.leaves, results, results)

    def _is_refused(self, leaves: Sequence[Any]) -> bool:
        """Whether a result may not be written, or shares memory with an operand or another."""
        for out in self.outs:
            if not leaves[out].flags.writeable:
                return True
            for number in self.arrays:
                if number != out and np.may_share_memory(leaves[out], leaves[number]):
                    return True
        return False
