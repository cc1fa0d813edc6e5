"""How large a chunk may be: operands and results of two chunks share a GPU's memory."""

from __future__ import annotations

from math import isnan, prod
from typing import Any

import numpy as np

from ...core.arrays.array_types import is_on_gpu

# Of a GPU's memory, for a chunk's result: its operands, and the next chunk's, need the rest.
FRACTION = 0.5


def check_chunk(like: Any, shape: tuple[int, ...], dtype: np.dtype[Any], chunk_index: Any) -> None:
    """Refuse a result that takes more than half of the memory of its GPU, which `like` is on."""
    if not is_on_gpu(like) or any(map(isnan, shape)):
        return
    most, size = FRACTION * _memory(like.device), prod(shape) * dtype.itemsize
    if size > most:
        parts = int(-(-size // (most / 4)))
        raise ValueError(
            f"a chunk must take at most half of a GPU's memory, {most / 2**30:.1f} GiB; chunk "
            f"{chunk_index} of shape {shape} takes {size / 2**30:.1f} GiB: rechunk it into {parts} "
            f"parts along its longest axis with array.rechunk"
        )


def check_chunks(like: Any, chunks: Any, dtype: np.dtype[Any]) -> None:
    """Check the largest chunk of an array, if this process has a GPU."""
    if is_on_gpu(like):
        largest = tuple(max(lengths, default=0) for lengths in chunks)
        chunk_index = tuple(
            lengths.index(most) for lengths, most in zip(chunks, largest, strict=True)
        )
        try:
            _memory(like.device)
        except RuntimeError:
            return  # The client of a cluster may have no GPU: the tasks check.
        check_chunk(like, largest, dtype, chunk_index)


# By device number: every chunk asks, and the driver is slow to answer.
_KNOWN: dict[int, int] = {}


def _memory(device: Any) -> int:
    """Bytes of a GPU's memory, free or not."""
    if device.id not in _KNOWN:
        _KNOWN[device.id] = int(device.mem_info[1])
    return _KNOWN[device.id]
