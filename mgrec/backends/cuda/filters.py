"""Filters on one GPU: precompute and determine for one chunk of CuPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ...phases.cascade import Cascade
from ...phases.cascade_summary import CascadeSummary, is_tame
from ...phases.chunk import Chunk
from .compilation import compile_kernel
from .filters_cuts import Cuts, cut
from .filters_numbers import coefficients, powers
from .filters_program import (
    WIDE,
    FilterLayout,
    folders,
    print_propagation,
    print_repair,
    print_walk,
)

# Blocks of a repair, of one warp each: most launches have nothing to do.
REPAIRERS = 1024
_CHECKERS = 128
# States, a complex one as four, of a light filter.
LIGHT = 8


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

    def __call__(self, x: Any, entry: Any, result: Any) -> tuple[Any, Any]:
        """Launch all kernels; the exits of all segments, and whether each came near overflow."""
        space = Space.reserve(self)
        arguments = (x, x if result is None else result, entry, *space.arrays)
        self._walk(arguments, space, result is not None)
        self._repair(arguments, space, result is not None)
        return space.exits, space.tops

    @property
    def lanes(self) -> int:
        outer, _, inner = self.shape
        return outer * self.cuts.segments * inner

    @property
    def _blocks(self) -> int:
        outer, _, inner = self.shape
        if not self.layout.inner:
            return -(-self.lanes // 32)
        return -(-outer * self.cuts.segments // (32 // inner))

    def _sizes(self, halves: int = 1) -> tuple[np.int64, ...]:
        outer, steps, inner = self.shape
        cuts = self.cuts
        sizes = (outer, steps, inner // halves, cuts.segments, cuts.length, cuts.warm)
        return tuple(map(np.int64, sizes))

    def _walk(self, arguments: Any, space: Space, write: bool) -> None:
        sizes, with_ = self._sizes(), coefficients(self.cascade, self.layout)
        last = (*arguments, with_, *sizes)
        if self.cuts.is_propagated:
            _walker(self.layout, False, False)(self._blocks, 32, last, 0, False)
            self._propagate(space, sizes)
        if write or not self.cuts.is_propagated:
            kernel = _walker(self.layout, write, self.cuts.is_propagated)
            kernel(self._blocks, 32, last, 0, False)

    def _propagate(self, space: Space, sizes: Any) -> None:
        threads = folders(self.layout)
        chunk = -(-self.cuts.segments // threads)
        matrices = powers(self.cascade, self.cuts.length, chunk)
        kernel = compile_kernel(print_propagation(self.layout), "propagate_kernel")
        outer, _, inner = self.shape
        arguments = (space.assumed, space.exits, matrices, np.int64(chunk), *sizes)
        kernel(outer * inner, threads, arguments, 0, False)

    def _repair(self, arguments: Any, space: Space, write: bool) -> None:
        cuts = self.cuts
        limits = np.float64(cuts.tolerance), np.float64(cuts.tiny), np.int64(cuts.is_unstable)
        with_ = coefficients(self.cascade, self.repaired)
        last = (*arguments, with_, *self._sizes(self.halves), space.marks, *limits)
        check, repair = _repairers(self.repaired, write, self.halves)
        if self.cuts.segments > 1:
            check(-(-self.lanes // self.halves // _CHECKERS), _CHECKERS, last, 0, False)
        rows = self.shape[0] * self.shape[2] // self.halves
        repair(min(-(-rows // 32), REPAIRERS), 32, last, 0, False)


@dataclass(frozen=True)
class Space:
    """Memory of one launch.

    Attributes
    ----------
    assumed, exits : array (states, lanes)
        What each segment began and ended with.
    tops, marks : array (lanes,) of uint8
        Whose outputs came near overflow; which are to be repaired.
    failures : array (rows,) of int32
    """

    assumed: Any
    exits: Any
    tops: Any
    failures: Any
    marks: Any

    @classmethod
    def reserve(cls, filter: Filter) -> Space:
        import cupy

        outer, _, inner = filter.shape
        lanes, layout = filter.lanes, filter.layout
        states = cupy.empty((2, layout.order * layout.sections, lanes), layout.states)
        flags = cupy.empty((2, lanes), np.uint8)
        failures = cupy.empty(outer * inner, np.int32)
        return cls(states[0], states[1], flags[0], failures, flags[1])

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self.assumed, self.exits, self.tops, self.failures


def determine_filter(cascade: Cascade, chunk: Chunk, entry: Any, result: Any) -> Any:
    """Write the outputs of every step of a chunk.

    Parameters
    ----------
    cascade : Cascade
    chunk : Chunk
        Its operand is x, a CuPy array on the current device; its dtype that of the results.
    entry : array (states, outer, inner), float64 or complex128; or None
        On the device or in host memory; None for 0.
    result : CuPy array (outer, steps, inner)

    Returns
    -------
    CuPy array (states, outer, inner)
        The states after the chunk.
    """
    return _run(cascade, chunk, entry, result)[0]


def precompute_filter(cascade: Cascade, chunk: Chunk) -> CascadeSummary:
    """The states after a chunk that begins with states of 0, in host memory.

    A chunk that few scalars cannot stand for comes along, in host memory too.
    """
    exit, tops = _run(cascade, chunk, None, None)
    offset = exit.get()
    bad = not np.isfinite(offset).all() or bool(tops.any())
    redo = None
    if bad or not is_tame(cascade, chunk.steps):
        redo = chunk.map_arrays(lambda array: array.get(), chunk.shape)
    return CascadeSummary(cascade, chunk.steps, offset, redo)


def _run(cascade: Cascade, chunk: Chunk, entry: Any, result: Any) -> tuple[Any, Any]:
    import cupy

    (x,) = chunk.operands
    x = x.astype(chunk.dtype, copy=False)
    is_complex = cascade.is_complex or chunk.dtype.kind == "c"
    wide = np.dtype(np.complex128 if is_complex else np.float64)
    shape = (cascade.states, *chunk.row_shape)
    if entry is None:
        entry = cupy.zeros(shape, wide)
    entry = cupy.ascontiguousarray(cupy.asarray(entry, wide))
    if chunk.steps == 0 or x.size == 0:
        return entry, cupy.zeros(0, np.uint8)
    aligned = all(a.data.ptr % 16 == 0 for a in (x, result) if a is not None)
    filter = prepare(cascade, chunk.shape, chunk.dtype, aligned)
    exits, tops = filter(x, entry, result)
    outer, _, inner = filter.shape
    cut_up = exits.reshape(cascade.states, outer, filter.cuts.segments, inner)
    exit = cupy.ascontiguousarray(cut_up[:, :, -1])
    return exit.view(wide).reshape(shape), tops


@lru_cache(maxsize=1024)
def prepare(
    cascade: Cascade,
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    aligned: bool,
) -> Filter:
    """The kernels for chunks of one kind, and where they cut rows: by the kind alone.

    Parameters
    ----------
    cascade : Cascade
    shape : (int, int, int)
    dtype : numpy.dtype
    aligned : bool
        Arrays begin at multiples of 16 bytes.
    """
    halves = 2 if dtype.kind == "c" and not cascade.is_complex else 1
    real = np.empty(0, dtype).real.dtype if halves == 2 else dtype
    seen = (shape[0], shape[1], shape[2] * halves)
    layout = choose_layout(cascade, seen, real, aligned)
    cuts = cut(cascade, seen, real, layout.items)
    whole = choose_layout(cascade, shape, dtype, False, halves == 2)
    return Filter(cascade, seen, halves, cuts, layout, whole)


def choose_layout(
    cascade: Cascade,
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    aligned: bool,
    widened: bool = False,
) -> FilterLayout:
    """The constants that a filter is compiled with.

    Where `widened`, complex numbers are filtered by complex coefficients that are real.
    """
    outer, steps, inner = shape
    states = np.dtype(np.complex128 if cascade.is_complex or widened else np.float64)
    weight = cascade.states * (4 if states.kind == "c" else 1)
    vector = 16 // dtype.itemsize
    # Few states wait for memory, in long runs; many for their arithmetic, with more warps.
    items, stages = (256, 2) if weight <= LIGHT and inner == 1 else (128, 3)
    return FilterLayout(
        cascade.order,
        len(cascade.sections),
        dtype,
        states,
        inner if inner < WIDE else 0,
        feedback=not cascade.is_feed_forward,
        is_complex=cascade.is_complex,
        items=items // dtype.itemsize if inner < WIDE else 16,
        stages=stages,
        group=max(vector, 4 if weight <= 64 else 1),
        bulk=aligned and (outer == 1 or steps * inner * dtype.itemsize % 16 == 0),
    )


@cache
def _walker(layout: FilterLayout, write: bool, entered: bool) -> Any:
    text = print_walk(layout, write, entered)
    return lambda *launch: compile_kernel(text, "filter_kernel")(*launch)


@cache
def _repairers(layout: FilterLayout, write: bool, halves: int) -> tuple[Any, Any]:
    text = print_repair(layout, write, halves)

    def check(*launch: Any) -> None:
        compile_kernel(text, "check_kernel")(*launch)

    def repair(*launch: Any) -> None:
        compile_kernel(text, "repair_kernel")(*launch)

    return check, repair
