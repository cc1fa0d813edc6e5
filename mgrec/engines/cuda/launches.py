"""Launches of kernels, prepared once for all calls with the same signature.

A launch is described with slots in place of arrays. :class:`PreparedLaunches` fills the slots with
arrays; :class:`LaunchByAddress` writes addresses and numbers into memory that the driver reads.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import count
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk, CoefficientOperand
from .compilation import compile_kernel
from .device import reserve_descriptors, reserve_words

Arrays = Sequence[Any]
RunLaunches = Callable[..., None]


@dataclass(frozen=True)
class Launch:
    """A kernel of a program, and its launch parameters.

    Arguments are arrays, scalars, and slots for the values of a run. A function is called by every
    run: it returns an array that has its own cache. Blocks of a cooperative launch wait for each
    other.
    """

    text: str
    name: str
    blocks: int
    threads: int
    arguments: tuple[Any, ...]
    shared_bytes: int = 0
    is_cooperative: bool = False
    is_fused: bool = True

    def fill(self, values: Arrays) -> tuple[Any, ...]:
        """Return the arguments with the values of a run in place of slots."""
        return tuple(
            [a.find(values) if isinstance(a, Slot) else a() if callable(a) else a for a in self.arguments]
        )


class PreparedLaunches:
    """Launches, compiled for the current device.

    ``reserve()`` returns the memory that the launches of one run share: slots below 0. `units` is
    the number of words of :func:`mgrec.engines.cuda.device.reserve_descriptors` in place of it.
    """

    def __init__(self, *launches: Launch, reserve: Callable[[], Arrays] = tuple, units: int = 0) -> None:
        self.launches, self.units = launches, units
        self.reserve = partial(reserve_descriptors, units) if units else reserve
        self.kernels = [
            compile_kernel(launch.text, launch.name, launch.shared_bytes, is_fused=launch.is_fused)
            for launch in launches
        ]

    def __call__(self, values: Arrays = ()) -> None:
        """Launch the kernels in order on the current stream; `values` fill slots 0 and above."""
        values = (*values, *self.reserve())
        template: tuple[Any, ...] | None = None
        for launch, kernel in zip(self.launches, self.kernels, strict=True):
            if launch.arguments is not template:  # a repair has the arguments of the first launch
                template, arguments = launch.arguments, launch.fill(values)
            shared_bytes, is_cooperative = launch.shared_bytes, launch.is_cooperative
            kernel(launch.blocks, launch.threads, arguments, shared_bytes, is_cooperative)


def run_launches(*launches: Launch, values: Arrays = ()) -> None:
    """Compile launches, or find them compiled, and run them once."""
    PreparedLaunches(*launches)(values)


@dataclass(frozen=True)
class Slot:
    """Placeholder for a value of a run: the program depends on the value's signature only.

    `number`: index among the values of the run; below 0 from the end.
    `ptr`: address modulo 16. None for a number in host memory, which kernels take by value, or
      several numbers in a struct.
    `component`: index along the array's first axis; None for the whole array.
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

    def find(self, values: Arrays) -> Any:
        array = values[self.number]
        if self.ptr is None:
            return as_argument(array)
        return array if self.component is None else array[self.component]


SPACE, EPOCH = Slot(-2), Slot(-1)
"""Slots of the two values of :func:`mgrec.engines.cuda.device.reserve_descriptors`."""


def is_value(operand: Any) -> bool:
    """Return whether kernels take an operand by value: a number in host memory, or its slot."""
    if type(operand) is np.ndarray:
        return operand.size == 1
    return type(operand) is Slot and operand.ptr is None


def as_argument(operand: Any) -> Any:
    """Return an operand as a launch takes it; numbers in a struct stay together."""
    is_number = type(operand) is np.ndarray and operand.size == 1 and operand.dtype.kind != "V"
    return operand.reshape(())[()] if is_number else operand


Signature = tuple[tuple[int, ...], np.dtype[Any], int | None]
"""Shape, dtype, and address modulo 16 of an array; None in place of it for a number."""
Prepare = Callable[[TransferMap, Chunk, tuple[Any, ...], tuple[Any, ...]], PreparedLaunches]


