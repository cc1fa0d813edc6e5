"""The threads of one call: how many there are, and what each of them takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

# Below this many steps a second thread does not pay: 10^5 steps took 0.16 ms on one thread and
# 0.95 ms on two.
SMALL = 1 << 20


def threads_for(size: int) -> int:
    """How many threads to use for this many steps."""
    return 1 if size < SMALL else thread_count()


def thread_count() -> int:
    """Threads of one call: ``MGREC_NUM_THREADS``, or the processors this process may use."""
    given = os.environ.get("MGREC_NUM_THREADS")
    if given is None:
        return processors()
    if not given.isdigit() or int(given) < 1:
        raise ValueError(f"MGREC_NUM_THREADS must be a positive integer; got {given!r}")
    return int(given)


def processors() -> int:
    """Processors that this process may use: its affinity, where there is one, and its quota."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _share()
    return min(affinity, _share())


@cache
def _share() -> int:
    """The processors that the system gives this process, by quota where it has one."""
    from dask.system import CPU_COUNT

    return int(CPU_COUNT)


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    # One a process: after a fork the parent's pool has no threads.
    return ThreadPoolExecutor(threads, thread_name_prefix="mgrec")


def together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run the calls side by side, the first one in this thread."""
    if len(calls) < 2:
        return [call() for call in calls]
    others = [_pool(thread_count(), os.getpid()).submit(call) for call in calls[1:]]
    return [calls[0](), *(future.result() for future in others)]


def cuts(length: int, parts: int) -> list[tuple[int, int]]:
    """Begins and ends of `parts` nearly equal parts of a length; none is empty."""
    ends = [length * k // parts for k in range(parts + 1)]
    return [(a, b) for a, b in pairwise(ends) if a < b]
