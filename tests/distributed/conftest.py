"""The cluster of tests that need no cluster of their own."""

import pytest
from clusters import two_workers


@pytest.fixture(scope="module")
def client():
    """Of workers in this process, whose messages are serialized as between machines."""
    with two_workers(processes=False, protocol="tcp://") as client:
        yield client
