"""Threads of one machine."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mgrec
from mgrec.engines.cpu import threads
from mgrec.engines.cpu.scan import pieces_of

pytestmark = pytest.mark.usefixtures("eager_threads")


def test_the_number_of_threads_is_checked(monkeypatch):
    for wrong in ("0", "-1", "two", "1.5", ""):
        monkeypatch.setenv("MGREC_NUM_THREADS", wrong)
        with pytest.raises(ValueError, match=f"must be a positive integer; got '{wrong}'"):
            threads.thread_count()
    monkeypatch.setenv("MGREC_NUM_THREADS", "3")
    assert threads.thread_count() == 3
    monkeypatch.delenv("MGREC_NUM_THREADS")
    assert threads.thread_count() >= 1


@pytest.mark.parametrize("has_affinity", [True, False])
def test_threads_keep_to_the_quota_and_the_affinity(monkeypatch, has_affinity):
    """Containers have quotas that the affinity does not tell, and macOS has no affinity."""
    monkeypatch.delenv("MGREC_NUM_THREADS", raising=False)
    if has_affinity:
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    else:
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for share in (3, 8):
        monkeypatch.setattr(threads, "_quota", lambda share=share: share)
        assert threads.thread_count() == share
    monkeypatch.setattr(threads, "_quota", lambda: 64)
    assert threads.thread_count() == (8 if has_affinity else 64)


@pytest.mark.parametrize("cost", [0.0, 0.95, 4.0])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5, 64])
@pytest.mark.parametrize("steps", [1 << 16, (1 << 16) + 1])
def test_pieces_cover_every_step_once_in_order(steps, count, reverse, cost):
    pieces = pieces_of(steps, count, reverse, cost)
    assert len(pieces) == count + (cost > 0)
    assert all(begin < end for begin, end in pieces)
    ordered = pieces[::-1] if reverse else pieces
    assert [begin for begin, _ in ordered] == [0, *(end for _, end in ordered[:-1])]
    assert ordered[-1][1] == steps


@pytest.mark.parametrize("shape", [(399, 165), (3, 40_000), (2, 33_000), (1, 70_000)])
def test_more_threads_than_rows_or_steps(shape, monkeypatch):
    t = np.ones(shape)
    monkeypatch.setenv("MGREC_NUM_THREADS", "1")
    wanted = mgrec.linear_recurrence(0.5, t)
    monkeypatch.setenv("MGREC_NUM_THREADS", "400" if shape[0] > 9 else "8")
    np.testing.assert_allclose(mgrec.linear_recurrence(0.5, t), wanted, rtol=1e-14)


def test_small_problems_stay_in_the_calling_thread(monkeypatch):
    monkeypatch.setenv("MGREC_NUM_THREADS", "4")

    def no_pool(*_):
        raise AssertionError("a pool was asked for")

    monkeypatch.setattr(threads, "_pool", no_pool)
    mgrec.linear_recurrence(0.5, np.ones(threads.MIN_STEPS_FOR_THREADS - 1))
    with pytest.raises(AssertionError, match="a pool was asked for"):
        mgrec.linear_recurrence(0.5, np.ones(threads.MIN_STEPS_FOR_THREADS))


def test_calls_from_several_threads(monkeypatch):
    monkeypatch.setenv("MGREC_NUM_THREADS", "3")
    t = np.random.default_rng(0).normal(size=200_000)
    wanted = mgrec.linear_recurrence(0.9, t)
    with ThreadPoolExecutor(4) as pool:
        for w in pool.map(lambda _: mgrec.linear_recurrence(0.9, t), range(8)):
            np.testing.assert_array_equal(w, wanted)


def test_an_error_in_a_thread_reaches_the_caller():
    def wrong():
        raise ArithmeticError("from a thread")

    with pytest.raises(ArithmeticError, match="from a thread"):
        threads.run_in_threads([lambda: 1, wrong])
    assert threads.run_in_threads([lambda: 1, lambda: 2]) == [1, 2]
