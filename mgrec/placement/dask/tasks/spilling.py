"""Serialise packs block by block, each as its own kind of array.

Else dask-cuda takes a pack of CuPy blocks for a host object: it counts against the memory of the
host, and is never spilled from the device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from distributed.protocol import dask_deserialize, dask_serialize, deserialize, serialize
from distributed.protocol.cuda import cuda_deserialize, cuda_serialize

from ....arrays.kinds import is_on_gpu

Frames = tuple[dict[str, Any], list[Any]]


def register(pack: type) -> None:
    """Register packs with distributed, and with dask-cuda where a worker runs it."""
    dask_serialize.register(pack)(_by(("dask", "pickle")))
    cuda_serialize.register(pack)(_by(("cuda", "dask", "pickle")))

    def rebuild(header: dict[str, Any], frames: list[Any]) -> Any:
        blocks, left = [], 0
        for own, count in header["blocks"]:
            blocks.append(deserialize(own, frames[left : left + count]))
            left += count
        return pack(tuple(blocks), tuple(header["place"]), tuple(header["starts"]))

    dask_deserialize.register(pack)(rebuild)
    cuda_deserialize.register(pack)(rebuild)
    if "dask_cuda" in sys.modules:
        from dask_cuda.is_device_object import is_device_object

        is_device_object.register(pack)(lambda own: any(map(is_on_gpu, own.blocks)))


def _by(serializers: tuple[str, ...]) -> Callable[[Any], Frames]:
    def split(pack: Any) -> Frames:
        blocks, frames = [], []
        for block in pack.blocks:
            header, own = serialize(block, serializers=serializers, on_error="raise")
            blocks.append((header, len(own)))
            frames += own
        return {"blocks": blocks, "place": pack.place, "starts": pack.starts}, frames

    return split
