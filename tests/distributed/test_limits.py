"""Chunks that are too large, and packs on their way: with stand-ins for GPU arrays."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

import dask.array as da
import numpy as np
import pytest
from distributed import Client
from distributed.protocol import deserialize, serialize

import mgrec
from mgrec.core.contract.recurrence import ChunkInputs
from mgrec.core.contract.speculation import Speculation
from mgrec.distributed.graph import chains
from mgrec.distributed.tasks import memory
from mgrec.distributed.tasks.memory import check_chunk, check_chunks
from mgrec.distributed.tasks.speculation import PendingChunk
from mgrec.signal import lfilter


@dataclass(frozen=True)
class Device:
    total: int

    @property
    def id(self):
        return 1000 + self.total

    @property
    def mem_info(self):
        if not self.total:
            raise RuntimeError("no GPU")
        return self.total // 3, self.total


@dataclass
class OnGpu:
    """As much of a CuPy array as the limits ask for."""

    device: Device
    __cuda_array_interface__ = None


def test_a_chunk_of_half_a_gpu_is_taken_and_a_larger_one_is_refused():
    like, dtype = OnGpu(Device(8 << 30)), np.dtype(np.float32)
    check_chunk(like, (1 << 30,), dtype, (3,))
    with pytest.raises(ValueError, match=r"at most half.*4\.0 GiB.*chunk \(3,\).*4\.0.*into 5 "):
        check_chunk(like, ((1 << 30) + 1,), dtype, (3,))


def test_the_largest_chunk_is_named_before_anything_runs():
    like, dtype = OnGpu(Device(8 << 30)), np.dtype(np.float64)
    with pytest.raises(ValueError, match=r"chunk \(1, 0\) of shape \(20, 268435456\)"):
        check_chunks(like, ((1, 20), (1 << 28, 5)), dtype)
    check_chunks(like, ((1, float("nan")), (1 << 28, 5)), dtype)


def test_a_client_without_a_gpu_leaves_it_to_the_tasks():
    check_chunks(OnGpu(Device(0)), ((1 << 50,),), np.dtype(np.float64))


def solved(family, t):
    if family == "linear":
        return mgrec.linear_recurrence(0.5, t)
    return lfilter([0.2, 0.3], [1.0, -0.9, 0.5], t)


@pytest.mark.parametrize("family", ["linear", "filter"])
def test_every_family_refuses_large_chunks(monkeypatch, family):
    """On the client, and by the chunk's own name where the client knows no GPU or no sizes."""
    t = da.ones(100, chunks=25)
    known, unknown = solved(family, t), solved(family, t[t > 0])
    monkeypatch.setattr(memory, "is_on_gpu", lambda array: True)
    monkeypatch.setattr(memory, "_memory", lambda device: 300)
    with pytest.raises(ValueError, match=r"at most half.*chunk \(0,\) of shape \(25,\)"):
        solved(family, t)
    for array in (known, unknown):
        with pytest.raises(ValueError, match="at most half") as caught:
            array.compute(scheduler="sync")
        assert re.search(
            r"in the phase (speculate|precompute) of chunk \(", caught.value.__notes__[0]
        )


@pytest.mark.extended
def test_a_score_alone_takes_no_memory_of_a_table(monkeypatch):
    x = da.zeros(100, dtype="u1", chunks=25)
    monkeypatch.setattr(memory, "is_on_gpu", lambda array: True)
    monkeypatch.setattr(memory, "_memory", lambda device: 300)
    scores = {"match": 1, "mismatch": -1, "gap": -1}
    assert mgrec.smith_waterman(x, x, **scores).score.compute(scheduler="sync") == 100
    with pytest.raises(ValueError, match="at most half"):
        mgrec.smith_waterman(x, x, output="matrix", **scores)


def test_host_arrays_are_not_limited():
    check_chunk(np.empty(0), (1 << 60,), np.dtype(np.float64), (0,))


