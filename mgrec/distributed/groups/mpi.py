"""The group of an MPI communicator."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

from ...core.backends import backend_of
from .group import Group


class MPIGroup(Group):
    """The ranks of a communicator of mpi4py. Arrays on a GPU pass through host memory."""

    def __init__(self, comm: Any) -> None:
        self.comm = (MPI.COMM_WORLD if comm is None else comm).Dup()
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()

    def all_gather(self, array: Any) -> Any:
        backend = backend_of(array)
        sent = np.ascontiguousarray(backend.to_host(array))
        received = np.empty((self.size, *sent.shape), sent.dtype)
        self.comm.Allgather(_as_bytes(sent), _as_bytes(received))
        return backend.from_host(received, array)

    def exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        backend = backend_of(to_left)
        left = self.rank - 1 if self.rank else MPI.PROC_NULL
        right = self.rank + 1 if self.rank + 1 < self.size else MPI.PROC_NULL
        received = []
        for array, to, source in ((to_right, right, left), (to_left, left, right)):
            sent = np.ascontiguousarray(backend.to_host(array))
            target = np.empty_like(sent)
            self.comm.Sendrecv(_as_bytes(sent), to, recvbuf=_as_bytes(target), source=source)
            is_missing = source == MPI.PROC_NULL
            received.append(None if is_missing else backend.from_host(target, array))
        return received[0], received[1]

    def abort(self) -> None:
        self.comm.Abort(1)


def _as_bytes(array: np.ndarray) -> Any:
    return [array.reshape(-1).view(np.uint8), MPI.BYTE]
