"""A group in place of that of NCCL: threads of this process stand in for GPUs."""

import sys
import threading
import time
import types
from contextlib import nullcontext
from itertools import count
from uuid import uuid4

import numpy as np

from mgrec.distributed.groups.group import DEVICE_FRAME, Group


class Meeting:
    """Where the ranks of a communicator exchange arrays."""

    def __init__(self):
        self.changed, self.arrays = threading.Condition(), {}


class Communicator(Group):
    """A group as that of NCCL."""

    frame, is_asynchronous = DEVICE_FRAME, True
    started, meetings, lock = [], {}, threading.Lock()

    def __init__(self, unique_id, rank, size, timeout):
        self.rank, self.size, self.number, self.is_aborted = rank, size, 0, False
        self.on_stream, self.join = nullcontext, lambda event: None
        with self.lock:
            self.meeting = self.meetings.setdefault(unique_id, Meeting())
            self.started.append(self)
        self.all_gather(np.zeros(1))

    def check(self, waited):
        pass

    def new_event(self):
        return types.SimpleNamespace(record=lambda: None, synchronize=lambda: None, done=True)

    def all_gather_into(self, received, sent):
        received.set(self.all_gather(sent))

    def wait_for(self, event):
        event.synchronize()

    def all_gather(self, array):
        self.number += 1
        start, meeting = time.monotonic(), self.meeting
        with meeting.changed:
            arrays = meeting.arrays.setdefault(self.number, {})
            arrays[self.rank] = np.array(array.get() if hasattr(array, "get") else array)
            meeting.changed.notify_all()
        while True:
            with meeting.changed:
                if meeting.changed.wait_for(lambda: len(arrays) == self.size, 0.1):
                    return np.stack([arrays[rank] for rank in range(self.size)])
            self.check(time.monotonic() - start)

    def exchange(self, to_left, to_right):
        raise NotImplementedError

    def abort(self):
        self.is_aborted = True


def replace_nccl(monkeypatch):
    """Put a module in place of that of NCCL; its `devices` has the GPU of each new rank."""
    numbers = count()
    module = types.SimpleNamespace(
        INTERVAL=0.1,
        NCCLGroup=Communicator,
        unique_id=lambda: uuid4().hex,
        devices=lambda: next(numbers),
        same_device=lambda: lambda: None,
    )
    module.bus_id = lambda: f"gpu-{module.devices()}"
    monkeypatch.setitem(sys.modules, "mgrec.distributed.groups.nccl", module)
    monkeypatch.delitem(sys.modules, "mgrec.distributed.groups.dask_gpus", raising=False)
    monkeypatch.setattr(Communicator, "started", [])
    return module
