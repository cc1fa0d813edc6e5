"""What is in every task, and what crosses between workers: few bytes, few frames."""

import dataclasses
import pickle

import dask.array as da
import numpy as np
import pytest
from dask.base import tokenize
from distributed.protocol import deserialize, serialize
from distributed.protocol.pickle import dumps, loads

import mgrec
from mgrec.distributed import tasks
from mgrec.distributed.tasks import CarryIns, SummaryBatch, precompute_persisted, propagate_persisted
from mgrec.signal import lfilter

T = np.linspace(-1, 1, 50)
LAZY = da.from_array(T, chunks=10)
PROBLEMS = {
    "transfer map": mgrec.linear_recurrence.build(LAZY, LAZY, 2.0),
    "filter": lfilter.build([0.2, 0.3], [1.0, -0.9, 0.5], LAZY),
    "own code": mgrec.linear_recurrence.build(mgrec.Coefficient(lambda i: 1 / (i + 2)), LAZY),
}


@pytest.fixture(params=PROBLEMS)
def recurrence(request):
    return PROBLEMS[request.param].recurrence


def test_a_recurrence_is_read_once_a_process(recurrence):
    written = dumps(recurrence)
    one, two = loads(written), loads(dumps(recurrence))
    assert one is two
    assert one == recurrence
    assert tokenize(one) == tokenize(recurrence)
    assert len(written) < 2000


def test_summaries_and_carry_ins_are_sent_as_one_frame(recurrence):
    own = (T,) * len(recurrence.varying)
    batch = precompute_persisted(recurrence, [((k,), (k * 50,)) for k in range(9)], list(own * 9))
    carry_ins = propagate_persisted(recurrence, [(0, k) for k in range(9)], [batch], recurrence.zero_state())
    for value, kind in ((batch, SummaryBatch), (carry_ins, CarryIns)):
        header, frames = serialize(value)
        again = deserialize(header, frames)
        assert type(again) is kind
        assert sum(memoryview(frame).nbytes > 200 for frame in frames) == 1
        assert pickle.dumps(again) == pickle.dumps(pickle.loads(pickle.dumps(value)))


def test_frames_of_arrays_alone_would_be_seen():
    _, frames = serialize([np.ones(100) for _ in range(9)])
    assert sum(memoryview(frame).nbytes > 200 for frame in frames) == 9


@pytest.mark.parametrize(
    ("most", "block", "order"),
    [
        (100, T, "LLLLLWWWWW"),
        (1, T, "LLWWLLWWLW"),
        (100, T.astype("f4"), "LWLWLWLWLW"),
        (100, np.repeat(T, 2)[::2], "LWLWLWLWLW"),
    ],
)
def test_chunks_are_launched_before_the_first_is_waited_for(recurrence, monkeypatch, most, block, order):
    """As long as their summaries and copies are few: on a GPU they take memory until then."""
    events = []

    def launch(*arguments):
        events.append("L")
        return lambda: events.append("W")

    monkeypatch.setattr(type(recurrence), "precompute", launch)
    monkeypatch.setattr(tasks, "ROWS", most)
    count = len(recurrence.varying)
    recurrence = dataclasses.replace(recurrence, block_dtypes=(block.dtype,) * count)
    batch = precompute_persisted(recurrence, [((k,), (k * 50,)) for k in range(5)], [block] * (5 * count))
    assert "".join(events) == order
    assert [shape for _, shape in batch.summaries] == [block.shape] * 5
