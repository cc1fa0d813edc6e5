"""Which cluster opens by which name."""

import importlib.util

import dask
import pytest

from mgrec.cli import cluster, devices, failure

GPU = devices.Gpu("H100", 81559, "580.65")


@pytest.mark.parametrize(
    ("gpus", "has_dask_cuda", "name"),
    [([GPU], True, "cuda"), ([GPU], False, "local"), ([], True, "local"), ([], False, "local")],
)
def test_the_default_is_cuda_where_it_can_be(monkeypatch, gpus, has_dask_cuda, name):
    monkeypatch.setattr(cluster, "gpus", lambda: gpus)
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: has_dask_cuda or None)
    assert cluster.default_cluster() == name


@pytest.mark.parametrize(
    ("gpus", "told"),
    [([], "needs an NVIDIA GPU"), ([GPU], r"pip install 'mgrec\[cuda13\]'")],
)
def test_cuda_says_what_it_needs(monkeypatch, gpus, told):
    monkeypatch.setattr(cluster, "gpus", lambda: gpus)
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(failure.BadInput, match=told), cluster.open_cluster("cuda"):
        pass


def test_a_running_cluster_is_described(address):
    with cluster.open_cluster(address) as client:
        assert cluster.describe(client) == (1, 2)


def test_a_running_cluster_has_workers_whatever_its_client_asks_meanwhile(address):
    # Every so often the client asks the scheduler about all but its workers (Dask 2026.7).
    with dask.config.set({"distributed.client.scheduler-info-interval": "1 ms"}):
        for _ in range(40):
            with cluster.open_cluster(address):
                pass
