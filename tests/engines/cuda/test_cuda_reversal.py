"""Reversed copies of CuPy arrays, run on this machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_on_host import DeviceArray

from mgrec.core.arrays.chunk import reversed_copy


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c16", "i1"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 64), 1), ((48,), 0), ((3, 5), 1), ((4, 64), 0)])
def test_rows_are_reversed(shape: Any, axis: int, dtype: str, on_host: Any) -> None:
    x = np.random.default_rng(1).normal(size=shape).astype(dtype)
    copy = reversed_copy(x.view(DeviceArray), axis)
    assert copy.flags.c_contiguous
    np.testing.assert_array_equal(np.array(copy), np.flip(x, axis))
    is_launched = any(kernel == "reverse_kernel" for kernel, *_ in on_host.launches)
    has_words = x.itemsize > 1 and axis == x.ndim - 1 and shape[-1] * x.itemsize % 16 == 0
    assert is_launched == has_words
