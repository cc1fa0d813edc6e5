"""Launches: each described once, those of a chunk prepared once for all chunks of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import count
from typing import Any

import numpy as np

from ....core.algebra.transfer_map import TransferMap
from ....core.arrays.chunk import Chunk, CoefficientOperand
from .compilation import compile_kernel, descriptors

Arrays = Sequence[Any]
Run = Callable[..., None]


@dataclass(frozen=True)
class Launch:
    """A kernel and what it is launched with: all that a study of a layout finds out.

    Attributes
    ----------
    text, name : str
        Program and kernel.
    blocks, threads : int
    arguments : tuple
        Arrays, scalars, and slots for what a run is given. A function is called by every run:
        for what is kept by a cache of its own.
    shared_bytes : int
        Dynamic shared memory of a block.
    is_cooperative : bool
        Blocks wait for each other.
    is_fused : bool
        As of :func:`mgrec.engines.cuda.device.compilation.compile_kernel`.
    """

    text: str
    name: str
    blocks: int
    threads: int
    arguments: tuple[Any, ...]
    shared_bytes: int = 0
    is_cooperative: bool = False
    is_fused: bool = True

    def fill(self, given: Arrays) -> tuple[Any, ...]:
        """The arguments of one run."""
        return tuple([
            a.find(given) if isinstance(a, Slot) else a() if callable(a) else a
            for a in self.arguments
        ])  # fmt: skip


class Prepared:
    """Launches, compiled for the current device.

    Parameters
    ----------
    *launches : Launch
    reserve : callable, ``() -> arrays``
        Memory that the launches share and a run alone needs: slots below 0.
    units : int
        The same of :func:`mgrec.engines.cuda.device.compilation.descriptors`, so many words.
    """

    def __init__(
        self, *launches: Launch, reserve: Callable[[], Arrays] = tuple, units: int = 0
    ) -> None:
        self.launches, self.units = launches, units
        self.reserve = partial(descriptors, units) if units else reserve
        self.kernels = [
            compile_kernel(each.text, each.name, each.shared_bytes, is_fused=each.is_fused)
            for each in launches
        ]

    def __call__(self, given: Arrays = ()) -> None:
        """Launch one after the other on the current stream; slots of 0 and more are `given`."""
        given = (*given, *self.reserve())
        template: tuple[Any, ...] | None = None
        for launch, kernel in zip(self.launches, self.kernels, strict=True):
            if launch.arguments is not template:  # a repair has those of what it repairs
                template, arguments = launch.arguments, launch.fill(given)
            shared_bytes, is_cooperative = launch.shared_bytes, launch.is_cooperative
            kernel(launch.blocks, launch.threads, arguments, shared_bytes, is_cooperative)


def run(*launches: Launch, given: Arrays = ()) -> None:
    """Compile launches, or find them compiled, and run them once."""
    Prepared(*launches)(given)


@dataclass(frozen=True)
class Slot:
    """Stands for what a run is given: an array of a kind, which a program is printed without.

    Attributes
    ----------
    number : int
        Among all that the run is given; below 0 from its end.
    shape : tuple of int
    dtype : numpy.dtype
    ptr : int, optional
        Address modulo 16. None for a number in host memory, which kernels take by value, or
        several in a struct.
    component : int, optional
        Of the array's first axis this one alone.
    """

    number: int
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] | None = None
    ptr: int | None = 0
    component: int | None = None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def data(self) -> Slot:
        return self

    def __iter__(self) -> Iterator[Slot]:
        return (replace(self, component=k) for k in range(self.shape[0]))

    def find(self, given: Arrays) -> Any:
        array = given[self.number]
        if self.ptr is None:
            return as_argument(array)
        return array if self.component is None else array[self.component]


SPACE, EPOCH = Slot(-2), Slot(-1)
"""Of :func:`mgrec.engines.cuda.device.compilation.descriptors`, where a run reserves them."""


def is_value(operand: Any) -> bool:
    """Whether kernels take an operand by value: a number in host memory, or its slot."""
    if type(operand) is np.ndarray:
        return operand.size == 1
    return type(operand) is Slot and operand.ptr is None


def as_argument(operand: Any) -> Any:
    """An operand as a launch takes it; numbers in a struct stay together."""
    is_number = type(operand) is np.ndarray and operand.size == 1 and operand.dtype.kind != "V"
    return operand.reshape(())[()] if is_number else operand


Kind = tuple[tuple[int, ...], np.dtype[Any], int | None]
Prepare = Callable[[TransferMap, Chunk, tuple[Any, ...], tuple[Any, ...]], Prepared]


def run_prepared(
    prepare: Prepare, transfer_map: TransferMap, chunk: Chunk, entry: Arrays, results: Arrays
) -> None:
    """Run the launches of a chunk, prepared only if none of its kind has been.

    Parameters
    ----------
    prepare : callable, ``(transfer_map, chunk, entry, results) -> ((given) -> None)``
        Called with slots for arrays, returns :class:`Prepared`.
    transfer_map, chunk, entry, results
        As of :func:`mgrec.scans.cuda.determine.prepare`.
    """
    run = prepare_kind(prepare, transfer_map, chunk, entry, results)
    arrays: list[Any] = []
    for operand in chunk.operands:
        arrays += operand.operands if isinstance(operand, CoefficientOperand) else (operand,)
    run((*arrays, *entry, *results))


def prepare_kind(
    prepare: Prepare, transfer_map: TransferMap, chunk: Chunk, entry: Arrays, results: Arrays
) -> Prepared:
    """Prepare the launches of a chunk, or find those of a chunk of its kind.

    They take the chunk's operands, those of coefficients included, then `entry` and `results`.
    """
    import cupy

    operands = tuple(
        (operand.function, operand.first, tuple(map(_kind, operand.operands)))
        if isinstance(operand, CoefficientOperand)
        else _kind(operand)
        for operand in chunk.operands
    )
    outputs = (tuple(map(_kind, entry)), tuple(map(_kind, results)))
    kind = (chunk.shape, chunk.dtype, chunk.reverse, cupy.cuda.runtime.getDevice())
    return _prepare_kind(prepare, transfer_map, operands, *outputs, *kind)


def _kind(array: Any) -> Kind:
    return array.shape, array.dtype, None if is_value(array) else array.data.ptr % 16


@lru_cache(maxsize=1024)
def _prepare_kind(
    prepare: Prepare, transfer_map: TransferMap, operands: tuple[Any, ...], entry: tuple[Kind, ...],
    results: tuple[Kind, ...], shape: tuple[int, int, int], dtype: np.dtype[Any], reverse: bool,
    device: int,
) -> Prepared:  # fmt: skip
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
