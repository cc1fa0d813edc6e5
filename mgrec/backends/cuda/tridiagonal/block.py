"""Whole lines in a block, with partial pivoting: read once, written once, where they fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ....arrays.chunk import Chunk
from ....families.tridiagonal.singular import SingularSystemError
from ..device.compilation import Device
from ..device.launches import Launch, Prepared, Run, Slot
from ..transfer.program import kernel_text
from .memory import Status, strides_of
from .program import prelude
from .window import WindowLayout, Windows

_ROWS = 18
_THREADS = {4: (128, 256, 320), 8: (64, 128, 160), 16: (32, 64, 80)}
# Numbers of a thread beside its rows: those of a link, and three unknowns.
_LINK = 14
_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS)
block_kernel(const Windows windows, unsigned long long* status) {
  solve_in_block(windows, status);
}
"""


class Block(NamedTuple):
    """Blocks over lines of a kind, compiled for a device.

    Attributes
    ----------
    words : array of int64
        What the kernel takes, the addresses of a call to be filled in.
    run : callable
    """

    words: np.ndarray
    run: Run

    def reserve(self, operands: Sequence[int], result: int) -> Callable[[], bool]:
        """Memory of a call; the callable solves, and tells whether no operand holds nan or inf.

        It raises SingularSystemError.
        """
        status = Status.reserve()
        words = self.words.copy()
        words[_ADDRESSES] = [*operands, result]

        def solve() -> bool:
            self.run((words.view(f"V{words.nbytes}"), status.array))
            singular, odd = status.copy()()
            if singular is not None:
                raise SingularSystemError(singular)
            return odd is None

        return solve


# Of the operands and the result among the words.
_ADDRESSES = np.array([0, 4, 8, 12, 16])


@cache
def print_block(layout: WindowLayout) -> str:
    """The program that solves lines in blocks."""
    return prelude(layout.dtype) + layout.print() + kernel_text("tridiagonal/block") + _KERNEL


def block_bytes(layout: WindowLayout) -> int:
    """Shared memory of a block."""
    tile = layout.threads * layout.rows + max(1, 16 // layout.dtype.itemsize)
    return (4 * tile + _LINK * layout.threads) * layout.dtype.itemsize


def layouts_of(dtype: np.dtype[Any], device: Device) -> list[WindowLayout]:
    """Of blocks that fit a multiprocessor twice, the smallest first: one loads, one computes."""
    found = [WindowLayout(dtype, threads, _ROWS, 1) for threads in _THREADS[dtype.itemsize]]
    return [layout for layout in found if 2 * block_bytes(layout) <= device.shared_bytes]


def block_of(chunk: Chunk) -> Block | None:
    """What is launched for whole lines of the kind of this chunk; None where they do not fit."""
    import cupy

    shapes = tuple([operand.shape for operand in chunk.operands])
    return _block(chunk.shape, chunk.dtype, shapes, cupy.cuda.runtime.getDevice())


@lru_cache(maxsize=1024)
def _block(
    shape: tuple[int, int, int], dtype: np.dtype[Any], shapes: tuple[tuple[int, int, int], ...],
    number: int,
) -> Block | None:  # fmt: skip
    device = Device.current()
    fitting = [
        layout for layout in layouts_of(dtype, device) if shape[1] <= layout.threads * layout.rows
    ]
    if shape[2] > 1 or not fitting:
        return None
    windows = Windows(shape, fitting[0], 0)
    operands = [word for own in shapes for word in (0, *strides_of(own, shape))]
    words = [*operands, 0, 0, 0, *windows.words(), 0, 0, 0]
    launch = Launch(
        print_block(windows.layout), "block_kernel", windows.count, windows.layout.threads,
        (Slot(0), Slot(1)), block_bytes(windows.layout),
    )  # fmt: skip
    return Block(np.array(words, np.int64), Prepared(launch))
