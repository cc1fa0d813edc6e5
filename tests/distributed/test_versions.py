"""Workers without mgrec, or with another version, are named before they are lost."""

import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import two_workers
from distributed import Client
from internals import run_command

import mgrec
import mgrec.dask
from mgrec.distributed import versions

WORKER = """
import sys

sys.modules["mgrec"] = None  # find_spec finds nothing, and imports fail
from distributed.cli.dask_worker import main

main([sys.argv[1], "--no-nanny", "--no-dashboard", "--nthreads", "1"])
"""


@pytest.fixture(scope="module")
def client():
    """A client of a worker of this process, and of one that lacks mgrec and joins later."""
    with two_workers(n_workers=1, processes=False, protocol="tcp://") as client:
        address = client.cluster.scheduler_address
        with Client(address, set_as_default=False) as client.early:
            mgrec.plan(mgrec.linear_recurrence, 0.5, da.ones(4), client=client.early).close()
            with subprocess.Popen([sys.executable, "-c", WORKER, address]) as process:
                try:
                    client.wait_for_workers(2)
                    yield client
                finally:
                    process.kill()


@pytest.fixture
def lacking(client):
    own = client.cluster.workers[0].address
    (address,) = client.nthreads().keys() - {own}
    return address


def assert_names(error, *workers):
    assert f"workers must have mgrec {mgrec.__version__}, as the client; " in error
    assert all(f"{address} has {version}" in error for address, version in workers)
    assert error.count("tcp://") == len(workers)


def from_mgrec():
    return mgrec.linear_recurrence(0.5, da.ones(40, chunks=10))


CALLS = {
    "warm_up": lambda: mgrec.dask.warm_up(mgrec.linear_recurrence, 0.5, da.ones(40, chunks=10)),
    "plan": lambda: mgrec.plan(mgrec.linear_recurrence, 0.5, from_mgrec()),
    "plan of a function": lambda: mgrec.plan(lambda t: t + from_mgrec(), from_mgrec()),
    "solve": lambda: mgrec.dask.solve(mgrec.linear_recurrence, 0.5, from_mgrec()),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_worker_without_mgrec_is_named_and_stays(client, lacking, call):
    with pytest.raises(RuntimeError) as raised:
        call()
    assert_names(str(raised.value), (lacking, "none"))
    assert lacking in client.nthreads()


def test_a_worker_that_joins_later_is_named_by_a_plan_that_needs_it(client, lacking):
    with dask.annotate(workers=[lacking]):
        t = client.early.persist(da.ones(40, chunks=10) + 0, optimize_graph=False)
    with pytest.raises(RuntimeError) as raised:
        mgrec.plan(mgrec.linear_recurrence, 0.5, t, client=client.early)
    assert_names(str(raised.value), (lacking, "none"))
    assert lacking in client.nthreads()


def test_the_command_names_a_worker_without_mgrec(client, lacking, tmp_path):
    np.save(tmp_path / "t.npy", np.ones(100))
    address = client.scheduler.address
    files = tmp_path / "t.npy", "-o", tmp_path / "w.npy"
    result = run_command("linear", "0.5", *files, "--cluster", address)
    assert result.exit_code == 2
    assert_names(result.stderr.replace(address, "the scheduler"), (lacking, "none"))
    assert lacking in client.nthreads()


def test_a_worker_with_another_version_is_named(client, lacking):
    client.run(pretend, "0.0.9", workers=[lacking])
    try:
        with pytest.raises(RuntimeError) as raised:
            CALLS["warm_up"]()
        assert_names(str(raised.value), (lacking, "0.0.9"))
        client.run(pretend, mgrec.__version__, workers=[lacking])
        client.sync(versions.check_workers, client)
    finally:
        client.run(pretend, None, workers=[lacking])


def _pretend():
    def pretend(version):
        import sys
        import types

        package = version and types.SimpleNamespace(__version__=version, __spec__="a spec")
        sys.modules["mgrec"] = package

    return pretend


pretend = _pretend()  # pickled by value
