"""Clusters that are disturbed on purpose, at a stated task, never by the clock."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import dask.array as da
import numpy as np
from clusters import workers_of
from dask.utils import key_split
from distributed.diagnostics.plugin import WorkerPlugin

import mgrec
from mgrec.distributed.plan import worker as plan_worker
from mgrec.distributed.programs import chains
from mgrec.signal import lfilter

# Two groups of chunks: 32 and 8.
CHUNKS, SIZE = 40, 500
# Seconds in which other threads of a test do their part, also on a busy machine.
SOON = 240


def claim(folder, name, times):
    """True for the first `times` callers, of all processes together."""
    for number in range(times):
        try:
            (Path(folder) / f"{name}-{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return True
    return False


def claimed(folder, name):
    return len(list(Path(folder).glob(f"{name}-*")))


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class DieAt(WorkerPlugin):
    """Kills the first `times` workers that come to a task of a key's prefix, such as precompute.

    They die as the task of the chunk or group `number` begins, or in the moment "memory": when its
    result is there and the scheduler has not heard of it. The processes mark deaths in `folder`.
    """

    folder: str
    prefix: str
    number: int
    times: int = 1
    moment: str = "executing"
    name: str = "die-at"

    def transition(self, key, start, finish, **kwargs):
        if finish != self.moment or start == finish or not isinstance(key, tuple):
            return
        is_here = key_split(key) == self.prefix and key[1] == self.number
        if is_here and claim(self.folder, "death", self.times):
            die()


def die_in(phase, module=chains):
    """Let this process die in a phase of a plan's chunks, a function of a module."""
    assert callable(getattr(module, phase))
    setattr(module, phase, lambda *_: die())


class HeldPhase:
    """A phase of plans on workers of this process: it waits at its first chunk, or at one.

    Attributes
    ----------
    indices : list of tuple
        Of the chunks that came to it.
    has_begun, may_end : threading.Event
    errors : list of Exception
        What it raises each time when it may go on, until none is left.
    """

    def __init__(self, monkeypatch, phase="launch_determination", chunk_index=None):
        self.chunk_index, self.phase, self.indices = chunk_index, getattr(chains, phase), []
        self.has_begun, self.may_end, self.errors = threading.Event(), threading.Event(), []
        monkeypatch.setattr(chains, phase, self)

    def __call__(self, first, second, *rest):
        # launch_determination(recurrence, chunk, ...), launch_summaries(inputs of chunks, recurrence)
        inputs_of_chunks = first if isinstance(first, list) else [second]
        indices = [inputs.chunk_index for inputs in inputs_of_chunks]
        self.indices += indices
        if self.chunk_index is None or self.chunk_index in indices:
            self.has_begun.set()
            assert self.may_end.wait(SOON)
            if self.errors:
                raise self.errors.pop()
        return self.phase(first, second, *rest)


@dataclass(frozen=True)
class Trouble:
    """What the loads of some chunks do before they return, the first `times` times.

    They die, raise, or wait until there is a file ``open`` in `folder`, where they mark each time.
    """

    folder: str
    kind: str
    numbers: Sequence[int]
    times: int = 1

    def strike(self):
        if not claim(self.folder, self.kind, self.times):
            return
        if self.kind == "die":
            die()
        if self.kind == "raise":
            raise OSError("the disk is away")
        while not (Path(self.folder) / "open").exists():
            time.sleep(0.01)


def load(trouble=None, seed=0, block_info=None):
    """The values of a chunk; they depend on its place alone."""
    (number,) = block_info[None]["chunk-location"]
    if trouble is not None and number in trouble.numbers:
        trouble.strike()
    return np.random.default_rng([seed, number]).uniform(-0.9, 0.9, SIZE)


def loaded(name, trouble=None, seed=0, like=None):
    """A Dask array of numbers in [-0.9, 0.9), read chunk by chunk."""
    array = da.map_blocks(load, trouble, seed, chunks=((SIZE,) * CHUNKS,), name=name, meta=np.empty(0))
    return array if like is None else array.map_blocks(like, name=f"{name}-device", meta=like([]))


def solved(family, name, trouble=None, seed=0, like=None):
    """The lazy result of a recurrence over arrays whose second one has the trouble."""
    s = loaded(f"load-s-{name}", None, seed + 1, like)
    t = loaded(f"load-t-{name}", trouble, seed, like)
    if family == "linear":
        return mgrec.linear_recurrence(s, t, 0.5)
    if family == "custom":
        return mgrec.scan(mgrec.maps.max_plus, s, t, initial=0.5)
    if family == "tridiagonal":
        # No unknown forgets another: the matrix is not dominant.
        return mgrec.solve_tridiagonal(s, 0.1, 1.0, t)
    return lfilter([0.2, 0.3], [1.0, -0.9, 0.5], t)


def sessions_of(client):
    """Of the plans of all clients, on workers of this process."""
    plugins = (worker.plugins[plan_worker.NAME] for worker in workers_of(client))
    return [session for plugin in plugins for session in list(plugin.sessions)]


def kept_by(session):
    """What a session keeps of solves; messages until the next solves."""
    boxes = [plan.mailbox for plan in session.plans.values()]
    messages = [own for box in boxes for own in (box._arrived, box._errors, *box._kept.values())]
    return session.solves, *messages


def no_results_left(client):
    return not any("solved" in str(key) for worker in workers_of(client) for key in worker.data)


def assert_same_bits(found, expected):
    assert found.dtype == expected.dtype
    assert np.array_equal(found.view(np.uint8), expected.view(np.uint8))
