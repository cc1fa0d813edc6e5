"""The kernels of a filter over chunks of one kind, and their memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from ....families.filters.cascade import Cascade
from ..device.compilation import compile_kernel
from .cuts import Cuts
from .numbers import coefficients, packed, powers
from .program import FilterLayout, folders, print_propagation, print_repair, print_walk

# Blocks of a repair, of one warp each: most launches have nothing to do.
REPAIRERS = 1024
_CHECKERS = 128


@dataclass(frozen=True)
class Filter:
    """A filter over chunks of one kind, compiled.

    Attributes
    ----------
    shape : (int, int, int)
        Of the array, complex numbers by real coefficients as twice the columns.
    halves : int
        2 for such numbers, else 1.
    """

    cascade: Cascade
    shape: tuple[int, int, int]
    halves: int
    cuts: Cuts
    layout: FilterLayout
    repaired: FilterLayout

    def __call__(self, x: Any, entry: Any, result: Any) -> Space:
        """Launch all kernels; what they leave of every segment."""
        space = Space.reserve(self)
        arrays = space.point(x, entry, result)
        self._walk(arrays, space, result is not None)
        self._repair(arrays, result is not None)
        return space

    @cached_property
    def lanes(self) -> int:
        outer, _, inner = self.shape
        return outer * self.cuts.segments * inner

    @cached_property
    def places(self) -> list[int]:
        """Where in a launch's memory each part begins, and the end."""
        outer, _, inner = self.shape
        states = self.layout.order * self.layout.sections
        side = states * self.lanes * self.layout.states.itemsize
        sizes = [side, side, 4 * outer * inner, self.lanes, self.lanes]
        return [sum(sizes[:count]) for count in range(len(sizes) + 1)]

    @cached_property
    def _blocks(self) -> int:
        outer, _, inner = self.shape
        if not self.layout.inner:
            return -(-self.lanes // 32)
        return -(-outer * self.cuts.segments // (32 // inner))

    def _sizes(self, halves: int) -> np.ndarray:
        outer, steps, inner = self.shape
        cuts = self.cuts
        return packed([outer, steps, inner // halves, cuts.segments, cuts.length, cuts.warm])

    @cached_property
    def _seen(self) -> np.ndarray:
        return self._sizes(1)

    @cached_property
    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        cuts = self.cuts
        limits = np.array([cuts.tolerance, cuts.tiny]).view(np.int64)
        return self._sizes(self.halves), packed([*limits, cuts.is_unstable])

    def _walk(self, arrays: Any, space: Space, write: bool) -> None:
        arguments = (arrays, coefficients(self.cascade, self.layout), self._seen)
        if self.cuts.is_propagated:
            _walker(self.layout, False, False)(self._blocks, 32, arguments, 0, False)
            self._propagate(arrays)
        if write or not self.cuts.is_propagated:
            kernel = _walker(self.layout, write, self.cuts.is_propagated)
            kernel(self._blocks, 32, arguments, 0, False)

    def _propagate(self, arrays: Any) -> None:
        threads = folders(self.layout)
        chunk = -(-self.cuts.segments // threads)
        matrices = powers(self.cascade, self.cuts.length, chunk)
        outer, _, inner = self.shape
        arguments = (arrays, matrices, np.int64(chunk), self._seen)
        _propagator(self.layout)(outer * inner, threads, arguments, 0, False)

    def _repair(self, arrays: Any, write: bool) -> None:
        with_ = coefficients(self.cascade, self.repaired)
        arguments = (arrays, with_, *self._limits)
        check, repair = _repairers(self.repaired, write, self.halves)
        if self.cuts.segments > 1:
            blocks = -(-self.lanes // self.halves // _CHECKERS)
            check(blocks, _CHECKERS, arguments, 0, False)
        rows = self.shape[0] * self.shape[2] // self.halves
        repair(min(-(-rows // 32), REPAIRERS), 32, arguments, 0, False)


@dataclass(frozen=True)
class Space:
    """Memory of one launch: one array, since every allocation delays the first kernel.

    Attributes
    ----------
    filter : Filter
    memory : CuPy array of uint8
        What each segment began with and ended with, (2, states, lanes); of each row how many
        segments there are from the first on that is to be repaired, int32; whose outputs came
        near overflow, and which are to be repaired, a byte for each lane.
    """

    filter: Filter
    memory: Any

    @classmethod
    def reserve(cls, filter: Filter) -> Space:
        import cupy

        return cls(filter, cupy.empty(filter.places[-1], np.uint8))

    def point(self, x: Any, entry: Any, result: Any) -> np.ndarray:
        """The kernels' struct of pointers."""
        base = self.memory.data.ptr
        begun, ended, failures, tops, marks, _ = (base + k for k in self.filter.places)
        given = [0 if array is None else array.data.ptr for array in (x, result, entry)]
        return packed([*given, begun, ended, tops, failures, marks])

    def _part(self, number: int, dtype: Any) -> Any:
        left, right = self.filter.places[number : number + 2]
        return self.memory[left:right].view(dtype)

    @property
    def exits(self) -> Any:
        """Array (states, lanes)."""
        return self._part(1, self.filter.layout.states).reshape(-1, self.filter.lanes)

    @property
    def failures(self) -> Any:
        return self._part(2, np.int32)

    @property
    def tops(self) -> Any:
        return self._part(3, np.uint8)


@cache
def _walker(layout: FilterLayout, write: bool, entered: bool) -> Any:
    text = print_walk(layout, write, entered)
    return lambda *launch: compile_kernel(text, "filter_kernel")(*launch)


@cache
def _propagator(layout: FilterLayout) -> Any:
    text = print_propagation(layout)
    return lambda *launch: compile_kernel(text, "propagate_kernel")(*launch)


@cache
def _repairers(layout: FilterLayout, write: bool, halves: int) -> tuple[Any, Any]:
    text = print_repair(layout, write, halves)

    def check(*launch: Any) -> None:
        compile_kernel(text, "check_kernel")(*launch)

    def repair(*launch: Any) -> None:
        compile_kernel(text, "repair_kernel")(*launch)

    return check, repair
