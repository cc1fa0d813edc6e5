"""A group of GPUs that NCCL connects, by CuPy's binding."""

from __future__ import annotations

import time
from typing import Any

import cupy
import numpy as np
from cupy.cuda import nccl

from ..comms import WorkerLostError
from .group import Group


class NCCLGroup(Group):
    """GPUs with a process each. Arrays in host memory pass through the GPU."""

    def __init__(self, unique_id: Any, rank: int, size: int, timeout: float) -> None:
        self.rank, self.size, self.timeout = rank, size, timeout
        self.comm = nccl.NcclCommunicator(size, unique_id, rank)
        # The first exchange connects the ranks, which takes most of a second.
        self.all_gather(np.zeros(1, np.uint8))

    def all_gather(self, array: Any) -> Any:
        sent = cupy.ascontiguousarray(cupy.asarray(array))
        received = cupy.empty((self.size, *sent.shape), sent.dtype)
        stream = cupy.cuda.get_current_stream()
        self.comm.allGather(
            sent.data.ptr, received.data.ptr, sent.nbytes, nccl.NCCL_UINT8, stream.ptr
        )
        return self._like(array, received)

    def exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        received: list[Any] = []
        stream = cupy.cuda.get_current_stream()
        sent = [cupy.ascontiguousarray(cupy.asarray(array)) for array in (to_left, to_right)]
        nccl.groupStart()
        for array, peer in zip(sent, (self.rank - 1, self.rank + 1), strict=True):
            received.append(None)
            if 0 <= peer < self.size:
                received[-1] = cupy.empty_like(array)
                self.comm.send(array.data.ptr, array.nbytes, nccl.NCCL_UINT8, peer, stream.ptr)
                self.comm.recv(
                    received[-1].data.ptr, array.nbytes, nccl.NCCL_UINT8, peer, stream.ptr
                )
        nccl.groupEnd()
        left, right = (None if x is None else self._like(to_left, x) for x in received)
        return left, right

    def abort(self) -> None:
        self.comm.abort()

    def _like(self, array: Any, received: Any) -> Any:
        """Return a received array; of a NumPy array in host memory, once it has arrived."""
        if isinstance(array, cupy.ndarray):
            return received
        event, deadline = cupy.cuda.Event(disable_timing=True), time.monotonic() + self.timeout
        event.record()
        while not event.done:
            if self.comm.check_async_error() or time.monotonic() > deadline:
                self.abort()
                raise WorkerLostError(
                    f"a rank of the group does not answer within {self.timeout} s: the group has "
                    f"ended. Make a new one of the ranks that are left"
                )
        return received.get()
