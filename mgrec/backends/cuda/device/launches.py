"""Launches: compiled once for all chunks of one kind, then bound to arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np

from ....arrays.chunk import Chunk, CoefficientOperand
from .compilation import Kernel, descriptors

Arrays = Sequence[Any]


@dataclass(frozen=True)
class Launch:
    """Kernels of one solve and what they are launched with.

    Attributes
    ----------
    calls : tuple of (Kernel, blocks, threads, bytes of shared memory, is cooperative)
        One after the other, all with the same arguments.
    arguments : tuple
        Arrays, scalars of coefficients, and slots that :meth:`on` fills.
    sizes : tuple of numpy.int64
    units : int
        64-bit words of the look-ahead's memory, which comes before the sizes, its epoch
        after them; 0 where there is none.
    """

    calls: tuple[tuple[Kernel, int, int, int, bool], ...]
    arguments: tuple[Any, ...]
    sizes: tuple[Any, ...]
    units: int = 0

    def __call__(self) -> None:
        arguments = (*self.arguments, *self.sizes)
        if self.units:
            space, epoch = descriptors(self.units)
            arguments = (*self.arguments, space, *self.sizes, np.uint32(epoch))
        for kernel, blocks, threads, shared_bytes, is_cooperative in self.calls:
            kernel(blocks, threads, arguments, shared_bytes, is_cooperative)

    def on(self, arrays: Arrays) -> Launch:
        """The same launch on other arrays of its kind."""
        filled = (arrays[a.number] if isinstance(a, Slot) else a for a in self.arguments)
        return Launch(self.calls, tuple(filled), self.sizes, self.units)


@dataclass(frozen=True)
class Slot:
    """Stands for an array of a kind: what a program is printed for without the array.

    Attributes
    ----------
    number : int
        Among all arrays of the launch.
    shape : tuple of int
    dtype : numpy.dtype
    ptr : int
        Address modulo 16.
    """

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    ptr: int

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def data(self) -> Slot:
        return self


Kind = tuple[tuple[int, ...], np.dtype[Any], int]
Prepare = Callable[[Any, Chunk, tuple[Any, ...], tuple[Any, ...]], Any]


def bind(
    prepare: Prepare, transfer_map: Any, chunk: Chunk, entry: tuple[Any, ...], results: Arrays
) -> Any:
    """The launch of a chunk, compiled only if none of its kind has been.

    Parameters
    ----------
    prepare : callable, ``(transfer_map, chunk, entry, results) -> launch``
        Called with slots for arrays; what it returns has ``on(arrays)``, as :class:`Launch`.
    transfer_map, chunk, entry, results
        As of :func:`mgrec.backends.cuda.transfer.determine.prepare`.
    """
    import cupy

    operands = tuple(
        (operand.function, operand.first, tuple(map(_kind, operand.operands)))
        if isinstance(operand, CoefficientOperand)
        else _kind(operand)
        for operand in chunk.operands
    )
    outputs = (tuple(map(_kind, entry)), tuple(map(_kind, results)))
    place = (chunk.shape, chunk.dtype, chunk.reverse, cupy.cuda.runtime.getDevice())
    launch = _compiled(prepare, transfer_map, operands, *outputs, *place)
    arrays: list[Any] = []
    for operand in chunk.operands:
        arrays += operand.operands if isinstance(operand, CoefficientOperand) else (operand,)
    return launch.on((*arrays, *entry, *results))


def _kind(array: Any) -> Kind:
    return array.shape, array.dtype, array.data.ptr % 16


@lru_cache(maxsize=1024)
def _compiled(
    prepare: Prepare, transfer_map: Any, operands: tuple[Any, ...], entry: tuple[Kind, ...],
    results: tuple[Kind, ...], shape: tuple[int, int, int], dtype: np.dtype[Any], reverse: bool,
    device: int,
) -> Any:  # fmt: skip
    numbers = count()

    def slot(kind: Kind) -> Slot:
        return Slot(next(numbers), *kind)

    slots = tuple(
        CoefficientOperand(operand[0], operand[1], tuple(map(slot, operand[2])))
        if hasattr(operand[0], "fingerprint")
        else slot(operand)
        for operand in operands
    )
    chunk = Chunk(slots, shape, dtype, reverse)
    return prepare(transfer_map, chunk, tuple(map(slot, entry)), tuple(map(slot, results)))
