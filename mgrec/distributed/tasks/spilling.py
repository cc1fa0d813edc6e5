"""Serialise what tasks hand on with its arrays of a GPU one by one, each as its own kind of array.

Else dask-cuda takes such an object for one of host memory: it counts against the memory of the
host, and is never spilled from the device.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

from distributed.protocol import dask_deserialize, dask_serialize, deserialize, serialize
from distributed.protocol.cuda import cuda_deserialize, cuda_serialize

from ...core.arrays.array_types import is_on_gpu

Frames = tuple[dict[str, Any], list[Any]]


def register(kind: type, arrays_of: Callable[[Any], Sequence[Any]]) -> None:
    """Register a type with distributed, and with dask-cuda where a worker runs it.

    Parameters
    ----------
    arrays_of : callable, ``(object) -> arrays``
        Large ones, by which it is known whether an object is on a GPU.
    """
    dask_serialize.register(kind)(_by(("dask", "pickle")))
    cuda_serialize.register(kind)(_by(("cuda", "dask", "pickle")))
    dask_deserialize.register(kind)(_rebuild)
    cuda_deserialize.register(kind)(_rebuild)
    if "dask_cuda" in sys.modules:
        from dask_cuda.is_device_object import is_device_object

        is_device_object.register(kind)(lambda own: any(map(is_on_gpu, arrays_of(own))))


class _Pickler(pickle.Pickler):
    """Leaves out arrays of a GPU, and hands large buffers of others on."""

    def __init__(self, file: Any) -> None:
        self.arrays: list[Any] = []
        self.buffers: list[Any] = []
        keep = lambda buffer: self.buffers.append(buffer.raw())  # noqa: E731
        super().__init__(file, protocol=5, buffer_callback=keep)

    def persistent_id(self, value: Any) -> int | None:
        if not is_on_gpu(value):
            return None
        self.arrays.append(value)
        return len(self.arrays) - 1


class _Unpickler(pickle.Unpickler):
    arrays: list[Any]

    def persistent_load(self, number: int) -> Any:
        return self.arrays[number]


def _by(serializers: tuple[str, ...]) -> Callable[[Any], Frames]:
    def split(own: Any) -> Frames:
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(own)
        frames, headers = [file.getbuffer(), *pickler.buffers], []
        for array in pickler.arrays:
            header, parts = serialize(array, serializers=serializers, on_error="raise")
            headers.append((header, len(parts)))
            frames += parts
        return {"arrays": headers, "buffers": len(pickler.buffers)}, frames

    return split


def _rebuild(header: dict[str, Any], frames: list[Any]) -> Any:
    left = 1 + header["buffers"]
    own = _Unpickler(io.BytesIO(frames[0]), buffers=frames[1:left])
    own.arrays = []
    for each, count in header["arrays"]:
        own.arrays.append(deserialize(each, frames[left : left + count]))
        left += count
    return own.load()
