"""Short sequences are aligned by the scores of long ones."""

import pytest
from internals import align_in_bytes


@pytest.fixture(scope="module", autouse=True)
def in_bytes():
    with pytest.MonkeyPatch.context() as patch:
        align_in_bytes(patch)
        yield