def run_cached(
    prepare: Prepare, transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> None:
    """Run the launches of a chunk, prepared once for all chunks with the same signature.

    `prepare` is called with slots for arrays.
    """
    launches = prepare_cached(prepare, transfer_map, chunk, carry_in, results)
    arrays: list[Any] = []
    for operand in chunk.operands:
        arrays += operand.operands if isinstance(operand, CoefficientOperand) else (operand,)
    launches((*arrays, *carry_in, *results))


def prepare_cached(
    prepare: Prepare, transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> PreparedLaunches:
    """Return the launches of a chunk, from a cache if a chunk has had the same signature."""
    import cupy

    operands = tuple(
        (operand.function, operand.first, tuple(map(_signature, operand.operands)))
        if isinstance(operand, CoefficientOperand)
        else _signature(operand)
        for operand in chunk.operands
    )
    states = (tuple(map(_signature, carry_in)), tuple(map(_signature, results)))
    layout = (chunk.shape, chunk.dtype, chunk.reverse, cupy.cuda.runtime.getDevice())
    return _prepare_cached(prepare, transfer_map, operands, *states, *layout)


def _signature(array: Any) -> Signature:
    return array.shape, array.dtype, None if is_value(array) else array.data.ptr % 16


@lru_cache(maxsize=1024)
def _prepare_cached(
    prepare: Prepare,
    transfer_map: TransferMap,
    operands: tuple[Any, ...],
    carry_in: tuple[Signature, ...],
    results: tuple[Signature, ...],
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    reverse: bool,
    device: int,
) -> PreparedLaunches:
    numbers = count()

    def slot(signature: Signature) -> Slot:
        return Slot(next(numbers), *signature)

    slots = tuple(
        CoefficientOperand(operand[0], operand[1], tuple(map(slot, operand[2])))
        if hasattr(operand[0], "fingerprint")
        else slot(operand)
        for operand in operands
    )
    chunk = Chunk(slots, shape, dtype, reverse)
    return prepare(transfer_map, chunk, tuple(map(slot, carry_in)), tuple(map(slot, results)))


class LaunchByAddress:
    """Prepared launches, run with addresses and numbers.

    CuPy's call of a kernel inspects every argument and converts it. Runs with the same signature
    differ in a few words only, which are written into memory that the driver reads. Slots of 0 and
    above are whole arrays, numbers, and structs of numbers.

    Threads may share it: each run has its own words. The driver has copied them when the run ends.
    """

    def __init__(self, prepared: PreparedLaunches) -> None:
        self._units = prepared.units
        self._steps: list[tuple[Any, tuple[Any, ...], int]] = []
        self._templates: list[tuple[Any, ...]] = []
        for launch, kernel in zip(prepared.launches, prepared.kernels, strict=True):
            if not any(launch.arguments is template for template in self._templates):
                self._templates.append(launch.arguments)
            position = next(k for k, a in enumerate(self._templates) if a is launch.arguments)
            sizes = launch.blocks, launch.threads, launch.shared_bytes, launch.is_cooperative
            self._steps.append((kernel.launch, sizes, position))
        self._free: list[list[_ArgumentMemory]] = []

    def __call__(self, values: Sequence[Any]) -> None:
        """Launch all kernels on the current stream.

        `values` has for each slot the address of an array, a number, or the numbers of a struct.
        """
        stream = sys.modules["cupy"].cuda.get_current_stream()
        if self._units:
            space, epoch = reserve_words(self._units, stream)
            values = [*values, space.data.ptr, epoch]
        try:
            memories = self._free.pop()
        except IndexError:
            memories = [_ArgumentMemory(template) for template in self._templates]
        for memory in memories:
            memory.fill(values)
        pointer = stream.ptr
        for launch, sizes, position in self._steps:
            launch(memories[position].address, pointer, *sizes)
        self._free.append(memories)


class _ArgumentMemory:
    """The arguments of a launch in host memory; `address` is that of the pointers to them."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self._memory: list[Any] = []
        self._slots: list[tuple[Any, int]] = []
        self._functions: list[tuple[Any, Any]] = []
        positions = [self._store(argument) for argument in arguments]
        self._pointers = (ctypes.c_void_p * len(positions))(*positions)
        self.address = ctypes.addressof(self._pointers)

    def fill(self, values: Sequence[Any]) -> None:
        for word, number in self._slots:
            word[0] = values[number]
        for word, find in self._functions:
            word[0] = find().data.ptr

    def _store(self, argument: Any) -> int:
        """Return the address of an argument, or of the word that :meth:`fill` sets."""
        if isinstance(argument, Slot):
            is_number = argument.ptr is None
            shape = (1, *argument.shape) if is_number and argument.size > 1 else 1
            memory = np.zeros(shape, argument.dtype if is_number else np.uint64)
            self._slots.append((memory, argument.number))
        elif callable(argument):
            memory = np.zeros(1, np.uint64)
            self._functions.append((memory, argument))
        else:
            memory = np.array(argument)  # a number, or a struct
        self._memory.append(memory)
        return int(memory.ctypes.data)
