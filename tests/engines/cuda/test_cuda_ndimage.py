"""Launches of filters of images: what they need of a device, and what is prepared once."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_on_host import use_device
from places import on_gpu, to_host

from mgrec.engines.cuda.device import Device
from mgrec.ndimage import cuda, gaussian_filter, uniform_filter, uniform_filter1d

pytestmark = pytest.mark.usefixtures("on_host")


def test_wide_windows_do_not_need_memory_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    use_device(monkeypatch, Device(90, 100, 1000))
    for shape, axis in [((700,), 0), ((3, 512), 1), ((300, 40), 0), ((2, 130, 3), 1)]:
        x = np.random.default_rng(0).uniform(-1, 1, shape)
        result = to_host(uniform_filter1d(on_gpu(x), 90, axis))
        np.testing.assert_allclose(result, uniform_filter1d(x, 90, axis), rtol=0, atol=1e-14)


def test_calls_of_a_signature_are_prepared_once() -> None:
    x = on_gpu(np.ones((50, 40)))
    for _ in range(3):
        gaussian_filter(x, 2)
        uniform_filter(x, 3)
    assert cuda._prepare.cache_info().misses == 2
    assert cuda._prepare_windows.cache_info().misses == 2
    gaussian_filter(x, 3)
    assert cuda._prepare.cache_info().misses == 4
