"""One small cluster for all tests of the command, reached as any running cluster is."""

import signal

import pytest
from distributed import LocalCluster
from internals import run_command


@pytest.fixture(autouse=True)
def interruptible():
    """Handle SIGINT, which background jobs of a shell ignore, and SIGHUP, which nohup ignores."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    ignored = [number for number in handlers if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, handlers[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def cluster():
    with LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address=":0",
    ) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def address(cluster):
    return cluster.scheduler_address


@pytest.fixture
def mgrec():
    """Run the command in this process and folder: ``mgrec("linear", ...)``."""
    return run_command
