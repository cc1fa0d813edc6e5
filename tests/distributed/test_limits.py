"""Chunks that are too large, and packs on their way: with stand-ins for GPU arrays."""

from __future__ import annotations

import re
import time
import weakref
from dataclasses import dataclass

import dask.array as da
import numpy as np
import pytest
from clusters import two_workers
from distributed.protocol import deserialize, serialize

import mgrec
from mgrec.core.backends import Backend
from mgrec.core.contract.kernels import Speculation
from mgrec.core.contract.recurrence import ChunkInputs
from mgrec.distributed.graph import chains
from mgrec.distributed.memory import check_chunk, check_chunks
from mgrec.distributed.tasks import SpeculativeChunk
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
    # The largest chunk is named before anything runs.
    with pytest.raises(ValueError, match=r"chunk \(1, 0\) of shape \(20, 536870912\)"):
        check_chunks(like, ((1, 20), (1 << 29, 5)), dtype)
    check_chunks(like, ((1, float("nan")), (1 << 29, 5)), dtype)
    # A client without a GPU leaves it to the tasks, and host arrays are not limited.
    check_chunks(OnGpu(Device(0)), ((1 << 50,),), dtype)
    check_chunk(np.empty(0), (1 << 60,), dtype, (0,))


def solved(family, t):
    if family == "linear":
        return mgrec.linear_recurrence(0.5, t)
    return lfilter([0.2, 0.3], [1.0, -0.9, 0.5], t)


@pytest.mark.parametrize("family", ["linear", "filter"])
def test_every_family_refuses_large_chunks(monkeypatch, family):
    """On the client, and by the chunk's own name where the client knows no GPU or no sizes."""
    t = da.ones(100, chunks=25)
    known, unknown = solved(family, t), solved(family, t[t > 0])
    monkeypatch.setattr(Backend, "memory_size", lambda backend, array: 300)
    with pytest.raises(ValueError, match=r"at most half.*chunk \(0,\) of shape \(25,\)"):
        solved(family, t)
    for array in (known, unknown):
        with pytest.raises(ValueError, match="at most half") as caught:
            array.compute(scheduler="sync")
        assert re.search(r"in the phase (speculate|precompute) of chunk \(", caught.value.__notes__[0])


@pytest.mark.extended
def test_a_score_alone_takes_no_memory_of_a_table(monkeypatch):
    x = da.zeros(100, dtype="u1", chunks=25)
    monkeypatch.setattr(Backend, "memory_size", lambda backend, array: 300)
    scores = {"match": 1, "mismatch": -1, "gap": -1}
    assert mgrec.smith_waterman(x, x, **scores).score.compute(scheduler="sync") == 100
    with pytest.raises(ValueError, match="at most half"):
        mgrec.smith_waterman(x, x, output="matrix", **scores)


def sent(value, serializers=("dask", "pickle")):
    """A value that has travelled, in few bytes."""
    header, frames = serialize(value, serializers=serializers)
    assert header["serializer"] == serializers[0]
    assert sum(memoryview(frame).nbytes for frame in frames) < value.__sizeof__() + 2000
    return deserialize(header, frames)


def assert_same_arrays(found, wanted):
    for one, two in zip(found, wanted, strict=True):
        assert type(one) is type(two)
        assert (one == two).all()


def pack(xp):
    return ChunkInputs((xp.arange(6.0), xp.ones((2, 3), "f4")), (1, 2), (10, 20))


def speculative(xp):
    speculation = Speculation((xp.arange(1e5),), {"exit": 3.0}, xp.ones(3))
    return SpeculativeChunk((), (1,), (10,), speculation=speculation, shape=(10**5,))


@pytest.mark.parametrize("serializers", [("dask", "pickle"), ("cuda", "dask", "pickle")])
def test_a_pack_travels_block_by_block(serializers):
    inputs = pack(np)
    again = sent(inputs, serializers)
    assert (again.chunk_index, again.starts) == (inputs.chunk_index, inputs.starts)
    assert_same_arrays(again.blocks, inputs.blocks)


def test_a_speculative_chunk_is_sent():
    chunk = speculative(np)
    again = sent(chunk)
    assert type(again) is SpeculativeChunk
    assert (again.chunk_index, again.starts, again.shape) == (chunk.chunk_index, chunk.starts, chunk.shape)
    assert again.speculation.summary == chunk.speculation.summary
    assert_same_arrays(again.speculation.results, chunk.speculation.results)


# numba.cuda, which distributed moves CuPy arrays with, warns while it is imported.
@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")
@pytest.mark.gpu
def test_what_is_on_a_gpu_goes_to_the_host_and_back():
    import cupy

    for value in (pack(cupy), speculative(cupy)):
        _, frames = serialize(value, serializers=("dask", "pickle"))
        assert not any(hasattr(frame, "__cuda_array_interface__") for frame in frames)
    assert_same_arrays(sent(pack(cupy)).blocks, pack(cupy).blocks)
    again, wanted = sent(speculative(cupy)).speculation, speculative(cupy).speculation
    assert_same_arrays((*again.results, again.prefix), (*wanted.results, wanted.prefix))


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


class Loaded:
    """The loaded arrays in memory, which any thread may free, and the most that there have been."""

    now, most = set[object](), 0


def _load(block, size):
    time.sleep(0.01)
    array, token = np.ones(size), object()
    Loaded.now.add(token)
    Loaded.most = max(Loaded.most, len(Loaded.now))
    weakref.finalize(array, Loaded.now.discard, token)
    return array


@pytest.mark.extended
def test_chunks_in_memory_are_bounded_out_of_core(monkeypatch):
    """Chunks of a group's bytes or more: at most 8 are loaded at a time, of 60."""
    monkeypatch.setattr(chains, "GROUP_BYTES", 1)
    indices = da.arange(60, chunks=1)
    t = da.map_blocks(_load, indices, 1000, chunks=(1000,), dtype=float, meta=np.empty(0))
    sink = np.zeros(60_000)
    with two_workers(n_workers=1, processes=False):
        da.store(mgrec.linear_recurrence(0.5, t), sink, lock=False)
    np.testing.assert_allclose(sink[-1], 2.0)
    assert 1 <= Loaded.most <= 8
