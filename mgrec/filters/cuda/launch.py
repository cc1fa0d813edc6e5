"""The kernels of a filter over chunks of one kind, and their memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ...engines.cuda.device import pack_words
from ...engines.cuda.launches import Launch, Slot, run_launches
from ..cascade import Cascade
from .cuts import Cuts
from .numbers import coefficients, powers
from .program import FilterLayout, folders, print_propagation, print_repair, print_walk

# Blocks of a repair, of one warp each: most launches have nothing to do.
REPAIRERS = 1024
_CHECKERS = 128
# The struct of pointers.
_ARRAYS = Slot(0, (8,), np.dtype(np.int64), None)


@dataclass(frozen=True)
class Filter:
    """The launches of a filter over chunks of one kind.

    Attributes
    ----------
    shape : (int, int, int)
        Of the array, complex numbers by real coefficients as twice the columns.
    halves : int
        2 for such numbers, else 1.
    writes : bool
        There are results; the summary of a chunk has none.
    """

    cascade: Cascade
    shape: tuple[int, int, int]
    halves: int
    cuts: Cuts
    layout: FilterLayout
    repaired: FilterLayout
    writes: bool

    def __call__(self, x: Any, carry_in: Any, result: Any) -> Space:
        """Launch all kernels; what they leave of every segment."""
        space = Space.reserve(self)
        run_launches(*self.launches, values=(space.point(x, carry_in, result),))
        return space

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """One after the other."""
        if not self.cuts.is_propagated:
            return self._walk(self.writes, False), *self._repair()
        last = [self._walk(True, True)] if self.writes else []
        return self._walk(False, False), self._propagate(), *last, *self._repair()

    @cached_property
    def lanes(self) -> int:
        outer, _, inner = self.shape
        return outer * self.cuts.segments * inner

    @cached_property
    def offsets(self) -> list[int]:
        """Where in a launch's memory each array begins, and the end."""
        outer, _, inner = self.shape
        states = self.layout.order * self.layout.sections
        side = states * self.lanes * self.layout.states.itemsize
        sizes = [side, side, 4 * outer * inner, self.lanes, self.lanes]
        return [sum(sizes[:count]) for count in range(len(sizes) + 1)]

    def words(self, base: int, x: int, carry_in: int, result: int) -> list[int]:
        """The kernels' struct of pointers, by addresses: 0 where there is nothing."""
        speculation, ended, failures, tops, marks, _ = self.offsets
        return [
            x, result, carry_in, base + speculation, base + ended, base + tops, base + failures,
            base + marks,
        ]  # fmt: skip

    def _sizes(self, halves: int = 1) -> np.ndarray:
        outer, steps, inner = self.shape
        cuts = self.cuts
        return pack_words([outer, steps, inner // halves, cuts.segments, cuts.length, cuts.warm])

    def _walk(self, write: bool, entered: bool) -> Launch:
        outer, _, inner = self.shape
        blocks = -(-self.lanes // 32)
        if self.layout.inner:
            blocks = -(-outer * self.cuts.segments // (32 // inner))
        # States that every segment begins with are those of the transposed form.
        layout = replace(self.layout, direct=False) if entered else self.layout
        arguments = (_ARRAYS, coefficients(self.cascade, layout), self._sizes())
        text = print_walk(layout, write, entered)
        return Launch(text, "filter_kernel", blocks, 32, arguments)

    def _propagate(self) -> Launch:
        threads, (outer, _, inner) = folders(self.layout), self.shape
        chunk = -(-self.cuts.segments // threads)
        matrices = partial(powers, self.cascade, self.cuts.length, chunk)
        arguments = (_ARRAYS, matrices, np.int64(chunk), self._sizes())
        text = print_propagation(self.layout)
        return Launch(text, "propagate_kernel", outer * inner, threads, arguments)

    def _repair(self) -> list[Launch]:
        text = print_repair(self.repaired, self.writes, self.halves)
        limits = np.array([self.cuts.tolerance, self.cuts.tiny]).view(np.int64)
        arguments = (
            _ARRAYS, coefficients(self.cascade, self.repaired),
            self._sizes(self.halves), pack_words([*limits, self.cuts.is_unstable]),
        )  # fmt: skip
        rows = self.shape[0] * self.shape[2] // self.halves
        repair = Launch(text, "repair_kernel", min(-(-rows // 32), REPAIRERS), 32, arguments)
        if self.cuts.segments == 1:
            return [repair]
        blocks = -(-self.lanes // self.halves // _CHECKERS)
        return [Launch(text, "check_kernel", blocks, _CHECKERS, arguments), repair]


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

        return cls(filter, cupy.empty(filter.offsets[-1], np.uint8))

    def point(self, x: Any, carry_in: Any, result: Any) -> np.ndarray:
        """The kernels' struct of pointers."""
        given = (0 if array is None else array.data.ptr for array in (x, carry_in, result))
        return pack_words(self.filter.words(self.memory.data.ptr, *given))

    def _part(self, number: int, dtype: Any) -> Any:
        left, right = self.filter.offsets[number : number + 2]
        return self.memory[left:right].view(dtype)

    @property
    def carry_outs(self) -> Any:
        """Array (states, lanes)."""
        return self._part(1, self.filter.layout.states).reshape(-1, self.filter.lanes)

    @property
    def failures(self) -> Any:
        return self._part(2, np.int32)

    @property
    def tops(self) -> Any:
        return self._part(3, np.uint8)
