"""The group of a process group of torch.distributed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ...core.backends import backend_of
from ..comms import WorkerLostError
from .group import Group


def group_of(process_group: Any, timeout: float) -> Group:
    """Return the group of a process group: over NCCL one with a communicator of its own."""
    if "nccl" not in dist.get_backend(process_group):
        return TorchGroup(process_group)
    from .nccl import NCCLGroup, on_device, unique_id

    rank, size = dist.get_rank(process_group), dist.get_world_size(process_group)
    identifiers = [unique_id() if rank == 0 else None]
    dist.broadcast_object_list(identifiers, _global_rank(process_group, 0), process_group)
    with on_device(torch.cuda.current_device()):
        return NCCLGroup(identifiers[0], rank, size, timeout)


def _global_rank(process_group: Any, rank: int) -> int:
    return rank if process_group is None else dist.get_global_rank(process_group, rank)


class TorchGroup(Group):
    """The ranks of a process group over gloo, in host memory."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = process_group
        self.rank = dist.get_rank(process_group)
        self.size = dist.get_world_size(process_group)

    def all_gather(self, array: Any) -> Any:
        sent = _sent(array)
        received = sent.new_empty((self.size, sent.numel()))
        self._run(dist.all_gather, list(received), sent)
        return _taken(received, array, (self.size, *array.shape))

    def exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        operations: list[Any] = []
        received: list[Any] = []
        for array, step in ((to_left, -1), (to_right, 1)):
            received.append(None)
            if not 0 <= self.rank + step < self.size:
                continue
            peer, sent = _global_rank(self.process_group, self.rank + step), _sent(array)
            received[-1] = torch.empty_like(sent)
            operations.append(dist.P2POp(dist.isend, sent, peer, self.process_group))
            operations.append(dist.P2POp(dist.irecv, received[-1], peer, self.process_group))
        for request in dist.batch_isend_irecv(operations) if operations else ():
            self._run(request.wait)
        left, right = (None if x is None else _taken(x, to_left, to_left.shape) for x in received)
        return left, right

    def abort(self) -> None:
        dist.destroy_process_group(self.process_group)

    def _run(self, operation: Any, *arguments: Any) -> None:
        try:
            operation(*arguments, **({"group": self.process_group} if arguments else {}))
        except RuntimeError as error:
            raise WorkerLostError(f"a rank of the process group left it: {error}") from error


def _sent(array: Any) -> Any:
    """Return the bytes of an array as a tensor."""
    host = np.ascontiguousarray(backend_of(array).to_host(array)).reshape(-1).view(np.uint8)
    return torch.from_numpy(host if host.flags.writeable else host.copy())


def _taken(received: Any, like: Any, shape: tuple[int, ...]) -> Any:
    """Return received bytes as an array of the library and the dtype of `like`."""
    return backend_of(like).from_host(received.numpy().view(like.dtype).reshape(shape), like)
