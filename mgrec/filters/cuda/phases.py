"""Filters on one GPU: precompute and determine for one chunk of CuPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.arrays.array_types import cast, raise_if_capturing
from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels, PreparedSolver
from ...engines.cuda.device import SCRATCH_IS_SHARED, array_at, scratch
from ...engines.cuda.launches import LaunchByAddress, PreparedLaunches
from ..cascade import Cascade
from ..summary import CascadeSummary, is_tame
from .cuts import LANES, cut
from .direct import is_direct
from .launch import Filter, Space
from .program import WIDE, FilterLayout

# States, a complex one as four, of a light filter, and of one that takes many samples at a time.
LIGHT, MEDIUM = 8, 16
# Samples that kernels cast.
_READ = "bBhHiIlLqQefd"


def kernels(method: str) -> Kernels:
    """The phases of a chunk; filters have one method."""
    return Kernels(determine_filter, precompute_filter, prepare_solver=prepare_solver)


def determine_filter(cascade: Cascade, chunk: Chunk, carry_in: Any, result: Any) -> Any:
    """Write the outputs of every step of a chunk.

    Parameters
    ----------
    cascade : Cascade
    chunk : Chunk
        Its operand is x, a CuPy array on the current device; its dtype that of the results.
        Real results of a real x are cast sample by sample, without a copy of x.
    carry_in : array (states, outer, inner), float64 or complex128; or None
        On the device or in host memory; None for 0.
    result : CuPy array (outer, steps, inner)

    Returns
    -------
    CuPy array (states, outer, inner), or None
        The states after the chunk; None where `carry_in` is: nobody asks.
    """
    import cupy

    raise_if_capturing("a filter", SCRATCH_IS_SHARED)
    if carry_in is not None:
        carry_in = cupy.ascontiguousarray(cupy.asarray(carry_in, _wide(cascade, chunk.dtype)))
    space = _run(cascade, chunk, carry_in, result)
    if space is None or carry_in is None:
        return carry_in
    return _carry_out(cascade, chunk.shape, chunk.dtype, space)


def precompute_filter(cascade: Cascade, chunk: Chunk) -> Callable[[], CascadeSummary]:
    """Launch a chunk that begins with states of 0.

    Returns
    -------
    callable, ``() -> CascadeSummary``
        Waits for the kernels: the states after the chunk, in host memory. A chunk that few
        scalars cannot stand for comes along, in host memory too.
    """
    import cupy

    space = _run(cascade, chunk, None, None)
    if space is None:
        offset = np.zeros((cascade.states, *chunk.row_shape), _wide(cascade, chunk.dtype))
        return lambda: CascadeSummary(cascade, chunk.steps, offset)
    # The launch's memory is free again, for the next one of the stream.
    carry_out = cupy.ascontiguousarray(_carry_out(cascade, chunk.shape, chunk.dtype, space))
    overflows = space.tops.any()

    def summary() -> CascadeSummary:
        offset = carry_out.get()
        bad = not np.isfinite(offset).all() or bool(overflows)
        redo = None
        if bad or not is_tame(cascade, chunk.steps):
            redo = chunk.map_arrays(lambda array: array.get(), chunk.shape)
        return CascadeSummary(cascade, chunk.steps, offset, redo)

    return summary


def prepare_solver(
    cascade: Cascade, chunk: Chunk, carry_in: Any, result: Any
) -> PreparedSolver | None:
    """Prepare what filters chunks of the kind of this one.

    `given` are x and, where `carry_in` is not None, the states before the first step: on the
    device. None where x is cast by a kernel of CuPy's.
    """
    (x,) = chunk.operands
    inputs = x.dtype if is_cast_in_kernels(x.dtype, chunk.dtype) else None
    if inputs is None and x.dtype != chunk.dtype:
        return None
    filter = _prepared(cascade, chunk, x, result, inputs)
    bound, size = LaunchByAddress(PreparedLaunches(*filter.launches)), filter.offsets[-1]
    about, wide, is_asked = (
        (chunk.shape, chunk.dtype),
        _wide(cascade, chunk.dtype),
        carry_in is not None,
    )
    narrow = (carry_in.shape, carry_in.dtype) if is_asked and carry_in.dtype != wide else None

    def solve(given: Sequence[int], targets: Sequence[int]) -> Any:
        raise_if_capturing("a filter", SCRATCH_IS_SHARED)
        before = given[1] if is_asked else 0
        if narrow:
            states = cast(array_at(before, *narrow), wide)
            before = states.data.ptr
        memory = scratch(size)
        bound([filter.words(memory.data.ptr, given[0], before, targets[0])])
        return _carry_out(cascade, *about, Space(filter, memory)) if is_asked else None

    return solve


def _wide(cascade: Cascade, dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.complex128 if cascade.is_complex or dtype.kind == "c" else np.float64)


def _run(cascade: Cascade, chunk: Chunk, carry_in: Any, result: Any) -> Space | None:
    """What the kernels leave; None of an empty chunk."""
    (x,) = chunk.operands
    if chunk.steps == 0 or x.size == 0:
        return None
    inputs = x.dtype if is_cast_in_kernels(x.dtype, chunk.dtype) else None
    if inputs is None:
        x = cast(x, chunk.dtype)
    return _prepared(cascade, chunk, x, result, inputs)(x, carry_in, result)


def _prepared(cascade: Cascade, chunk: Chunk, x: Any, result: Any, inputs: Any) -> Filter:
    """The launches of a chunk of x, which is cast in them where `inputs` is its dtype."""
    aligned = _is_aligned(x), result is None or _is_aligned(result)
    kind = (chunk.shape, chunk.dtype, aligned, result is not None, inputs)
    return prepare(cascade, *kind)


def _is_aligned(array: Any) -> bool:
    return bool(array.data.ptr % 16 == 0)


def is_cast_in_kernels(inputs: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Whether kernels read samples of another dtype than their results': integers and floats.

    Examples
    --------
    >>> is_cast_in_kernels(np.dtype("int16"), np.dtype("float64"))
    True
    >>> is_cast_in_kernels(np.dtype("float32"), np.dtype("complex128"))
    False
    """
    return dtype.kind == "f" and inputs != dtype and inputs.char in _READ


