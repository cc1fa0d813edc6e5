"""Queued solves of plans: one begins while another waits for carries, and each ends on its own."""

from __future__ import annotations

import gc
import threading
import time
from functools import partial

import dask.array as da
import numpy as np
import pytest
from clusters import on_both, wait_until
from distributed import wait
from faults import SOON, HeldPhase, no_results_left, sessions_of

import mgrec
from mgrec.core.backends import Backend
from mgrec.distributed.plan.worker import IN_PROGRESS
from mgrec.distributed.programs import chains

FIRST = "launch_summaries", (0,)


@pytest.fixture
def t(client):
    """Operands of two workers, of which the second waits for the first."""
    (t,) = on_both(client, da.arange(1.0, 41.0, chunks=10))
    return t


def nothing_is_left(client):
    gc.collect()
    kept = [session.solves for session in sessions_of(client)]
    return not any(kept) and no_results_left(client)


def last_speculation(phase, solve):
    """Whether the worker that has chunk 1 or 2, but not chunk 0, has started so many solves."""
    return max(phase.indices.count((k,)) for k in range(1, 4)) >= solve


def solved(operand):
    return mgrec.linear_recurrence(0.5, np.asarray(operand))


def test_solves_begin_while_one_waits_for_carries(client, t, monkeypatch):
    others = [client.persist(t + k) for k in range(IN_PROGRESS + 2)]
    wait(others)
    with mgrec.plan(mgrec.linear_recurrence, 0.5, t) as plan:
        phase = HeldPhase(monkeypatch, *FIRST)
        results, most = [], len(others)
        loop = threading.Thread(
            target=lambda: results.extend(plan.map([(0.5, own) for own in others], in_flight=most))
        )
        loop.start()
        wait_until(lambda: last_speculation(phase, IN_PROGRESS))
        time.sleep(0.05)
        # The first chunk's worker is at its first solve. The other one has started as many as may
        # be in progress at once.
        assert phase.indices.count((0,)) == 1
        assert not last_speculation(phase, IN_PROGRESS + 1)
        phase.may_end.set()
        loop.join()
        for w, own in zip(results, others, strict=True):
            np.testing.assert_allclose(w.compute(), solved(own), rtol=1e-14)
    results.clear()
    del w
    wait_until(lambda: nothing_is_left(client))


class OnDevice(HeldPhase):
    """As if chunks were on a GPU: they are launched at once, and waits for them take long."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch, *FIRST)
        monkeypatch.setattr(Backend, "is_asynchronous", True)

    def __call__(self, inputs_of_chunks, recurrence):
        waits = self.phase(inputs_of_chunks, recurrence)
        is_first = (0,) not in self.indices
        self.indices += [inputs.chunk_index for inputs in inputs_of_chunks]
        has_first = any(inputs.chunk_index == (0,) for inputs in inputs_of_chunks)
        return [partial(self.wait, wait, is_first and has_first) for wait in waits]

    def wait(self, wait, fails):
        assert self.may_end.wait(SOON)
        if fails:
            raise ZeroDivisionError("a kernel")
        return wait()


def test_solves_start_while_others_are_on_the_device(client, t, monkeypatch):
    others = [client.persist(t + k) for k in range(5)]
    wait(others)
    with mgrec.plan(mgrec.linear_recurrence, 0.5, t, in_flight=3) as plan:
        device = OnDevice(monkeypatch)
        failed, *solves = [plan.submit(0.5, other) for other in others[:3]]
        wait_until(lambda: device.indices.count((0,)) == 3)
        device.may_end.set()
        with pytest.raises(ZeroDivisionError, match="a kernel"):
            failed.compute()
        for w, other in zip(solves, others[1:], strict=False):
            np.testing.assert_allclose(w.compute(), solved(other), rtol=1e-14)
        for w, other in zip(plan.map([(0.5, x) for x in others]), others, strict=True):
            np.testing.assert_allclose(w.compute(), solved(other), rtol=1e-14)
    del failed, solves, w
    wait_until(lambda: nothing_is_left(client))


def test_all_chunks_of_a_solve_that_fails_or_is_abandoned_are_waited_for(client, t, monkeypatch):
    """Kernels of a tridiagonal system write to memory of the host until they have ended."""
    launch, waited, may_fail = chains.launch_determination, set(), threading.Event()
    keys = [(t.name, k) for k in range(4)]
    holders = client.who_has([t.dask.layers[t.name][key] for key in keys])
    of_others = {key[1:] for key in keys if holders[key] != holders[keys[0]]}

    def launch_all(recurrence, chunk, *rest):
        index, ready = chunk.chunk_index, launch(recurrence, chunk, *rest)

        def wait():
            if index == (0,):
                assert may_fail.wait(SOON)
                raise ZeroDivisionError("chunk 0")
            waited.add(index)
            return ready()

        return wait

    with mgrec.plan(mgrec.solve_tridiagonal, 0.1, 1.0, 0.1, t) as plan:
        monkeypatch.setattr(Backend, "is_asynchronous", True)
        monkeypatch.setattr(chains, "launch_determination", launch_all)
        failed = plan.submit()
        wait_until(lambda: waited == of_others)
        may_fail.set()
        with pytest.raises(ZeroDivisionError, match="chunk 0"):
            failed.compute()
        wait_until(lambda: waited == {(1,), (2,), (3,)})


def test_a_queue_of_steps_has_the_bits_of_calls(client, t):
    with mgrec.plan(mgrec.linear_recurrence, 0.5, t) as plan:
        u = w = t
        for _ in range(30):
            u, w = plan.submit(0.5, u), plan(0.5, w)
        np.testing.assert_array_equal(u.compute(), w.compute())


def test_one_of_the_solves_in_progress_fails_alone(client, t, monkeypatch):
    with mgrec.plan(mgrec.linear_recurrence, 0.5, t) as plan:
        phase = HeldPhase(monkeypatch, *FIRST)
        phase.errors.append(ZeroDivisionError("the first solve"))
        first, second = plan.submit(0.5, t), plan.submit(0.5, t)
        third = plan.submit(0.5, first)
        wait_until(lambda: last_speculation(phase, 2))
        phase.may_end.set()
        for failed in (first, third):
            with pytest.raises(ZeroDivisionError, match="the first solve"):
                failed.compute()
        np.testing.assert_allclose(second.compute(), solved(t), rtol=1e-14)
    del first, second, third, failed
    wait_until(lambda: nothing_is_left(client))


def test_small_solves_are_queued_without_waiting(client, t, monkeypatch):
    with mgrec.plan(mgrec.linear_recurrence, 0.5, t) as plan:
        phase, u = HeldPhase(monkeypatch, *FIRST), t
        for _ in range(20):
            u = plan.submit(0.5, u)
        assert phase.indices.count((0,)) <= 1
        phase.may_end.set()
        assert np.isfinite(u.compute()).all()
    with mgrec.plan(mgrec.linear_recurrence, 0.5, t, in_flight=2) as plan:
        phase.may_end.clear()
        held = [plan.submit(0.5, t) for _ in range(2)]
        blocked = threading.Thread(target=lambda: held.append(plan.submit(0.5, t)))
        blocked.start()
        blocked.join(0.1)
        assert blocked.is_alive()
        phase.may_end.set()
        blocked.join()
        assert len(held) == 3
