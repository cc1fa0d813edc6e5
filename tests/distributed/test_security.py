"""A cluster over TLS, what crosses it, and that plans open no ports."""

import pickle
from dataclasses import fields, is_dataclass

import dask
import dask.array as da
import numpy as np
import psutil
import pytest
from clusters import OPTIONS, on_both
from distributed import Client, LocalCluster, Security
from internals import run_command

import mgrec
from mgrec.signal import lfilter


@pytest.fixture(scope="module")
def security():
    pytest.importorskip("cryptography", reason="needs cryptography: pip install cryptography")
    return Security.temporary()


@pytest.fixture(scope="module")
def cluster(security):
    options = {"protocol": "tls://", "security": security, "processes": False}
    with LocalCluster(n_workers=2, **options, **OPTIONS) as cluster:
        yield cluster


@pytest.fixture
def t():
    return da.from_array(np.random.default_rng(7).normal(size=1000), chunks=100)


def listening(dask_worker=None):
    """The ports on which this process listens, with the workers in it."""
    return {c.laddr for c in psutil.Process().net_connections() if c.status == psutil.CONN_LISTEN}


def test_solves_over_tls_open_no_ports(cluster, security, t):
    """Its messages are Dask's, from the client to the workers and from one to the other."""
    with Client(cluster, security=security, set_as_default=False) as client:
        wanted = mgrec.linear_recurrence(0.5, t).compute(scheduler="sync")
        np.testing.assert_array_equal(client.compute(mgrec.linear_recurrence(0.5, t)).result(), wanted)
        (t,) = on_both(client, t)
        before = listening().union(*client.run(listening).values())
        with mgrec.plan(mgrec.linear_recurrence, 0.5, t, client=client) as solve:
            results = [solve(), solve.submit(0.5, t), mgrec.linear_recurrence(0.5, t)]
            assert len(solve._shards) == 2
            for result in results:
                np.testing.assert_array_equal(client.compute(result).result(), wanted)
            comms = [stream.comm for stream in solve._session.streams.values()]
            assert all(comm.peer_address.startswith("tls://") for comm in comms)
            # Clusters of earlier tests may close theirs.
            assert listening() <= before
            assert all(ports <= before for ports in client.run(listening).values())


def test_a_plan_over_web_sockets_is_encrypted(security, t):
    options = {"protocol": "wss://", "security": security, "processes": False}
    cluster = LocalCluster(n_workers=2, **options, **OPTIONS)
    with cluster, Client(cluster, security=security, set_as_default=False) as client:
        x = client.persist(t)
        with mgrec.plan(mgrec.linear_recurrence, 0.5, x, client=client) as solve:
            found = client.compute(solve()).result()
            comms = [stream.comm for stream in solve._session.streams.values()]
            assert all(comm.peer_address.startswith("wss://") for comm in comms)
    np.testing.assert_array_equal(found, mgrec.linear_recurrence(0.5, t).compute())


@pytest.fixture
def certificates(security, tmp_path):
    """As a user has them: files that Dask's configuration names."""
    texts = {
        "ca-file": security.tls_ca_file,
        "client.cert": security.tls_client_cert,
        "client.key": security.tls_client_key,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {f"distributed.comm.tls.{name}": str(tmp_path / name) for name in texts}


@pytest.fixture
def command(cluster, tmp_path, t):
    np.save(tmp_path / "t.npy", t.compute())

    def run():
        arguments = ["linear", "0.5", tmp_path / "t.npy", "-o", tmp_path / "w.npy"]
        arguments += ["--chunk", 100, "--cluster", cluster.scheduler_address]
        return run_command(*arguments)

    return run


def test_the_command_over_tls(command, certificates, tmp_path, t):
    with dask.config.set(certificates):
        result = command()
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(tmp_path / "w.npy"), mgrec.linear_recurrence(0.5, t).compute())


def test_without_certificates_the_cluster_is_out_of_reach(command, tmp_path):
    result = command()
    assert result.exit_code == 2
    assert "cannot be reached" in result.stderr
    assert not (tmp_path / "w.npy").exists()


def kinds_of(value):
    """The types of all that a result is made of."""
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif is_dataclass(value):
        parts = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, (tuple, list)):
        parts = value
    else:
        return {type(value)}
    return set().union(*map(kinds_of, parts)) if parts else set()


PLAIN = {np.ndarray, np.float64, np.dtypes.Float64DType, bool, int, float, str, type(None)}


def growing(i, x):
    """A coefficient whose chunks no few scalars summarise: their steps cross in their place."""
    return x * 1e200


def crossing(array, prefix):
    """The results of all tasks of one phase."""
    graph = array.__dask_graph__()
    keys = [key for key in graph if isinstance(key, tuple) and str(key[0]).startswith(prefix)]
    assert keys
    return dask.get(graph, keys)


@pytest.mark.parametrize("prefix", ["precompute-", "propagate-"])
@pytest.mark.parametrize(
    "family", ["linear", pytest.param("redone", marks=pytest.mark.extended), "custom", "filter"]
)
def test_what_crosses_a_chunk_boundary_holds_no_code(t, family, prefix):
    results = {
        "linear": lambda: mgrec.linear_recurrence(t * 0.1, t),
        "redone": lambda: mgrec.linear_recurrence(mgrec.Coefficient(growing, t), t),
        "custom": lambda: mgrec.scan(mgrec.maps.max_plus, t, t, initial=0.0),
        "filter": lambda: lfilter([0.2, 0.3], [1.0, -0.9, 0.5], t),
    }
    for value in crossing(results[family](), prefix):
        assert kinds_of(value) <= PLAIN, kinds_of(value)
        assert len(pickle.dumps(value)) < 8 * t.nbytes // t.npartitions


def test_code_among_data_is_seen():
    assert not kinds_of((1.0, (np.sin,))) <= PLAIN
