"""The chunk of a recurrence that each backend receives, and the layout of its arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..algebra.coefficient import Coefficient
from ..algebra.fingerprint import StepFunction
from ..backends import CPU, backend_of
from .array_types import is_lazy


@dataclass(frozen=True)
class CoefficientOperand:
    """An operand that kernels compute from the index of the step.

    `function`: StepFunction, ``(index, *operands at that step) -> scalar``.
    `first`: index of the first step of the chunk (in array order) along the whole axis.
    """

    function: StepFunction
    first: int
    operands: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Chunk:
    """Operands of consecutive steps, in the layout of kernels.

    `operands`, tuple of arrays and CoefficientOperand: each array is C-contiguous with the axes
      (outer, steps, inner). An axis of length 1 is broadcast and never expanded. The recurrence
      runs along ``steps``. A row is one (outer, inner) pair.
    `shape`, (int, int, int): full shape (outer, steps, inner).
    `dtype`: dtype of the states, the maps and the results.
    `kept`: that of the chunk's :class:`mgrec.core.contract.recurrence.ChunkInputs`.
    `whole_size`: `size` of the chunk that a thread computes this part of.
    """

    operands: tuple[Any, ...]
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    reverse: bool = False
    kept: dict[str, Any] | None = None
    whole_size: int = 0

    @property
    def steps(self) -> int:
        return self.shape[1]

    @property
    def size(self) -> int:
        """Number of steps of all rows: that of the whole call for a part of one thread."""
        return self.whole_size or math.prod(self.shape)

    def for_threads(self) -> Chunk:
        """Return the chunk, whose parts are as long as it is for `size`."""
        return replace(self, whole_size=self.size)

    def rows(self, start: int, stop: int) -> Chunk:
        """Return a part of the outer rows."""
        return self._part(0, start, stop)

    def between(self, start: int, stop: int) -> Chunk:
        """Return the steps from `start` to `stop`, counted in array order."""
        return self._part(1, start, stop)

    def _part(self, axis: int, start: int, stop: int) -> Chunk:
        def part(array: Any) -> Any:
            if array.shape[axis] == 1 and self.shape[axis] != 1:
                return array
            return array[start:stop] if axis == 0 else array[:, start:stop]

        shape = list(self.shape)
        shape[axis] = stop - start
        first = start if axis == 1 else 0
        return self.map_arrays(part, (shape[0], shape[1], shape[2]), first)

    def map_arrays(
        self, function: Callable[[Any], Any], shape: tuple[int, int, int], first: int = 0
    ) -> Chunk:
        """Apply a function to each array of the operands; indices advance by `first`."""

        def mapped(operand: object) -> Any:
            if isinstance(operand, CoefficientOperand):
                arrays = tuple(map(function, operand.operands))
                return CoefficientOperand(operand.function, operand.first + first, arrays)
            return function(operand)

        operands = tuple(map(mapped, self.operands))
        # dataclasses.replace took 1 us longer, a tenth of the time to join two threads' pieces.
        return Chunk(operands, shape, self.dtype, self.reverse, self.kept, self.whole_size)

    @property
    def row_shape(self) -> tuple[int, int]:
        """Axes (outer, inner) of a carry-in."""
        return self.shape[0], self.shape[2]


def lay_out(recurrence: Any, operands: Sequence[Any], shape: tuple[int, ...], first: int) -> Chunk:
    """Return the operands of one chunk as a :class:`Chunk`.

    `shape` is the shape of its result, and `first` the index of its first step along the whole
    axis.
    """
    layout = canonical_shape(shape, recurrence.axis)

    def in_layout(array: Any) -> Any:
        return lay_out_array(array, shape, recurrence.axis, layout)

    def lay_out_operand(operand: object) -> Any:
        if isinstance(operand, Coefficient):
            arrays = tuple(map(in_layout, operand.arrays))
            return CoefficientOperand(operand.function, first, arrays)
        return in_layout(operand)

    return Chunk(tuple(map(lay_out_operand, operands)), layout, recurrence.dtype, recurrence.reverse)


def canonical_shape(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return (outer, steps, inner) of a shape."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def lay_out_array(
    array: Any, shape: tuple[int, ...], axis: int, layout: tuple[int, int, int], numbers: tuple[int, ...] = ()
) -> Any:
    """Return an array (outer, steps, inner); axes of length 1 that are broadcast stay 1.

    `numbers` are the last axes of the array, which follow these three.
    """
    if array.shape == (*shape, *numbers):
        return as_contiguous(array).reshape(*layout, *numbers)
    if array.ndim == 0:
        return array.reshape(1, 1, 1)
    full_shape = (1,) * (len(shape) + len(numbers) - array.ndim) + array.shape
    merged: list[int] = []
    expanded: list[int] = []
    for axes, length in zip(
        (slice(axis), slice(axis, axis + 1), slice(axis + 1, len(shape))), layout, strict=True
    ):
        is_broadcast = all(size == 1 for size in full_shape[axes])
        merged.append(1 if is_broadcast else length)
        expanded += full_shape[axes] if is_broadcast else shape[axes]
    array = array.reshape(full_shape)
    expanded += numbers
    if list(full_shape) != expanded:
        # Axes of which only some are broadcast cannot be merged without expansion.
        array = np.broadcast_to(array, expanded)
    return as_contiguous(array).reshape(*merged, *numbers)


def as_contiguous(array: Any) -> Any:
    """Return the array, or a copy in C order on the same device."""
    return array if array.flags.c_contiguous else array.copy(order="C")


def write_contiguous(write: Callable[[Any], Any], target: Any) -> Any:
    """Call ``write(array)`` for `target`, or for a contiguous array that is then copied to it.

    Return the array.
    """
    array = target if target.flags.c_contiguous else np.empty_like(target, order="C")
    write(array)
    if array is not target:
        target[...] = array
    return array


def shape_of(value: Any) -> tuple[Any, ...]:
    """Return the shape of an array or a number, without computing a Dask array."""
    shape = getattr(value, "shape", None)
    return np.shape(value) if shape is None else shape


def move_axis(array: Any, source: int, destination: int) -> Any:
    """Return an array with one axis moved."""
    order = [k for k in range(array.ndim) if k != source % array.ndim]
    order.insert(destination % array.ndim, source % array.ndim)
    return array.transpose(order)


def reversed_copy(array: Any, axis: int) -> Any:
    """Return a reversed copy along an axis; a Dask array stays lazy."""
    view = array[(slice(None),) * axis + (slice(None, None, -1),)]
    return view if is_lazy(array) else backend_of(array).reversed_copy(array, view)


def is_number(state: Any) -> bool:
    """Return whether a state is one number in host memory."""
    return state.ndim == 0 and backend_of(state) is CPU


def lay_out_carry_in(state: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Broadcast a state and reshape it to (outer, inner)."""
    outer, _, inner = canonical_shape(shape, axis)
    if is_number(state):
        return np.full((outer, inner), state)
    rows = shape[:axis] + shape[axis + 1 :]
    state = state if state.shape == rows else np.broadcast_to(state, rows)
    return state.reshape(outer, inner)


def is_uncopied(laid_out: Any, operand: Any) -> bool:
    """Return whether an operand was not copied for its layout; True for numbers."""
    backend = backend_of(operand)
    is_host_number = backend is CPU and operand.ndim == 0
    return is_host_number or backend.address(laid_out) == backend.address(operand)


def as_result(computed: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return a computed array in its final shape and dtype."""
    if computed.dtype == dtype:
        return computed if computed.shape == shape else computed.reshape(shape)
    # Results overflow to inf in float16 without a warning, as in kernels of other dtypes.
    with np.errstate(over="ignore"):
        return computed.reshape(shape).astype(dtype)


def has_unknown_sizes(chunks: Iterable[Iterable[Any]]) -> bool:
    """Return whether some sizes of chunks, or of a shape, are unknown.

    >>> has_unknown_sizes(((2, 3), (float("nan"), 5)))
    True
    """
    return any(math.isnan(length) for lengths in chunks for length in lengths)
