"""A group of GPUs that NCCL connects, by CuPy's binding."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import cupy
import numpy as np
from cupy.cuda import nccl

from ..comms import WorkerLostError
from .group import DEVICE_FRAME, Group

_FIRST, INTERVAL, _GRACE = 1.0, 0.25, 0.5
"""Seconds of waiting after which the other ranks are checked first, between two checks, and after a
check that fails. A check takes tens of milliseconds, which the other ranks wait for."""


class NCCLGroup(Group):
    """GPUs with a process each. Arrays in host memory pass through the GPU.

    `check`: called with the seconds for which this rank has waited for the others; raises an error
      if that is too long.
    `name`: the same on all ranks, if workers of Dask keep the group for others.
    """

    frame, is_asynchronous, name = DEVICE_FRAME, True, ""

    _since: float | None
    _error: BaseException | None

    def __init__(self, unique_id: Any, rank: int, size: int, timeout: float) -> None:
        self.rank, self.size, self.timeout = rank, size, timeout
        self.check: Callable[[float], None] = self._check_timeout
        self.is_aborted, self._since, self._error = False, None, None
        self._stream, self._host_stream = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        self._event = self.new_event()
        self.comm = nccl.NcclCommunicator(size, unique_id, rank)
        arguments = weakref.ref(self), same_device()
        threading.Thread(target=_check_often, args=arguments, daemon=True).start()
        # The first exchange connects the ranks, which takes most of a second.
        self.all_gather(np.zeros(1, np.uint8))

    def all_gather(self, array: Any) -> Any:
        with self._stream_of(array):
            sent = cupy.ascontiguousarray(cupy.asarray(array))
            received = cupy.empty((self.size, *sent.shape), sent.dtype)
            self.all_gather_into(received, sent)
            return self._like(array, received)

    def all_gather_into(self, received: Any, sent: Any) -> None:
        stream = cupy.cuda.get_current_stream()
        self.comm.allGather(sent.data.ptr, received.data.ptr, sent.nbytes, nccl.NCCL_UINT8, stream.ptr)

    def exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        received: list[Any] = []
        with self._stream_of(to_left):
            stream = cupy.cuda.get_current_stream()
            sent = [cupy.ascontiguousarray(cupy.asarray(array)) for array in (to_left, to_right)]
            nccl.groupStart()
            for array, peer in zip(sent, (self.rank - 1, self.rank + 1), strict=True):
                received.append(None)
                if 0 <= peer < self.size:
                    received[-1] = cupy.empty_like(array)
                    self.comm.send(array.data.ptr, array.nbytes, nccl.NCCL_UINT8, peer, stream.ptr)
                    self.comm.recv(received[-1].data.ptr, array.nbytes, nccl.NCCL_UINT8, peer, stream.ptr)
            nccl.groupEnd()
            left, right = (None if x is None else self._like(to_left, x) for x in received)
            return left, right

    @contextmanager
    def on_stream(self) -> Iterator[Any]:
        """Make a stream of this communicator the current one, after work on the default stream.

        Several programs would wait for each other for ever if their exchanges were on one stream,
        in another order than on other GPUs. So the default stream must not wait for an exchange:
        let it wait by :meth:`join`, when the host has waited.
        """
        self._event.record(cupy.cuda.Stream.null)
        self._stream.wait_event(self._event)
        with self._stream:
            yield

    def join(self, event: Any) -> None:
        """Let the default stream wait for an event on that of this communicator."""
        cupy.cuda.Stream.null.wait_event(event)

    def abort(self) -> None:
        if not self.is_aborted:
            self.is_aborted = True
            self.comm.abort()

    def _stream_of(self, array: Any) -> AbstractContextManager[Any]:
        """Return the stream on which an array is sent: the current one if it is on the GPU."""
        return nullcontext() if isinstance(array, cupy.ndarray) else self._host_stream

    def _like(self, array: Any, received: Any) -> Any:
        """Return a received array; of a NumPy array in host memory, once it has arrived."""
        if isinstance(array, cupy.ndarray):
            return received
        event = self.new_event()
        event.record()
        self.wait_for(event)
        return received.get()

    def new_event(self) -> Any:
        return cupy.cuda.Event(disable_timing=True)

    def wait_for(self, event: Any) -> None:
        self._since = time.monotonic()
        try:
            event.synchronize()  # other threads may run Python meanwhile
        finally:
            self._since = None
        if self._error is not None:
            raise self._error

    def _check_ranks(self) -> None:
        """End the group if this rank waits for one that is lost."""
        since = self._since
        waited = 0.0 if since is None else time.monotonic() - since
        if waited < _FIRST:
            return
        try:
            if self.comm.check_async_error():
                raise WorkerLostError("NCCL has lost a rank of the group")
            self.check(waited)
        except BaseException as error:
            # Another rank may have got all it needs, and left.
            time.sleep(_GRACE)
            if self._since == since:
                self._error = error
                self.abort()

    def _check_timeout(self, waited: float) -> None:
        if waited > self.timeout:
            raise WorkerLostError(
                f"a rank of the group does not answer within {self.timeout} s: the group has "
                f"ended. Make a new one of the ranks that are left"
            )


def _check_often(reference: weakref.ref[NCCLGroup], use_device: Callable[[], Any]) -> None:
    """Check the ranks of a group while it lives, on a thread of its own."""
    use_device()
    while (group := reference()) is not None and not group.is_aborted:
        group._check_ranks()
        del group
        time.sleep(INTERVAL)


def unique_id() -> Any:
    """Return an identifier for a new group, on one of its ranks; None without NCCL."""
    return nccl.get_unique_id() if nccl.available else None


def bus_id() -> str:
    """Return the address of the current GPU on the bus of its host."""
    return str(cupy.cuda.Device().pci_bus_id)


def on_device(number: int) -> AbstractContextManager[Any]:
    """Return the context of the GPU with a number."""
    return cupy.cuda.Device(number)


def same_device() -> Callable[[], Any]:
    """Return a function that makes the GPU of this thread that of another one."""
    return cupy.cuda.Device(cupy.cuda.runtime.getDevice()).use
