"""The part of ``mgrec demo`` that streams from files to a file, in less memory than these take."""

from __future__ import annotations

import gc
import resource
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from dask.utils import key_split
from distributed import get_task_stream

from ..distributed.warm_up import warm_up
from ..scans.cpu.reference import Judge
from ..scans.functions import linear_recurrence
from . import cluster as clusters
from . import files
from .earth import POINTS, MaritimeAir
from .solve import fill

LIMIT = 10**9
"""Bytes that the process may allocate, for arrays and all else, while it streams."""
THREADS = 2
"""Threads of the cluster: each has a chunk of s, of t and of w in memory."""
CHUNKS = 15
INTERVAL = 0.002  # seconds
PAGE = resource.getpagesize()


@dataclass
class Streamed:
    """A solve of arrays in files to a file."""

    s: files.NpyFile
    t: files.NpyFile
    w: files.NpyFile
    steps_a_chunk: int
    seconds: float = 0.0
    # Largest memory of the process while it solved, in bytes more than before.
    peak: int = 0
    # Whether the system refused the memory of one call.
    is_refused: bool = False
    # Of each task: the phase, the number of its thread, start and stop in seconds.
    records: list[tuple[str, int, float, float]] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return self.w.shape[0]

    @property
    def chunks(self) -> int:
        return -(-self.steps // self.steps_a_chunk)

    @property
    def needed(self) -> int:
        """Bytes of s, t and w, which one call has in memory."""
        return sum(array.shape[0] * array.dtype.itemsize for array in (self.s, self.t, self.w))


def write(folder: Path, air: MaritimeAir) -> Streamed:
    """Write s and t to files in a folder, chunk by chunk, and reserve a file for w."""
    shape_of_file = np.broadcast_to(0.0, air.steps)
    s, t, w = (files.create(folder / f"{name}.npy", shape_of_file) for name in "stw")
    for part in parts_of(air):
        s[part], t[part] = air[part]
    return Streamed(s, t, w, parts_of(air)[0].stop)


def parts_of(air: MaritimeAir) -> list[slice]:
    """Return the steps of each chunk that is streamed, or checked."""
    size = POINTS * -(-air.parallels // CHUNKS)
    return [slice(start, min(start + size, air.steps)) for start in range(0, air.steps, size)]


def stream(streamed: Streamed) -> None:
    """Solve from the files of s and t to the file of w, while memory is limited."""
    with clusters.open_cluster("threads", threads=THREADS) as client:
        s, t = (files.lazy(x, {-1: streamed.steps_a_chunk}) for x in (streamed.s, streamed.t))
        warm_up(linear_recurrence, s, t, client=client)
        w = linear_recurrence(s, t)
        gc.collect()
        with limited_memory(LIMIT), PeakMemory() as memory, get_task_stream(client=client) as tasks:
            streamed.is_refused = _is_refused(streamed.needed)
            streamed.seconds = fill(streamed.w, w, client, "Streaming from disk to disk")
        streamed.peak, streamed.records = memory.peak, records_of(tasks.data)


def check(streamed: Streamed, air: MaritimeAir, judge: Judge) -> None:
    """Check all steps in the file of w, without the files of s and t."""
    for part in parts_of(air):
        judge.add(*air[part], streamed.w[part])


@contextmanager
def limited_memory(size: int) -> Iterator[None]:
    """Let the system refuse to this process more than `size` bytes in addition to what it has.

    The limit is on private memory. The system's cache of files does not count.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [_memory()[1] + size, *(old for old in (soft, hard) if old != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


class PeakMemory:
    """Measures the largest private memory of this process, in bytes more than at the start."""

    def __init__(self) -> None:
        self.peak = 0
        self._start, self._is_over = _memory()[0], threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _measure(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(INTERVAL)
            self.peak = max(self.peak, _memory()[0] - self._start)


def _memory() -> tuple[int, int]:
    """Return bytes of private memory: those in use, and those allocated, which a limit counts."""
    sizes = [PAGE * int(pages) for pages in Path("/proc/self/statm").read_text().split()]
    _, resident, shared, _, _, data, _ = sizes
    return resident - shared, data


def _is_refused(size: int) -> bool:
    """Return whether an array of so many bytes cannot be allocated."""
    try:
        np.empty(size, np.uint8)
    except MemoryError:
        return True
    return False


def records_of(stream: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the records of a task stream, as :func:`distributed.get_task_stream` collects it."""
    tasks = [
        (key_split(task["key"]), (task["worker"], task["thread"]), span["start"], span["stop"])
        for task in stream
        for span in task["startstops"]
        if span["action"] == "compute"
    ]
    threads = sorted({thread for _, thread, _, _ in tasks})
    first = min((start for _, _, start, _ in tasks), default=0.0)
    return [(phase, threads.index(thread), a - first, b - first) for phase, thread, a, b in tasks]
