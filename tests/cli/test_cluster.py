"""Which cluster opens by which name."""

import importlib.util
import socket

import dask
import psutil
import pytest

from mgrec.cli import cluster, failure, machine

GPU = machine.Gpu("H100", 81559, "580.65")


@pytest.mark.parametrize(
    ("gpus", "has_dask_cuda", "name"),
    [([GPU], True, "cuda"), ([GPU], False, "threads"), ([], True, "threads")],
)
def test_auto_is_cuda_if_available(monkeypatch, gpus, has_dask_cuda, name):
    def start(name, threads):
        raise InterruptedError(name)

    monkeypatch.setattr(cluster, "gpus", lambda: gpus)
    monkeypatch.setattr(cluster, "_start", start)
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: has_dask_cuda or None)
    with pytest.raises(InterruptedError, match=name), cluster.open_cluster("auto"):
        pass


@pytest.mark.parametrize(
    ("gpus", "expected"), [([], "needs an NVIDIA GPU"), ([GPU], "pip install .*dask-cuda")]
)
def test_cuda_without_gpu_or_dask_cuda_is_refused(monkeypatch, gpus, expected):
    monkeypatch.setattr(cluster, "gpus", lambda: gpus)
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(failure.BadInput, match=expected), cluster.open_cluster("cuda"):
        pass


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        ("foo://bar", "unknown address scheme 'foo' .*'tcp', 'tls'"),
        ("tcp://127.0.0.1", "missing port number"),
        ("tls://127.0.0.1:1", "TLS"),
        ("tcp://127.0.0.1:1", "Timed out trying to connect"),
        ("", "cannot be reached"),
    ],
)
def test_no_client_is_started_without_a_scheduler(monkeypatch, scheduler, expected):
    # A client that fails to start hangs for 20 s when it is thrown away.
    monkeypatch.setattr(cluster, "Client", lambda *_, **__: pytest.fail("a client was started"))
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        scheduler = scheduler or f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(failure.BadInput, match=expected), cluster.open_cluster(scheduler):
            pass


def test_a_cluster_of_threads_listens_on_this_machine_alone():
    def listening():
        connections = psutil.Process().net_connections()
        return {c.laddr for c in connections if c.status == psutil.CONN_LISTEN}

    before = listening()
    with cluster.open_cluster("threads"):
        opened = listening() - before
    assert {address.ip for address in opened} == {"127.0.0.1"}


def test_a_running_cluster_has_workers_whatever_its_client_asks_meanwhile(address):
    # Every so often the client asks the scheduler about all but its workers (Dask 2026.7).
    with dask.config.set({"distributed.client.scheduler-info-interval": "1 ms"}):
        for _ in range(10):
            with cluster.open_cluster(address) as client:
                assert cluster.describe(client) == (1, 2)
