"""Casts keep every number, subnormal ones too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mgrec.core.arrays.array_types import cast

SPECIAL = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 1.1754942e-38, -1.17549435e-38, 1.0, -3.4028235e38, np.inf, -np.inf]
).astype("f4")


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_an_array_of_the_dtype_is_not_copied(dtype: str) -> None:
    x = np.ones(3, dtype)
    assert cast(x, np.dtype(dtype)) is x
    swapped = x.astype(x.dtype.newbyteorder(">"))
    np.testing.assert_array_equal(cast(swapped, np.dtype(dtype)), x)


@pytest.mark.gpu
@pytest.mark.parametrize(("narrow", "wide"), [("f4", "f8"), ("f4", "c16"), ("c8", "c16")])
def test_subnormal_numbers_stay_on_a_gpu(narrow: str, wide: str) -> None:
    cupy: Any = pytest.importorskip("cupy", reason="CuPy is not installed")
    x = np.tile(SPECIAL, (6, 1))
    if narrow == "c8":
        x = np.stack([x, x[:, ::-1]], axis=-1).view("c8")[..., 0]
    for layout in (x, x.T, x[::2, 1::3]):
        got = cast(cupy.asarray(layout), np.dtype(wide)).get()
        assert got.dtype == wide
        np.testing.assert_array_equal(got, layout.astype(wide))
        for part in ("real", "imag"):
            signs = np.signbit(getattr(layout.astype(wide), part))
            np.testing.assert_array_equal(np.signbit(getattr(got, part)), signs)
    assert np.isnan(cast(cupy.full(3, np.nan, narrow), np.dtype(wide)).get()).all()


@pytest.mark.gpu
def test_a_state_of_float32_enters_a_recurrence_in_float64_as_it_is() -> None:
    cupy: Any = pytest.importorskip("cupy", reason="CuPy is not installed")
    import mgrec

    s, t = cupy.full(5, 2.0), cupy.zeros(5)
    got = mgrec.linear_recurrence(s, t, initial=cupy.asarray(np.float32(1e-45)))
    np.testing.assert_array_equal(got.get(), float(np.float32(1e-45)) * 2.0 ** np.arange(1, 6))
