"""Kernels of varying filters, run on this machine, against the results of NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_on_host import DeviceArray

from mgrec.scans.matrix.cuda import segments
from mgrec.signal import lfilter

pytestmark = pytest.mark.usefixtures("on_host")
STEPS = 40
MARKS = np.arange(STEPS) % 17 == 5


@pytest.fixture(params=[1, pytest.param(7, marks=pytest.mark.extended), STEPS], autouse=True)
def shortest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of so many steps, in groups of 4."""
    monkeypatch.setattr(segments, "_SHORTEST", request.param)
    monkeypatch.setattr(segments, "GROUP", 4)


def placed(array: Any) -> Any:
    return None if array is None else np.array(array).view(DeviceArray)


@pytest.mark.parametrize("order", [2, pytest.param(5, marks=pytest.mark.extended)])
def test_varying_filters(order: int) -> None:
    generator = np.random.default_rng(order)
    x = generator.normal(size=(2, STEPS, 3))
    b = generator.normal(size=(STEPS, order + 1))
    a = generator.uniform(-0.9, 0.9, (STEPS, order + 1)) / order
    a[:, 0] = np.where(np.arange(STEPS) % 3, 1.0, 2.0)
    zi = generator.normal(size=(2, order, 1))
    for reset in (None, MARKS):
        wanted = lfilter(b, a, x, axis=1, zi=zi, reset=reset)
        results = lfilter(*map(placed, (b, a, x)), axis=1, zi=placed(zi), reset=placed(reset))
        for result, exact in zip(results, wanted, strict=True):
            assert isinstance(result, DeviceArray)
            np.testing.assert_allclose(result, exact, rtol=1e-12, atol=1e-13)
    out = placed(np.empty(STEPS))
    constant = b[0]  # in host memory
    assert lfilter(constant, placed(a), placed(x[0, :, 0]), out=out) is out
    np.testing.assert_allclose(out, lfilter(constant, a, x[0, :, 0]), rtol=1e-12, atol=1e-13)
    narrow = [array.astype(np.float32) for array in (b, a, x[0, :, 0])]
    np.testing.assert_allclose(lfilter(*map(placed, narrow)), lfilter(*narrow), rtol=1e-6)
