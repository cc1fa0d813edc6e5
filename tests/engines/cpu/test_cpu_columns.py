"""Kernels for the sizes of a call."""

import pytest

from mgrec.engines.cpu import columns


def test_a_long_call_says_once_that_it_compiles_kernels_for_its_sizes(caplog: pytest.LogCaptureFixture):
    columns.log_sizes.cache_clear()
    with caplog.at_level("INFO", "mgrec"):
        columns.as_lengths((2, 1), columns.MIN_STEPS_FOR_SIZES - 1)
        assert not caplog.messages
        for _ in range(2):
            columns.as_lengths((2, 1), columns.MIN_STEPS_FOR_SIZES)
    (message,) = caplog.messages
    assert f"{columns.MIN_STEPS_FOR_SIZES} steps or more" in message
    assert "the sizes (2, 1)" in message
