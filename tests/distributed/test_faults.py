"""A worker is lost, at every phase: nothing else is, and every bit is as if it had lived."""

import uuid

import dask.array as da
import numpy as np
import pytest
from click.testing import CliRunner
from clusters import scaled, two_workers, wait_until, wait_until_started
from distributed import Client, KilledWorker, wait
from distributed.client import futures_of
from faults import CHUNKS, SIZE, DieAt, Trouble, assert_same_bits, claim, claimed, die, solved

from mgrec import Coefficient, linear_recurrence
from mgrec.cli.command import main
from mgrec.cli.solve import fill

zarr = pytest.importorskip("zarr")

WORKERS = 2


@pytest.fixture(scope="module")
def new_client():
    with two_workers() as client:
        yield client


@pytest.fixture
def client(new_client):
    """A client of a cluster that has got over the last test."""
    wait_until_started(new_client, WORKERS)
    return new_client


@pytest.fixture(scope="module")
def undisturbed(new_client):
    """The results of a cluster that nothing happens to, each computed when it is needed."""

    class Results(dict):
        def __missing__(self, family):
            self[family] = solved(family, "calm").compute()
            return self[family]

    return Results()


@pytest.fixture
def plugin(client):
    """Install a plugin on all workers, and on those that come."""
    installed = []

    def install(plugin):
        client.register_plugin(plugin)
        installed.append(plugin.name)

    yield install
    for name in installed:
        client.unregister_worker_plugin(name)


def fresh(family, trouble=None):
    """The same numbers under new keys: nothing of an earlier run is found."""
    return solved(family, uuid.uuid4().hex, trouble)


DEATHS = [
    ("linear", "precompute", 20, "executing"),
    ("tridiagonal", "determine", 20, "executing"),
    *(
        pytest.param(*death, marks=pytest.mark.extended)
        for death in (
            ("filter", "precompute", 5, "memory"),
            ("linear", "pack", 20, "memory"),
            ("linear", "propagate", 1, "executing"),
            ("linear", "determine", 35, "executing"),
            ("linear", "determine", 35, "memory"),
            ("custom", "determine", 3, "executing"),
            ("filter", "propagate", 0, "memory"),
            ("filter", "determine", 39, "executing"),
            ("tridiagonal", "pack", 7, "memory"),
            ("tridiagonal", "precompute", 7, "executing"),
            ("tridiagonal", "propagate", 0, "executing"),
        )
    ),
]


@pytest.mark.parametrize(("family", "prefix", "number", "moment"), DEATHS)
def test_a_worker_dies_in(plugin, undisturbed, tmp_path, family, prefix, number, moment):
    plugin(DieAt(str(tmp_path), prefix, number, moment=moment))
    result = fresh(family).compute()
    assert claimed(tmp_path, "death") == 1
    assert_same_bits(result, undisturbed[family])


@pytest.mark.extended
def test_workers_die_twice_in_a_row(plugin, undisturbed, tmp_path):
    plugin(DieAt(str(tmp_path), "propagate", 1, times=2))
    result = fresh("linear").compute()
    assert claimed(tmp_path, "death") == 2
    assert_same_bits(result, undisturbed["linear"])


@pytest.mark.extended
def test_a_worker_dies_while_it_loads(client, undisturbed, tmp_path):
    result = fresh("linear", Trouble(str(tmp_path), "die", [17])).compute()
    assert claimed(tmp_path, "die") == 1
    assert_same_bits(result, undisturbed["linear"])


