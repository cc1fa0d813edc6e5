"""The group of a process group of torch.distributed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ...core.arrays.chunk import as_contiguous
from ...core.backends import backend_of
from ..comms import WorkerLostError
from .group import DEVICE_FRAME, Group


class TorchGroup(Group):
    """The ranks of a process group, over gloo in host memory or over NCCL on GPUs."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = process_group
        self.rank = dist.get_rank(process_group)
        self.size = dist.get_world_size(process_group)
        self.is_on_gpu = self.is_asynchronous = "nccl" in dist.get_backend(process_group)
        if self.is_asynchronous:
            self.frame = DEVICE_FRAME

    def all_gather(self, array: Any) -> Any:
        with self._on_stream_of(array):
            sent = self._sent(array)
            received = sent.new_empty((self.size, sent.numel()))
            self._run(dist.all_gather, list(received), sent)
            return self._taken(received, array, (self.size, *array.shape))

    def all_gather_into(self, received: Any, sent: Any) -> None:
        with self._on_stream_of(sent):
            tensors = torch.from_dlpack(received).reshape(-1), torch.from_dlpack(sent)
            self._run(dist.all_gather_into_tensor, *tensors)

    def exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        with self._on_stream_of(to_left):
            return self._exchange(to_left, to_right)

    def _exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        operations: list[Any] = []
        received: list[Any] = []
        for array, step in ((to_left, -1), (to_right, 1)):
            received.append(None)
            if not 0 <= self.rank + step < self.size:
                continue
            peer, sent = self._global_rank(self.rank + step), self._sent(array)
            received[-1] = torch.empty_like(sent)
            operations.append(dist.P2POp(dist.isend, sent, peer, self.process_group))
            operations.append(dist.P2POp(dist.irecv, received[-1], peer, self.process_group))
        for request in dist.batch_isend_irecv(operations) if operations else ():
            self._run(request.wait)
        left, right = (
            None if x is None else self._taken(x, to_left, to_left.shape) for x in received
        )
        return left, right

    def abort(self) -> None:
        dist.destroy_process_group(self.process_group)

    def _global_rank(self, rank: int) -> int:
        if self.process_group is None:
            return rank
        return dist.get_global_rank(self.process_group, rank)

    def _is_sent_from_gpu(self, array: Any) -> bool:
        return self.is_on_gpu and not backend_of(array).is_host

    def _on_stream_of(self, array: Any) -> AbstractContextManager[Any]:
        """Make the stream of CuPy that of torch, if the process group sends the array from a GPU.

        torch gives a new stream for the address 0, that of the default stream.
        """
        if not self._is_sent_from_gpu(array):
            return nullcontext()
        from ...engines.cuda.device import current_stream

        address = current_stream()
        stream = torch.cuda.ExternalStream(address) if address else torch.cuda.default_stream()
        return torch.cuda.stream(stream)

    def _sent(self, array: Any) -> Any:
        """Return the bytes of an array as a tensor in the memory that the process group sends."""
        backend = backend_of(array)
        if self._is_sent_from_gpu(array):
            return torch.from_dlpack(as_contiguous(array).reshape(-1).view(np.uint8))
        host = np.ascontiguousarray(backend.to_host(array)).reshape(-1).view(np.uint8)
        tensor = torch.from_numpy(host if host.flags.writeable else host.copy())
        return tensor.cuda() if self.is_on_gpu else tensor

    def _taken(self, received: Any, like: Any, shape: tuple[int, ...]) -> Any:
        """Return received bytes as an array of the library and the dtype of `like`."""
        backend: Any = backend_of(like)
        if self._is_sent_from_gpu(like):
            size, device = (received.numel(),), received.get_device()
            memory = backend.view(
                received.data_ptr(), size, (1,), np.dtype(np.uint8), received, device
            )
            return memory.view(like.dtype).reshape(shape)
        host = received.cpu().numpy().view(like.dtype).reshape(shape)
        return backend.from_host(host, like)

    def _run(self, operation: Any, *arguments: Any) -> None:
        try:
            operation(*arguments, **({"group": self.process_group} if arguments else {}))
        except RuntimeError as error:
            raise WorkerLostError(f"a rank of the process group left it: {error}") from error
