"""Launches by the words that a call gives: addresses and numbers, and nothing to look at.

CuPy's call of a kernel looks at every argument and makes an object of it. The arguments of calls
of a kind differ in a few words: these are written into memory that the driver reads.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .compilation import reserve_words
from .launches import Prepared, Slot

Words = Sequence[Any]


class Bound:
    """Prepared launches, run by addresses.

    Parameters
    ----------
    prepared : Prepared
        Its slots of 0 and more stand for whole arrays, for numbers and for structs of these.

    Notes
    -----
    Threads may share it: each run has words of its own, that the driver has copied when it ends.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._units = prepared.units
        self._steps: list[tuple[Any, tuple[Any, ...], int]] = []
        self._arguments: list[tuple[Any, ...]] = []
        for launch, kernel in zip(prepared.launches, prepared.kernels, strict=True):
            if not any(launch.arguments is known for known in self._arguments):
                self._arguments.append(launch.arguments)
            position = next(k for k, a in enumerate(self._arguments) if a is launch.arguments)
            sizes = launch.blocks, launch.threads, launch.shared_bytes, launch.is_cooperative
            self._steps.append((kernel.launch, sizes, position))
        self._free: list[list[_Arguments]] = []

    def __call__(self, given: Words) -> None:
        """Launch all on the current stream.

        Parameters
        ----------
        given : sequence
            By the numbers of slots: the address of an array, a number, or those of a struct.
        """
        stream = _cuda().get_current_stream()
        if self._units:
            space, epoch = reserve_words(self._units, stream)
            given = [*given, space.data.ptr, epoch]
        try:
            arguments = self._free.pop()
        except IndexError:
            arguments = [_Arguments(each) for each in self._arguments]
        for each in arguments:
            each.fill(given)
        pointer = stream.ptr
        for run, sizes, position in self._steps:
            run(arguments[position].address, pointer, *sizes)
        self._free.append(arguments)


def _cuda() -> Any:
    return sys.modules["cupy"].cuda


class _Arguments:
    """The arguments of a launch in memory, as the driver takes them.

    Attributes
    ----------
    address : int
        Of the pointers to them.
    """

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self._held: list[Any] = []
        self._words: list[tuple[Any, int]] = []
        self._asked: list[tuple[Any, Any]] = []
        positions = [self._position(argument) for argument in arguments]
        self._pointers = (ctypes.c_void_p * len(positions))(*positions)
        self.address = ctypes.addressof(self._pointers)

    def fill(self, given: Words) -> None:
        for word, number in self._words:
            word[0] = given[number]
        for word, find in self._asked:
            word[0] = find().data.ptr

    def _position(self, argument: Any) -> int:
        """The address of an argument; a word that a run fills in is noted."""
        if isinstance(argument, Slot):
            is_number = argument.ptr is None
            shape = (1, *argument.shape) if is_number and argument.size > 1 else 1
            held = np.zeros(shape, argument.dtype if is_number else np.uint64)
            self._words.append((held, argument.number))
        elif callable(argument):
            held = np.zeros(1, np.uint64)
            self._asked.append((held, argument))
        else:
            held = np.array(argument)  # a number, or a struct
        self._held.append(held)
        return int(held.ctypes.data)
