"""Grids on a GPU: strips, which blocks process in order, and copies of transposed arrays.

The strips exchange their edges. CuPy copies arrays whose last two axes are exchanged in memory
number by number, at a twelfth of the bandwidth of an H100.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..engines.cuda.compilation import kernel_text
from ..engines.cuda.device import Device, pack_words
from ..engines.cuda.launches import EPOCH, SPACE, Launch, PreparedLaunches, Slot

Shape = tuple[int, int, int]
"""Grids, rows and columns."""
_KERNEL = """
extern "C" __global__ void __launch_bounds__({threads}, {blocks}) {name}(
    const {struct} all{parameters}) {{
  {function}(all{arguments});
}}
"""
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_SIDE, _THREADS = 32, 256
_GRIDS = Slot(0, (4,), np.dtype(np.int64), None)
_COPY_KERNEL = """
extern "C" __global__ void __launch_bounds__(256) transpose_kernel(const Grids grids) {
  transpose(grids);
}
"""


@dataclass(frozen=True)
class StripPartition(ABC):
    """Grids of a shape, divided into strips."""

    layout: Any
    shape: Shape

    @property
    @abstractmethod
    def strips(self) -> int:
        """Strips of a grid."""

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return int(self.layout.shared_bytes)

    def blocks(self, device: Device) -> int:
        """Return the number of blocks of a launch, all resident at once."""
        return min(self.shape[0] * self.strips, self.layout.blocks * device.multiprocessors)

    def launch(
        self,
        device: Device,
        text: str,
        name: str,
        function: str,
        most_blocks: int,
        words: int,
        *,
        struct: str = "Grids",
        is_fused: bool = False,
    ) -> Launch:
        """Return the launch of a function of a program, which takes a struct of so many words."""
        is_exchanged = not self.layout.is_single_strip
        text += _KERNEL.format(
            threads=self.layout.threads,
            blocks=most_blocks,
            name=name,
            struct=struct,
            parameters=", Unit* descriptors, unsigned epoch" if is_exchanged else "",
            function=function,
            arguments=", descriptors, epoch" if is_exchanged else "",
        )
        grids = Slot(0, (words,), np.dtype(np.int64), None)
        arguments = (grids, SPACE, EPOCH) if is_exchanged else (grids,)
        return Launch(
            text,
            name,
            self.blocks(device),
            self.layout.threads,
            arguments,
            self.shared_bytes,
            is_cooperative=is_exchanged,
            is_fused=is_fused,
        )


def contiguous(array: Any) -> Any:
    """Return the array, C-contiguous; copied only if necessary."""
    import cupy

    if not is_transposed(array):
        return cupy.ascontiguousarray(array)
    copy = cupy.empty(array.shape, array.dtype)
    _transpose(array, copy)
    return copy


def assign(target: Any, source: Any) -> None:
    """Write a C-contiguous array into another one of its shape and dtype."""
    if is_transposed(target):
        _transpose(source.swapaxes(-1, -2), target.swapaxes(-1, -2))
    else:
        target[...] = source


def is_transposed(array: Any) -> bool:
    """Return whether the array is C-contiguous with its last two axes exchanged."""
    is_matrix = array.ndim >= 2 and min(array.shape[-2:]) > 1 and array.dtype.itemsize in _WORDS
    return is_matrix and bool(array.swapaxes(-1, -2).flags.c_contiguous)


def _transpose(source: Any, target: Any) -> None:
    """Copy a transposed array into a C-contiguous one."""
    if source.size:
        *_, rows, columns = source.shape
        words = pack_words([source.data.ptr, target.data.ptr, rows, columns])
        prepare_copy(source.shape, source.dtype.itemsize)((words,))


def prepare_copy(shape: tuple[int, ...], itemsize: int) -> PreparedLaunches:
    """Return the launch that copies transposed arrays of a shape; it takes the kernel's struct."""
    import cupy

    return _prepare_copy(shape, itemsize, cupy.cuda.runtime.getDevice())


@lru_cache(maxsize=256)
def _prepare_copy(shape: tuple[int, ...], itemsize: int, device_id: int) -> PreparedLaunches:
    *batch, rows, columns = shape
    blocks = prod(batch) * -(-rows // _SIDE) * -(-columns // _SIDE)
    return PreparedLaunches(Launch(print_copy(itemsize), "transpose_kernel", blocks, _THREADS, (_GRIDS,)))


def print_copy(itemsize: int) -> str:
    """Return the program for numbers of so many bytes."""
    text = f"#define DEVICE __device__\ntypedef {_WORDS[itemsize]} Word;\n"
    return text + kernel_text("engines/cuda/memory/transpose") + _COPY_KERNEL
