"""A group whose ranks are threads of this process."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mgrec.distributed.groups.group import DEVICE_FRAME, Group


class ThreadGroup(Group):
    def __init__(self, rank, size, shared):
        self.rank, self.size, (self.barrier, self.arrays) = rank, size, shared

    def _share(self, value, copied=list):
        self.arrays[self.rank] = value
        self.barrier.wait(240)
        values = copied(self.arrays)
        self.barrier.wait(240)
        return values

    def all_gather(self, array):
        return self._share(array, np.stack)

    def exchange(self, to_left, to_right):
        sent = self._share((to_left, to_right))
        left = sent[self.rank - 1][1] if self.rank else None
        right = sent[self.rank + 1][0] if self.rank + 1 < self.size else None
        return left, right

    def abort(self):
        self.barrier.abort()


class DeviceThreadGroup(ThreadGroup):
    """A group that exchanges arrays of a GPU in the order of its default stream."""

    frame, is_asynchronous = DEVICE_FRAME, True

    def all_gather(self, array):
        import cupy

        # Before another rank goes on, whose next message has the same memory.
        received = self._share(cupy.asarray(array), cupy.stack)
        return received if isinstance(array, cupy.ndarray) else received.get()


def run_on_ranks(size, function, group=ThreadGroup):
    """Return what ``function(rank, group)`` returns or raises on each rank."""
    shared = threading.Barrier(size), [None] * size

    def run(rank):
        try:
            return function(rank, group(rank, size, shared))
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return [*pool.map(run, range(size))]


def solve_on_ranks(size, function, group=ThreadGroup):
    """Return the results of all ranks in host memory; raise an error of one."""
    results = run_on_ranks(size, function, group)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return [*map(fetched, results)]


def part_of(value, bounds, rank, axis=0):
    """Return the part of a rank of an array that has all steps along the axis; other values unchanged."""
    ndim = np.ndim(value)
    if not ndim or not -ndim <= axis < ndim or np.shape(value)[axis] != bounds[-1]:
        return value
    return value[(slice(None),) * (axis % ndim) + (slice(*bounds[rank : rank + 2]),)]


def moved(xp, value):
    """Return an array of numbers in the memory of `xp`; other values unchanged."""
    is_numbers = isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
    return xp.asarray(value) if is_numbers else value


def fetched(result):
    """Return a result of a function in host memory: an array, or a tuple."""
    if isinstance(result, tuple):
        return tuple(map(fetched, result))
    if isinstance(result, list):
        return [*map(fetched, result)]
    return result.get() if hasattr(result, "get") else result
