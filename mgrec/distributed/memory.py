"""Memory of GPUs: how large a chunk may be, and how objects with GPU arrays are spilled.

Results of tasks are serialised with their GPU arrays one by one. Otherwise dask-cuda counts such
an object against the memory of the host, and never spills it from the device.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from math import isnan, prod
from typing import Any

import numpy as np
from distributed.protocol import dask_deserialize, dask_serialize, deserialize, serialize
from distributed.protocol.cuda import cuda_deserialize, cuda_serialize

from ..core.backends import backend_of, common_backend

# Largest part of a GPU's memory for the result of a chunk. The rest is for the operands, and for
# those of the next chunk.
FRACTION = 0.5

Frames = tuple[dict[str, Any], list[Any]]


def check_chunk(like: Any, shape: tuple[int, ...], dtype: np.dtype[Any], chunk_index: Any) -> None:
    """Raise ValueError if a result takes more than half of the memory of `like`'s GPU."""
    total = backend_of(like).memory_size(like)
    if total is None or any(map(isnan, shape)):
        return
    most, size = FRACTION * total, prod(shape) * dtype.itemsize
    if size > most:
        parts = int(-(-size // (most / 4)))
        raise ValueError(
            f"a chunk must take at most half of a GPU's memory, {most / 2**30:.1f} GiB; chunk "
            f"{chunk_index} of shape {shape} takes {size / 2**30:.1f} GiB: rechunk it into {parts} "
            f"parts along its longest axis with array.rechunk"
        )


def check_chunks(like: Any, chunks: Sequence[Sequence[Any]], dtype: np.dtype[Any]) -> None:
    """Check the largest chunk of an array, if this process has a GPU."""
    try:
        if backend_of(like).memory_size(like) is None:
            return
    except RuntimeError:
        return  # The client of a cluster may have no GPU: the tasks check.
    largest = tuple(max(lengths, default=0) for lengths in chunks)
    chunk_index = tuple(lengths.index(most) for lengths, most in zip(chunks, largest, strict=True))
    check_chunk(like, largest, dtype, chunk_index)


def register(cls: type, arrays_of: Callable[[Any], Sequence[Any]]) -> None:
    """Register a class with distributed, and with dask-cuda if the worker runs it.

    ``arrays_of(object)`` returns large arrays, which are on a GPU if the object is.
    """
    dask_serialize.register(cls)(_split_by(("dask", "pickle")))
    cuda_serialize.register(cls)(_split_by(("cuda", "dask", "pickle")))
    dask_deserialize.register(cls)(_rebuild)
    cuda_deserialize.register(cls)(_rebuild)
    if "dask_cuda" in sys.modules:
        from dask_cuda.is_device_object import is_device_object

        is_device_object.register(cls)(lambda value: not common_backend(arrays_of(value)).is_host)


class _Pickler(pickle.Pickler):
    """Collects GPU arrays, and large buffers of other arrays, outside of the pickle."""

    def __init__(self, file: Any) -> None:
        self.arrays: list[Any] = []
        self.buffers: list[Any] = []
        collect = lambda buffer: self.buffers.append(buffer.raw())  # noqa: E731
        super().__init__(file, protocol=5, buffer_callback=collect)

    def persistent_id(self, value: object) -> int | None:
        if backend_of(value).is_host:
            return None
        self.arrays.append(value)
        return len(self.arrays) - 1


class _Unpickler(pickle.Unpickler):
    arrays: list[Any]

    def persistent_load(self, number: int) -> Any:
        return self.arrays[number]


def _split_by(serializers: tuple[str, ...]) -> Callable[[Any], Frames]:
    def split(value: object) -> Frames:
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(value)
        frames, headers = [file.getbuffer(), *pickler.buffers], []
        for array in pickler.arrays:
            header, parts = serialize(array, serializers=serializers, on_error="raise")
            headers.append((header, len(parts)))
            frames += parts
        return {"arrays": headers, "buffers": len(pickler.buffers)}, frames

    return split


def _rebuild(header: dict[str, Any], frames: list[Any]) -> Any:
    start = 1 + header["buffers"]
    unpickler = _Unpickler(io.BytesIO(frames[0]), buffers=frames[1:start])
    unpickler.arrays = []
    for array_header, count in header["arrays"]:
        unpickler.arrays.append(deserialize(array_header, frames[start : start + count]))
        start += count
    return unpickler.load()