@pytest.mark.parametrize("serializers", [("dask", "pickle"), ("cuda", "dask", "pickle")])
def test_a_pack_travels_block_by_block(serializers):
    blocks = np.arange(6.0), np.ones((2, 3), np.float32)
    inputs = ChunkInputs(blocks, (1, 2), (10, 20))
    header, frames = serialize(inputs, serializers=serializers)
    assert header["serializer"] == serializers[0]
    assert sum(memoryview(frame).nbytes for frame in frames) < inputs.__sizeof__() + 1000
    again = deserialize(header, frames)
    assert (again.chunk_index, again.starts) == (inputs.chunk_index, inputs.starts)
    for got, wanted in zip(again.blocks, blocks, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_speculative_chunk_is_sent():
    results = (np.arange(1e5),)
    chunk = PendingChunk(
        ChunkInputs((), (1,), (10,)), Speculation(results, {"exit": 3.0}, np.ones(3)), (10**5,)
    )
    header, frames = serialize(chunk, serializers=("dask", "pickle"))
    assert header["serializer"] == "dask"
    assert sum(memoryview(frame).nbytes for frame in frames) < chunk.__sizeof__() + 2000
    again = deserialize(header, frames)
    assert (again.inputs, again.shape, again.speculation.summary) == (
        chunk.inputs,
        (10**5,),
        {"exit": 3.0},
    )
    np.testing.assert_array_equal(again.speculation.results[0], results[0])


# numba.cuda, which distributed moves CuPy arrays with, warns while it is imported.
@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")
@pytest.mark.gpu
def test_a_pack_of_gpu_blocks_goes_to_the_host_and_back():
    import cupy

    inputs = ChunkInputs((cupy.arange(6.0), cupy.ones(3, cupy.float32)), (1,), (10,))
    header, frames = serialize(inputs, serializers=("dask", "pickle"))
    assert not any(hasattr(frame, "__cuda_array_interface__") for frame in frames)
    again = deserialize(header, frames)
    assert all(type(block) is cupy.ndarray for block in again.blocks)
    assert (again.blocks[0] == inputs.blocks[0]).all()


@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")
@pytest.mark.gpu
def test_a_speculative_chunk_on_a_gpu_goes_to_the_host_and_back():
    import cupy

    speculation = Speculation((cupy.arange(6.0),), 3.0, cupy.ones(3), 24)
    header, frames = serialize(
        PendingChunk(ChunkInputs((), (1,), (10,)), speculation, (6,)), ("dask", "pickle")
    )
    assert not any(hasattr(frame, "__cuda_array_interface__") for frame in frames)
    again = deserialize(header, frames).speculation
    for got, wanted in (
        (again.results[0], speculation.results[0]),
        (again.prefix, speculation.prefix),
    ):
        assert type(got) is cupy.ndarray
        assert (got == wanted).all()


@pytest.mark.gpu
def test_memory_comes_from_whatever_allocator_is_set():
    """RMM's pools are set in this way."""
    import cupy

    asked, pool = [], cupy.cuda.MemoryPool()

    def allocate(size):
        asked.append(size)
        return pool.malloc(size)

    s, t = cupy.full(10_000, 0.5), cupy.ones(10_000)
    with cupy.cuda.using_allocator(allocate):
        w = mgrec.linear_recurrence(s, t)
    assert max(asked) >= w.nbytes
    assert pool.used_bytes() >= w.nbytes


LIVE = {"now": 0, "most": 0}


class Counted(np.ndarray):
    """Blocks that count how many there are."""


def _load(block, size):
    time.sleep(0.01)
    LIVE["now"] += 1
    LIVE["most"] = max(LIVE["most"], LIVE["now"])
    loaded = np.ones(size).view(Counted)
    loaded.token = _Token()
    return loaded


class _Token:
    def __del__(self):
        LIVE["now"] -= 1


@pytest.mark.extended
def test_chunks_in_memory_are_bounded_out_of_core(monkeypatch):
    """Chunks of a group's bytes or more: at most 8 are loaded at a time, of 60."""
    monkeypatch.setattr(chains, "GROUP_BYTES", 1)
    LIVE.update(now=0, most=0)
    chunk_indices = da.arange(60, chunks=1)
    t = da.map_blocks(_load, chunk_indices, 1000, chunks=(1000,), dtype=float, meta=np.empty(0))
    sink = np.zeros(60_000)
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        da.store(mgrec.linear_recurrence(0.5, t), sink, lock=False)
    np.testing.assert_allclose(sink[-1], 2.0)
    assert 1 <= LIVE["most"] <= 8, LIVE
