"""Launches: what a run fills in, in which order things happen, and what is prepared once."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import dask.array as da
import numpy as np
import pytest
from cuda_on_host import HostCompiler, numpy_as_cupy
from distributed import Client
from internals import divide_into_segments
from places import on_gpu, to_host

import mgrec
from mgrec import hmm
from mgrec.core.algebra.transfer_map import affine
from mgrec.core.arrays.chunk import Chunk
from mgrec.engines.cuda import device, launches
from mgrec.engines.cuda.launches import EPOCH, SPACE, Launch, PreparedLaunches, Slot, run_launches


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is compiled and launched, in order; no kernel runs."""
    found: list[Any] = []

    def compile_kernel(text: str, name: str, shared_bytes: int, *, is_fused: bool) -> Any:
        found.append(("compile", name, shared_bytes, is_fused))
        return lambda *given: found.append(("launch", name, *given))

    monkeypatch.setattr(launches, "compile_kernel", compile_kernel)
    return found


def test_a_run_fills_slots_and_asks_functions(events: list[Any]) -> None:
    pair = Slot(1, (2, 5))
    launch = Launch("", "one", 3, 32, (Slot(0), *pair, np.int64(7), lambda: "kept"), 16, True)
    run_launches(launch, values=("x", ("y", "z")))
    arguments = ("x", "y", "z", np.int64(7), "kept")
    assert events == [("compile", "one", 16, True), ("launch", "one", 3, 32, arguments, 16, True)]


def test_launches_share_what_is_reserved_once_all_are_compiled(events: list[Any]) -> None:
    def reserve() -> tuple[Any, ...]:
        events.append("reserve")
        return "space", len(events)

    first = Launch("", "first", 1, 32, (Slot(0), SPACE, EPOCH))
    again = Launch("", "again", 1, 32, first.arguments, is_fused=False)
    call = PreparedLaunches(first, again, reserve=reserve)
    call(("x",))
    call(("y",))
    assert [event[:2] for event in events[:2]] == [("compile", "first"), ("compile", "again")]
    assert [event[4] for event in events if event[0] == "launch"] == [
        ("x", "space", 3),
        ("x", "space", 3),
        ("y", "space", 6),
        ("y", "space", 6),
    ]


def array(ptr: int) -> Any:
    return SimpleNamespace(shape=(1, 9, 1), dtype=np.dtype("f4"), data=SimpleNamespace(ptr=ptr))


def test_chunks_of_a_kind_are_prepared_once(events: list[Any], monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "cupy", numpy_as_cupy())

    def prepare(transfer_map: Any, chunk: Chunk, carry_in: Any, results: Any) -> Any:
        return PreparedLaunches(Launch("", "kernel", 1, 32, (*chunk.operands, *results)))

    for ptr in (512, 1024, 1028):
        given = array(ptr), array(0)
        chunk = Chunk(given[:1], (1, 9, 1), np.dtype("f4"))
        launches.run_cached(prepare, affine, chunk, (), given[1:])
        assert events[-1][4] == given
    # The last one is aligned otherwise.
    assert [event[0] for event in events] == ["compile", "launch", "launch", "compile", "launch"]


def test_much_memory_is_of_one_launch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", numpy_as_cupy())
    monkeypatch.setattr(device, "_local", SimpleNamespace())
    monkeypatch.setattr(device, "_MAX_CACHED_WORDS", 10)
    (first, one), (again, two) = device.reserve_descriptors(10), device.reserve_descriptors(9)
    assert first is again
    assert (one, two) == (1, 2)
    large, epoch = device.reserve_descriptors(11)
    assert (large.size, epoch) == (11, 1)
    assert device.reserve_descriptors(11)[0] is not large


def test_plans_summarise_a_chunk_once(on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs do so twice, if it has several segments, and have the same bits."""
    divide_into_segments(monkeypatch, 7)
    generator = np.random.default_rng(3)
    frames = da.from_array(generator.normal(size=(40, 3)), chunks=((25, 15), 3)).map_blocks(on_gpu)
    model = np.full(3, 1 / 3), generator.dirichlet(np.ones(3), 3), frames
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 1}
    with (
        Client(**options, dashboard_address=None) as client,
        mgrec.plan(hmm.forward_backward, *model, client=client) as plan,
    ):
        on_host.launches.clear()
        results = plan()
        names = [name for name, *_ in on_host.launches]
        assert names.count("summarise_kernel") == names.count("determine_kernel") == 2
        for result, other in zip(results, hmm.forward_backward(*model), strict=True):
            np.testing.assert_array_equal(to_host(result.compute()), to_host(other))


@pytest.mark.gpu
@pytest.mark.hardware
def test_blocks_that_wait_for_each_other_fit_the_gpu() -> None:
    """Fewer, which CuPy would launch, might wait for ever. A new thread has no context yet."""
    text = 'extern "C" __global__ void wait(int* x) {}'
    launch = Launch(text, "wait", 1, 32, (np.int64(0),), is_cooperative=True)
    run_launches(launch)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(run_launches, launch).result()
    with pytest.raises(RuntimeError, match=r"needs 100000 of them at once; this GPU runs \d+"):
        run_launches(Launch(text, "wait", 100_000, 32, (np.int64(0),), is_cooperative=True))