class DyingStore:
    """A store whose reader, and whose writer, dies once with half of a chunk done."""

    def __init__(self, path, folder):
        self.path, self.folder = path, str(folder)
        self.shape, self.dtype, self.ndim = (CHUNKS * SIZE,), np.dtype(float), 1

    def __getitem__(self, index):
        (steps,) = index
        if steps.start == 9 * SIZE and claim(self.folder, "reading", 1):
            self._open()[steps.start : steps.start + SIZE // 2]
            die()
        return self._open()[steps]

    def __setitem__(self, index, values):
        (steps,) = index
        if steps.start == 9 * SIZE and claim(self.folder, "writing", 1):
            self._open()[steps.start : steps.start + SIZE // 2] = values[: SIZE // 2]
            die()
        self._open()[steps] = values

    def _open(self):
        return zarr.open_array(self.path, mode="r+")


@pytest.fixture
def t():
    return da.from_array(np.random.default_rng(7).normal(size=CHUNKS * SIZE), chunks=SIZE)


@pytest.fixture
def store(tmp_path, t):
    path = tmp_path / "t.zarr"
    t.to_zarr(path)
    return DyingStore(path, tmp_path)


@pytest.mark.extended
def test_a_worker_dies_while_it_reads_and_writes_stores(client, tmp_path, store, t):
    array = da.from_array(store, chunks=SIZE, asarray=False)
    expected = linear_recurrence(0.5, t).compute()
    assert_same_bits(linear_recurrence(0.5, array).compute(), expected)
    assert claimed(tmp_path, "reading") == 1
    fill(store, linear_recurrence(0.5, t), client, "Writing", "steps")
    assert claimed(tmp_path, "writing") == 1
    assert_same_bits(zarr.open_array(store.path, mode="r")[:], expected)


def test_a_worker_dies_under_the_command(client, plugin, tmp_path, store, t):
    out = tmp_path / "w.zarr"
    plugin(DieAt(str(tmp_path), "determine", 9))
    address = client.cluster.scheduler_address
    arguments = ["linear", "0.5", store.path, "-o", out, "--cluster", address, "--chunk", SIZE]
    run = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert run.exit_code == 0, run.output
    assert claimed(tmp_path, "death") == 1
    expected = linear_recurrence(0.5, t).compute()
    assert_same_bits(zarr.open_array(out, mode="r")[:], expected)
    assert not list(tmp_path.glob(".w.*"))


def test_a_chunk_that_kills_its_workers_is_given_up(tmp_path):
    """On a cluster of its own: a worker that dies as it starts may not come again (Dask 2026.7)."""

    def allow_one_failure(dask_scheduler):
        dask_scheduler.allowed_failures = 1

    with two_workers() as client:
        client.register_plugin(DieAt(str(tmp_path), "determine", 7, times=2))
        client.run_on_scheduler(allow_one_failure)
        # The scheduler blames any task that the worker had.
        with pytest.raises(KilledWorker, match=r"\('\w+-\w+', \d+\) on 2 different workers"):
            fresh("linear").compute()
    assert claimed(tmp_path, "death") == 2


def test_retries_are_those_of_compute(client, undisturbed, tmp_path):
    trouble = Trouble(str(tmp_path), "raise", [11], times=3)
    with pytest.raises(OSError, match="the disk is away"):
        fresh("linear", trouble).compute()
    assert_same_bits(fresh("linear", trouble).compute(retries=2), undisturbed["linear"])
    assert claimed(tmp_path, "raise") == 3


def decayed(step):
    if step == 7 * SIZE + 3:
        raise ValueError("no such step")
    return 0.5


def test_a_function_that_raises_names_its_chunk(client, t):
    with pytest.raises(ValueError, match="no such step") as caught:
        linear_recurrence(Coefficient(decayed), t).compute()
    (note,) = caught.value.__notes__
    assert f"of chunk (7,), which begins at [{7 * SIZE}]" in note


@pytest.mark.parametrize("family", ["linear", "filter"])
@pytest.mark.extended
def test_a_worker_that_joins_late_takes_its_part(client, undisturbed, tmp_path, family):
    """Each worker waits in a load, the late one too."""
    result = fresh(family, Trouble(str(tmp_path), "wait", range(4, CHUNKS), CHUNKS)).persist()
    try:
        wait_until(lambda: claimed(tmp_path, "wait") == WORKERS)
        with scaled(client, WORKERS + 1):
            wait_until(lambda: claimed(tmp_path, "wait") == WORKERS + 1)
            (tmp_path / "open").touch()
            wait(result)
    finally:
        (tmp_path / "open").touch()
    assert_same_bits(result.compute(), undisturbed[family])


def test_what_is_cancelled_leaves_nothing(client, undisturbed, tmp_path):
    array = fresh("linear", Trouble(str(tmp_path), "wait", [20]))
    futures = futures_of(array.persist())
    wait_until(lambda: claimed(tmp_path, "wait"))
    client.cancel(futures)
    (tmp_path / "open").touch()
    wait_until(lambda: not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))
    wait_until(lambda: not any(client.run(lambda dask_worker: dict(dask_worker.data)).values()))
    assert {future.status for future in futures} == {"cancelled"}
    # The very keys that were cancelled.
    assert_same_bits(array.compute(), undisturbed["linear"])


def test_two_clients_share_a_cluster(client, undisturbed, tmp_path):
    """The same solve and another one; the client that began leaves in the middle."""
    shared = fresh("linear", Trouble(str(tmp_path), "wait", [20]))
    with (
        Client(client.cluster.scheduler_address, set_as_default=False) as second,
        Client(client.cluster.scheduler_address, set_as_default=False) as third,
    ):
        first = second.persist(shared)
        again, other = third.compute(shared), third.compute(fresh("filter"))
        wait_until(lambda: claimed(tmp_path, "wait"))
        second.close()
        del first
        (tmp_path / "open").touch()
        assert_same_bits(again.result(), undisturbed["linear"])
        assert_same_bits(other.result(), undisturbed["filter"])


def test_the_bits_of_other_numbers_differ(undisturbed):
    """What all tests here rest on can fail."""
    with pytest.raises(AssertionError):
        assert_same_bits(solved("linear", "other", seed=1).compute(), undisturbed["linear"])
