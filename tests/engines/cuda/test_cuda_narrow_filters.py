"""CUDA kernels of filters that read and write float16 and bfloat16, run on this machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_on_host import DeviceArray

from mgrec.signal import lfilter, sosfilt

pytestmark = [pytest.mark.usefixtures("on_host"), pytest.mark.extended]
B, A = np.array([0.25, 0.5, 0.25], "f2"), np.array([1.0, -0.5, 0.25], "f2")
LONG = np.array([1.0, -0.999], "f2")


def as_device(array: Any) -> Any:
    return np.ascontiguousarray(array).view(DeviceArray)


def narrow(name: str) -> np.dtype[Any]:
    if name == "float16":
        return np.dtype(np.float16)
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 2000), 1), ((2, 1003), 1), ((2, 500, 3), 1), ((1, 70, 40), 1)]
)
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_filters(name: str, shape: Any, axis: int) -> None:
    x = np.random.default_rng(4).normal(size=shape).astype(narrow(name))
    for a in (A, LONG):
        y = lfilter(B, a, as_device(x), axis)
        wanted = lfilter(B, a, x, axis)
        assert y.dtype == wanted.dtype == x.dtype
        assert (np.array(y) == wanted).mean() > 0.999
        np.testing.assert_allclose(*(w.astype("f4") for w in (np.array(y), wanted)), rtol=0.01)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_states_are_float32(name: str) -> None:
    x = np.random.default_rng(5).normal(size=(2, 300)).astype(narrow(name))
    zi = np.zeros((1, 2, 2), "f4")
    (y, zf), (wanted, last) = (sosfilt([[*B, *A]], array, zi=zi) for array in (as_device(x), x))
    assert y.dtype == x.dtype
    assert zf.dtype == last.dtype == np.float32
    np.testing.assert_allclose(np.array(zf), last, rtol=1e-6)
    np.testing.assert_array_equal(np.array(y), wanted)
