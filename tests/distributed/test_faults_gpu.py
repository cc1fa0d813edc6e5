"""Workers with GPUs are killed at every phase; nothing else is lost, and every bit is the same.

One worker a GPU with dask-cuda; where it is not installed, or there is one GPU, two workers that
share a GPU. What a worker held on its GPU goes with its process.
"""

import uuid

import dask
import numpy as np
import pytest
from clusters import cluster_of_gpus, on_gpu, to_host, wait_until_started
from distributed import Client
from faults import DieAt, Trouble, assert_same_bits, claimed, solved

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def new_client():
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        cluster_of_gpus() as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def client(new_client):
    wait_until_started(new_client, 2)
    return new_client


def run(client, family, trouble=None):
    """The result under new keys, computed on GPUs, and brought to the host chunk by chunk."""
    result = solved(family, uuid.uuid4().hex, trouble, like=on_gpu)
    return result.map_blocks(to_host, meta=np.empty(0)).compute()


@pytest.fixture(scope="module")
def undisturbed(new_client):
    return {family: run(new_client, family) for family in ("linear", "custom")}


@pytest.fixture
def plugin(client):
    def install(plugin):
        client.register_plugin(plugin)

    yield install
    client.unregister_worker_plugin("die-at")


@pytest.mark.parametrize(
    ("family", "prefix", "number", "moment"),
    [
        ("linear", "precompute", 20, "executing"),
        ("linear", "propagate", 1, "executing"),
        ("linear", "determine", 35, "executing"),
        ("linear", "determine", 35, "memory"),
        ("custom", "precompute", 3, "memory"),
        ("custom", "determine", 3, "executing"),
    ],
)
def test_a_worker_dies_in(client, plugin, undisturbed, tmp_path, family, prefix, number, moment):
    plugin(DieAt(str(tmp_path), prefix, number, moment=moment))
    result = run(client, family)
    assert claimed(tmp_path, "death") == 1
    assert_same_bits(result, undisturbed[family])


def test_workers_die_twice_in_a_row(client, plugin, undisturbed, tmp_path):
    plugin(DieAt(str(tmp_path), "propagate", 1, times=2))
    result = run(client, "linear")
    assert claimed(tmp_path, "death") == 2
    assert_same_bits(result, undisturbed["linear"])


def test_a_worker_dies_while_it_loads(client, undisturbed, tmp_path):
    result = run(client, "linear", Trouble(str(tmp_path), "die", [17]))
    assert claimed(tmp_path, "die") == 1
    assert_same_bits(result, undisturbed["linear"])


def test_the_results_are_those_of_the_processors(undisturbed):
    for family, found in undisturbed.items():
        expected = solved(family, "host").compute(scheduler="sync")
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