def _carry_out(
    cascade: Cascade, shape: tuple[int, int, int], dtype: np.dtype[Any], space: Space
) -> Any:
    """The states after a chunk, (states, outer, inner): maybe a part of what kernels leave."""
    import cupy

    outer, _, inner = space.filter.shape
    segments = space.carry_outs.reshape(cascade.states, outer, space.filter.cuts.segments, inner)
    carry_out, wide = segments[:, :, -1], _wide(cascade, dtype)
    if carry_out.dtype == wide:
        return carry_out
    return cupy.ascontiguousarray(carry_out).view(wide).reshape(cascade.states, shape[0], shape[2])


@lru_cache(maxsize=1024)
def prepare(
    cascade: Cascade,
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    aligned: tuple[bool, bool],
    writes: bool,
    inputs: np.dtype[Any] | None = None,
) -> Filter:
    """The launches for chunks of one kind, and where they cut rows: by the kind alone.

    Parameters
    ----------
    cascade : Cascade
    shape : (int, int, int)
    dtype : numpy.dtype
        Of the results.
    aligned : (bool, bool)
        x and the results begin at multiples of 16 bytes.
    writes : bool
        There are results.
    inputs : numpy.dtype, optional
        Of x, where it is not that of the results.
    """
    halves = 2 if dtype.kind == "c" and not cascade.is_complex else 1
    real = np.empty(0, dtype).real.dtype if halves == 2 else dtype
    seen = (shape[0], shape[1], shape[2] * halves)
    layout = choose_layout(cascade, seen, real, aligned, inputs=inputs)
    # Of three channels 30 lanes of a warp have work: nine warps on some multiprocessors, eight on
    # the others, ran at 0.73 of the floor.
    lanes = LANES // 32 * (32 - 32 % max(layout.inner, 1))
    cuts = cut(cascade, seen, real, layout.items, lanes)
    whole = choose_layout(cascade, shape, dtype, (False, False), halves == 2, inputs)
    return Filter(cascade, seen, halves, cuts, layout, replace(whole, direct=False), writes)


def choose_layout(
    cascade: Cascade,
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    aligned: tuple[bool, bool],
    widened: bool = False,
    inputs: np.dtype[Any] | None = None,
) -> FilterLayout:
    """The constants that a filter is compiled with.

    Where `widened`, complex numbers are filtered by complex coefficients that are real.
    """
    outer, steps, inner = shape
    # Columns are not copied in runs, and results in the place of inputs as these are.
    fits = [
        begins and inner < WIDE and (outer == 1 or steps * inner * kind.itemsize % 16 == 0)
        for begins, kind in zip(aligned, (inputs or dtype, dtype), strict=True)
    ]
    fits = fits if inputs else [all(fits)] * 2
    states = np.dtype(np.complex128 if cascade.is_complex or widened else np.float64)
    weight = cascade.states * (4 if states.kind == "c" else 1)
    vector = 16 // dtype.itemsize
    # Few states wait for memory, in long runs; many for their arithmetic, with more warps.
    items, stages = (256, 2) if weight <= LIGHT and inner == 1 else (128, 3)
    # Over float32 order 2 ran at 0.865 of the floor by groups of 8 samples, at 0.823 by 4, and 8
    # sections at 0.71 by 16, at 0.66 by 4.
    direct = not widened and is_direct(cascade, steps, dtype, states)
    group = 4 if weight <= 64 else 1
    if direct:
        # A sample waits for four operations of each section, one after the other: many samples fill
        # the time. 12 warps of 8 sections, whose copies are shorter, ran at 0.73, 8 at 0.77.
        group = 16 if weight <= MEDIUM else 8
    elif dtype.itemsize == 4 and (weight <= 2 or LIGHT < weight <= MEDIUM):
        group = 8 if weight <= 2 else 16
    return FilterLayout(
        cascade.order,
        len(cascade.sections),
        dtype,
        states,
        inner if inner < WIDE else 0,
        feedback=not cascade.is_feed_forward,
        items=items // dtype.itemsize if inner < WIDE else 16,
        stages=stages,
        group=max(vector, group),
        bulk=fits[1],
        inputs=inputs,
        aligned=fits[0],
        direct=direct,
        runs=max(1, dtype.itemsize // inputs.itemsize) if inputs and inner < WIDE else 1,
    )
